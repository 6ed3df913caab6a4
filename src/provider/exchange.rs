//! One request and its answer.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Deserialize;

use crate::job::Matching;
use crate::message::{
    Billing, BlockKind, Failure, FailureKind, Head, Reply, Request, ToolUse, Usage,
};
use crate::net::{Client, Fault, FaultKind, Network, SetupError};

use super::anthropic;
use super::assemble::{Assembler, StreamFault};
use super::cassette::{Cassette, CassetteError};
use super::http::HttpTransport;
use super::mask::Mask;
use super::normalise::Places;
use super::record::Recording;
use super::replay::Replay;
use super::sse::{Decoder, TooLong};
use super::transport::{Transport, WireRequest, WireResponse};
use super::{ApiKey, failure};

/// Larger bodies are not sent: the API takes 32 MB and drops the connection of a larger one without
/// saying why. Source: Anthropic API documentation, "Request size limits".
const MAX_BODY: usize = 30_000_000;
/// As much of an error's body is read.
const MAX_ERROR_BODY: u64 = 64 * 1024;
/// Pieces in which a stream is read.
const READ_SIZE: usize = 16 * 1024;

/// Keys shorter than this are not masked in messages.
const SHORTEST_SECRET: usize = 4;
/// What stands where the key stood.
const MASKED_KEY: &str = "[key]";

/// What happens while a reply streams.
#[derive(Debug, PartialEq)]
pub enum StreamEvent<'a> {
    /// The server has begun to answer: what could be cached is.
    Began,
    /// More visible text.
    TextDelta(&'a str),
    /// A call is whole, though the reply may not be.
    CallComplete(&'a ToolUse),
}

/// The time, as it is handed in.
#[derive(Clone)]
pub struct Clock {
    /// A clock that never goes back, from any start.
    pub steady: Arc<dyn Fn() -> Duration + Send + Sync>,
    /// The date, for a `retry-after` that is one.
    pub wall: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

/// What holds for every request of a conversation.
#[derive(Clone)]
pub struct Settings {
    /// No byte for this long is a fault.
    pub idle_timeout: Duration,
    /// The time.
    pub clock: Clock,
}

/// Where the Messages API is. It holds the key: no `Debug`.
#[derive(Clone)]
pub struct Endpoint {
    /// Such as `https://api.anthropic.com`; `/v1/messages` is appended.
    pub base_url: String,
    /// What authorises requests.
    pub key: ApiKey,
    /// Further headers (`ANTHROPIC_CUSTOM_HEADERS`), sent as they are.
    pub headers: Vec<(String, String)>,
    /// Proxies and certificates, shared by all conversations.
    pub network: Network,
}

/// A model's side of one conversation. Shared between threads; requests are sent one at a time.
pub struct Provider {
    transport: Box<dyn Transport>,
    settings: Settings,
    /// Masked in every message.
    secret: Option<String>,
    /// Stays true once set.
    is_cancelled: AtomicBool,
    memory: Mutex<Memory>,
}

/// What is kept from one request to the next.
#[derive(Default)]
struct Memory {
    /// The beginning of the bodies, serialised once.
    head: Option<(Arc<Head>, Arc<str>)>,
    /// Ids of the calls of this conversation.
    call_ids: HashSet<String>,
    /// Whether a history that came with the first request was looked through for ids.
    has_begun: bool,
}

impl Provider {
    /// The Messages API at `endpoint`. Nothing is sent yet.
    pub fn anthropic(endpoint: &Endpoint, settings: Settings) -> Result<Self, SetupError> {
        let url = format!("{}/v1/messages", endpoint.base_url.trim_end_matches('/'));
        let client = endpoint.network.client(&url, settings.idle_timeout)?;
        let mut headers = vec![
            ("content-type".to_owned(), "application/json".to_owned()),
            (
                "anthropic-version".to_owned(),
                anthropic::VERSION.to_owned(),
            ),
        ];
        headers.extend(endpoint.key.header());
        for (name, value) in &endpoint.headers {
            if !Client::is_header(name, value) {
                return Err(SetupError::new(format!(
                    "using the extra header {name:?}: its name or value cannot be sent"
                )));
            }
            headers.retain(|(header, _)| !header.eq_ignore_ascii_case(name));
            headers.push((name.to_lowercase(), value.clone()));
        }
        // A shorter one is part of ordinary words.
        let secret = endpoint
            .key
            .secret()
            .filter(|key| key.len() >= SHORTEST_SECRET)
            .map(str::to_owned);
        let transport = Box::new(HttpTransport::new(client, headers));
        Ok(Self::new(transport, settings, secret))
    }

    /// The replies of `cassette` for `prompt` (`JOB/PROMPT`), from the first. `places` are those of this
    /// run; the recording's own were taken out when it was made.
    pub fn replay(
        cassette: &Cassette,
        prompt: &str,
        matching: Matching,
        places: &Places,
        settings: Settings,
    ) -> Result<Self, CassetteError> {
        let replay = Replay::new(cassette, prompt, matching, places, settings.idle_timeout)?;
        Ok(Self::new(Box::new(replay), settings, None))
    }

    /// The same provider, which also writes every request and its answer beneath `dir`, as a cassette.
    /// An older recording of `prompt` (`JOB/PROMPT`) there is replaced. Every text in it goes through
    /// `mask`, which gives it back without its secrets; the pieces of a block in one, when it streams.
    pub fn recording(
        self,
        dir: &Path,
        prompt: &str,
        places: &Places,
        mask: Arc<dyn Fn(&str) -> String + Send + Sync>,
    ) -> Result<Self, CassetteError> {
        let mask: Mask = match self.secret.clone() {
            Some(secret) => Arc::new(move |text| mask(&text.replace(&secret, MASKED_KEY))),
            None => mask,
        };
        let clock = Arc::clone(&self.settings.clock.steady);
        let recording = Recording::new(self.transport, dir, prompt, places, mask, clock)?;
        Ok(Self {
            transport: Box::new(recording),
            ..self
        })
    }

    fn new(transport: Box<dyn Transport>, settings: Settings, secret: Option<String>) -> Self {
        Self {
            transport,
            settings,
            secret,
            is_cancelled: AtomicBool::new(false),
            memory: Mutex::default(),
        }
    }

    /// Sends `request` and blocks until the reply is whole; `on` hears what comes meanwhile, on this
    /// thread. Nothing is tried again.
    pub fn send(
        &self,
        request: &Request,
        on: &mut dyn FnMut(StreamEvent<'_>),
    ) -> Result<Reply, Failure> {
        let started = (self.settings.clock.steady)();
        let result = self.exchange(request, started, on);
        result.map_err(|mut failure| {
            // A closed connection looks like a broken one, so the flag decides.
            if self.is_cancelled.load(Ordering::SeqCst) {
                failure.kind = FailureKind::Cancelled;
                failure.message = format!("{}: cancelled", self.transport.what());
            }
            if failure.kind == FailureKind::IdleTimeout {
                let limit = self.settings.idle_timeout;
                failure.message = format!("{} (no byte for {limit:?})", failure.message);
            }
            if let Some(secret) = &self.secret {
                failure.message = failure.message.replace(secret.as_str(), MASKED_KEY);
            }
            failure
        })
    }

    /// A blocked [`send`](Self::send) returns at once with [`FailureKind::Cancelled`] (one that is still
    /// connecting within 10 s), and so does every later one.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::SeqCst);
        self.transport.cancel();
    }

    fn exchange(
        &self,
        request: &Request,
        started: Duration,
        on: &mut dyn FnMut(StreamEvent<'_>),
    ) -> Result<Reply, Failure> {
        let what = self.transport.what();
        if self.is_cancelled.load(Ordering::SeqCst) {
            return Err(Failure::new(FailureKind::Cancelled, "cancelled"));
        }
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.learn_ids(request);
        let head = memory.head(&request.head);
        let tail = anthropic::tail(request);
        let body = anthropic::body(&head, request, &tail);
        let size: usize = body.iter().map(|part| part.len()).sum();
        if size > MAX_BODY {
            return Err(Failure::new(
                FailureKind::PromptTooLong,
                format!("{what}: not sent: the body has {size} bytes, and {MAX_BODY} are the most"),
            ));
        }
        let response = self.transport.open(&WireRequest { body: &body })?;
        let request_id = failure::request_id(&response.headers);
        if response.status != 200 {
            return Err(self.error_answer(response));
        }
        let mut assembler = Assembler::new(request.number, &memory.call_ids);
        let streamed = self.stream(response, &mut assembler, on);
        streamed.map_err(|failure| Failure {
            request_id: failure.request_id.or_else(|| request_id.clone()),
            billing: match failure.billing {
                // An error as the first event is an error status that came late.
                Billing::Nothing if !assembler.has_begun() => Billing::Nothing,
                _ => Billing::Unknown(assembler.usage()),
            },
            had_output: assembler.has_output(),
            ..failure
        })?;
        let duration = (self.settings.clock.steady)().saturating_sub(started);
        let reply = assembler.into_reply(&request.head.model, request_id, duration);
        let ids = reply.calls.iter().map(|call| call.id.clone());
        memory.call_ids.extend(ids);
        Ok(reply)
    }

    /// What an answer with another status than 200 says.
    fn error_answer(&self, response: WireResponse) -> Failure {
        let WireResponse {
            status,
            headers,
            mut body,
        } = response;
        let mut bytes = Vec::new();
        // What can be read of it is enough: the status has said what matters.
        let _ = body.by_ref().take(MAX_ERROR_BODY).read_to_end(&mut bytes);
        let _ = body.finish();
        let text = String::from_utf8_lossy(&bytes);
        let now = (self.settings.clock.wall)();
        failure::of_status(self.transport.what(), status, &headers, &text, now)
    }

    /// Reads a stream into `assembler` until it is complete.
    fn stream(
        &self,
        response: WireResponse,
        assembler: &mut Assembler<'_>,
        on: &mut dyn FnMut(StreamEvent<'_>),
    ) -> Result<(), Failure> {
        let what = self.transport.what();
        let WireResponse {
            headers, mut body, ..
        } = response;
        let unsettled = |kind, message: String| Failure {
            billing: Billing::Unknown(Usage::default()),
            ..Failure::new(kind, message)
        };
        let mut decoder = Decoder::default();
        let mut buffer = vec![0; READ_SIZE];
        let mut is_first = true;
        while !assembler.is_complete() {
            let count = match body.read(&mut buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(read_failure(what, &error)),
            };
            if count == 0 {
                return Err(unsettled(
                    FailureKind::Truncated,
                    format!("{what}: the stream ended before the reply was whole"),
                ));
            }
            let bytes = &buffer[..count];
            if std::mem::take(&mut is_first) && !is_event_stream(&headers, bytes) {
                return Err(unsettled(
                    FailureKind::Protocol,
                    not_a_stream(what, &headers, bytes),
                ));
            }
            let fed = decoder.feed(bytes, &mut |data: &[u8]| assembler.take(data, on));
            fed.map_err(|fault| match fault {
                StreamFault::Error { error, request_id } => {
                    failure::of_stream_error(what, &error, request_id)
                }
                StreamFault::Protocol(cause) => {
                    unsettled(FailureKind::Protocol, format!("{what}: {cause}"))
                }
                StreamFault::Truncated(cause) => {
                    unsettled(FailureKind::Truncated, format!("{what}: {cause}"))
                }
            })?;
        }
        body.finish()
            .map_err(|error| unsettled(FailureKind::Cassette, format!("{what}: {error}")))
    }
}

impl Memory {
    fn head(&mut self, head: &Arc<Head>) -> Arc<str> {
        match &self.head {
            Some((of, text)) if Arc::ptr_eq(of, head) => Arc::clone(text),
            _ => {
                let text: Arc<str> = anthropic::head(head).into();
                self.head = Some((Arc::clone(head), Arc::clone(&text)));
                text
            }
        }
    }

    /// A resumed conversation begins with a history that other calls are in.
    fn learn_ids(&mut self, request: &Request) {
        #[derive(Deserialize)]
        struct Id {
            id: String,
        }
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let blocks = request.messages.iter().flat_map(|message| &message.blocks);
        let calls = blocks.filter(|block| block.kind() == BlockKind::ToolUse);
        let ids = calls.filter_map(|block| serde_json::from_str::<Id>(block.json()).ok());
        self.call_ids.extend(ids.map(|Id { id }| id));
    }
}

impl From<TooLong> for StreamFault {
    fn from(_: TooLong) -> Self {
        Self::Protocol("the stream has a line or an event of more than 32 MiB".to_owned())
    }
}

fn read_failure(what: &str, error: &std::io::Error) -> Failure {
    let unknown = Billing::Unknown(Usage::default());
    let fault = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Fault>());
    let Some(fault) = fault else {
        let failure = Failure::new(FailureKind::Cassette, format!("{what}: {error}"));
        return Failure {
            billing: unknown,
            ..failure
        };
    };
    let failure = failure::of_fault(what, fault);
    let kind = match fault.kind {
        FaultKind::Ended => FailureKind::Truncated,
        _ => failure.kind,
    };
    Failure {
        kind,
        billing: unknown,
        ..failure
    }
}

/// Whether an answer is a stream of events: it says so, or it looks like one.
fn is_event_stream(headers: &[(String, String)], start: &[u8]) -> bool {
    let content_type = failure::header(headers, "content-type").unwrap_or_default();
    if content_type
        .to_ascii_lowercase()
        .starts_with("text/event-stream")
    {
        return true;
    }
    let start = start
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(start)
        .trim_ascii_start();
    [&b":"[..], b"data", b"event", b"id", b"retry"]
        .iter()
        .any(|field| start.starts_with(field))
}

fn not_a_stream(what: &str, headers: &[(String, String)], start: &[u8]) -> String {
    let content_type = failure::header(headers, "content-type").unwrap_or("without a content type");
    format!(
        "{what}: the answer is no event stream but {content_type}: {}",
        anthropic::quote(start)
    )
}
