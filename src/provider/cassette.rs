//! Replay: answers without a network, beneath the decoder, so that the same code runs.
//!
//! A cassette is a directory that a recording wrote, or one YAML file (its format is described in
//! `script.rs`). A recording is:
//!
//! ```text
//! cassette.json                     {"format": "lightsout-cassette", "version": 1}
//! JOB/PROMPT/0001.request.json      the request in its normal form, pretty-printed
//! JOB/PROMPT/0001.response.json     status, headers, times, how it broke; or why there was none
//! JOB/PROMPT/0001.response.body     the bytes of the answer
//! ```
//!
//! The times are for people; a replay does not wait, except where a YAML file says so.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::job::Matching;
use crate::message::{Billing, Failure, FailureKind, Usage};
use crate::net::{Fault, FaultKind};

use super::normalise::{Normaliser, Places, first_difference};
use super::script::{Script, Scripted};
use super::transport::{Transport, WireBody, WireRequest, WireResponse};

/// The manifest's name, and what is in it.
pub(super) const MANIFEST: &str = "cassette.json";
pub(super) const FORMAT: &str = "lightsout-cassette";
pub(super) const FORMAT_VERSION: u64 = 1;

/// A cassette that cannot be used, or cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CassetteError(pub(super) String);

impl fmt::Display for CassetteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CassetteError {}

/// Recorded or hand-written answers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cassette {
    path: PathBuf,
    content: Content,
    model: Option<String>,
}

#[derive(Clone, Debug)]
enum Content {
    Recorded,
    Script(Arc<Script>),
}

impl Cassette {
    /// Opens a directory that a recording wrote, or reads and checks one YAML file.
    pub fn open(path: &Path) -> Result<Self, CassetteError> {
        let bad = |cause: &dyn fmt::Display| {
            CassetteError(format!("opening the cassette {}: {cause}", path.display()))
        };
        if !path.is_dir() {
            let yaml = std::fs::read_to_string(path).map_err(|error| bad(&error))?;
            let script = Script::parse(&yaml).map_err(|cause| bad(&cause))?;
            return Ok(Self {
                path: path.to_owned(),
                model: script.model.clone(),
                content: Content::Script(Arc::new(script)),
            });
        }
        let manifest = std::fs::read(path.join(MANIFEST))
            .map_err(|error| bad(&format_args!("{MANIFEST}: {error}")))?;
        let manifest: Value = serde_json::from_slice(&manifest)
            .map_err(|error| bad(&format_args!("{MANIFEST}: {error}")))?;
        if manifest["format"] != FORMAT || manifest["version"] != FORMAT_VERSION {
            return Err(bad(&format_args!(
                "{MANIFEST} says {manifest}, and format {FORMAT:?}, version {FORMAT_VERSION} is supported"
            )));
        }
        Ok(Self {
            path: path.to_owned(),
            content: Content::Recorded,
            model: recorded_model(path),
        })
    }

    /// The model that was recorded (that of the first prompt by name), or that the YAML file names.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }
}

fn recorded_model(path: &Path) -> Option<String> {
    let conversation = recorded_prompts(path).into_iter().next()?;
    let request = conversation.join(file_name(1, "request.json"));
    let request: Value = serde_json::from_slice(&std::fs::read(request).ok()?).ok()?;
    request["model"].as_str().map(str::to_owned)
}

/// The directories `JOB/PROMPT` of a recording, sorted.
fn recorded_prompts(path: &Path) -> Vec<PathBuf> {
    let directories = |path: &Path| {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
    };
    let mut prompts: Vec<PathBuf> = directories(path)
        .flat_map(|job| directories(&job))
        .collect();
    prompts.sort();
    prompts
}

/// `JOB/PROMPT` as two directories; what a file system might not take is escaped as in a URL.
pub(super) fn directory(prompt: &str) -> PathBuf {
    let (job, prompt) = prompt.rsplit_once('/').unwrap_or(("", prompt));
    [job, prompt].iter().map(|part| escaped(part)).collect()
}

fn escaped(part: &str) -> String {
    let mut name = String::with_capacity(part.len());
    for byte in part.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        // A name of dots alone is another directory.
        if is_plain || (byte == b'.' && !name.is_empty()) {
            name.push(char::from(byte));
        } else {
            // Writing to memory does not fail.
            let _ = write!(name, "%{byte:02X}");
        }
    }
    if name.is_empty() {
        "%".to_owned()
    } else {
        name
    }
}

/// The file of request `number` (from 1) that ends in `end`.
pub(super) fn file_name(number: usize, end: &str) -> String {
    format!("{number:04}.{end}")
}

/// How an answer came about: what `NNNN.response.json` holds.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Recorded {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<u16>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) headers: Vec<(String, String)>,
    /// From the request to the headers, and to the end of the body.
    #[serde(default)]
    pub(super) headers_ms: u64,
    #[serde(default)]
    pub(super) duration_ms: u64,
    /// There was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<RecordedFailure>,
    /// The answer broke behind its recorded bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) broken: Option<RecordedFault>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordedFailure {
    pub(super) kind: String,
    pub(super) message: String,
    /// Whether it may have cost something.
    pub(super) sent: bool,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordedFault {
    pub(super) kind: String,
    pub(super) message: String,
}

const FAULT_NAMES: [(FaultKind, &str); 4] = [
    (FaultKind::Broken, "broken"),
    (FaultKind::Ended, "ended"),
    (FaultKind::Idle, "idle"),
    (FaultKind::Protocol, "protocol"),
];

impl RecordedFault {
    pub(super) fn of(fault: &Fault) -> Self {
        let name = FAULT_NAMES.iter().find(|(kind, _)| *kind == fault.kind);
        Self {
            kind: name.map_or("broken", |(_, name)| name).to_owned(),
            message: fault.message.clone(),
        }
    }

    fn fault(&self) -> Fault {
        let kind = FAULT_NAMES.iter().find(|(_, name)| *name == self.kind);
        Fault {
            kind: kind.map_or(FaultKind::Broken, |(kind, _)| *kind),
            sent: true,
            message: self.message.clone(),
        }
    }
}

impl RecordedFailure {
    fn failure(&self) -> Failure {
        const KINDS: [FailureKind; 5] = [
            FailureKind::Connection,
            FailureKind::IdleTimeout,
            FailureKind::Truncated,
            FailureKind::Invalid,
            FailureKind::Protocol,
        ];
        let kind = KINDS.into_iter().find(|kind| kind.name() == self.kind);
        let mut failure = Failure::new(kind.unwrap_or(FailureKind::Connection), &self.message);
        if self.sent {
            failure.billing = Billing::Unknown(Usage::default());
        }
        failure
    }
}

/// The transport that is a cassette: one conversation's answers in order.
pub(super) struct Replay {
    what: String,
    prompt: String,
    answers: Answers,
    position: AtomicUsize,
    idle_timeout: Duration,
    stop: Arc<Stop>,
}

enum Answers {
    Recorded {
        directory: PathBuf,
        count: usize,
        /// Whether requests must be the recorded ones.
        strict: Option<Normaliser>,
    },
    Scripted(Vec<Scripted>),
}

impl Replay {
    /// A YAML file has no requests to compare with, so `matching` is of no matter there.
    pub(super) fn new(
        cassette: &Cassette,
        prompt: &str,
        matching: Matching,
        places: &Places,
        idle_timeout: Duration,
    ) -> Result<Self, CassetteError> {
        let what = format!("replaying {}", cassette.path.display());
        let answers = match &cassette.content {
            Content::Script(script) => {
                let id = prompt.rsplit('/').next().unwrap_or(prompt);
                let replies = script.replies(id).ok_or_else(|| {
                    CassetteError(format!("{what}: it has no replies for the prompt {id:?}"))
                })?;
                Answers::Scripted(replies.to_vec())
            }
            Content::Recorded => {
                let directory = cassette.path.join(directory(prompt));
                let mut count = 0;
                while directory
                    .join(file_name(count + 1, "response.json"))
                    .exists()
                {
                    count += 1;
                }
                if count == 0 {
                    return Err(no_recording(&what, prompt, &cassette.path));
                }
                let strict = match matching {
                    Matching::Strict => Some(Normaliser::new(places)),
                    Matching::Order => None,
                };
                Answers::Recorded {
                    directory,
                    count,
                    strict,
                }
            }
        };
        Ok(Self {
            what,
            prompt: prompt.to_owned(),
            answers,
            position: AtomicUsize::new(0),
            idle_timeout,
            stop: Arc::default(),
        })
    }

    fn fail(&self, cause: impl fmt::Display) -> Failure {
        Failure::new(FailureKind::Cassette, format!("{}: {cause}", self.what))
    }

    fn recorded(
        &self,
        directory: &Path,
        number: usize,
        strict: Option<&Normaliser>,
        request: &WireRequest<'_>,
    ) -> Result<Scripted, Failure> {
        let read = |end: &str| {
            let path = directory.join(file_name(number, end));
            std::fs::read(&path)
                .map_err(|error| self.fail(format_args!("{}: {error}", path.display())))
        };
        let not_json = |end: &str, error: serde_json::Error| {
            let path = directory.join(file_name(number, end));
            self.fail(format_args!("{}: {error}", path.display()))
        };
        if let Some(normaliser) = strict {
            let recorded: Value = serde_json::from_slice(&read("request.json")?)
                .map_err(|error| not_json("request.json", error))?;
            let now: Value = serde_json::from_str(&request.body.concat())
                .map_err(|error| self.fail(format_args!("the request is no JSON: {error}")))?;
            if let Some(difference) = first_difference(&recorded, &normaliser.normal(now)) {
                return Err(self.fail(format_args!(
                    "request {number} of {} departs from the recorded one at {}: recorded {}, now {}",
                    self.prompt, difference.path, difference.recorded, difference.now
                )));
            }
        }
        let recorded: Recorded = serde_json::from_slice(&read("response.json")?)
            .map_err(|error| not_json("response.json", error))?;
        if let Some(failure) = recorded.failure {
            return Err(failure.failure());
        }
        let mut steps = vec![Step::Bytes(read("response.body")?)];
        steps.extend(recorded.broken.map(|broken| Step::Fault(broken.fault())));
        Ok(Scripted {
            status: recorded.status.unwrap_or(200),
            headers: recorded.headers,
            delay: Duration::ZERO,
            steps,
        })
    }
}

fn no_recording(what: &str, prompt: &str, path: &Path) -> CassetteError {
    let there: Vec<String> = recorded_prompts(path)
        .iter()
        .filter_map(|prompt| Some(prompt.strip_prefix(path).ok()?.display().to_string()))
        .collect();
    let there = if there.is_empty() {
        "none".to_owned()
    } else {
        there.join(", ")
    };
    CassetteError(format!(
        "{what}: it has no recording of {prompt:?}; it has: {there}"
    ))
}

impl Transport for Replay {
    fn what(&self) -> &str {
        &self.what
    }

    fn open(&self, request: &WireRequest<'_>) -> Result<WireResponse, Failure> {
        let position = self.position.fetch_add(1, Ordering::SeqCst);
        let count = match &self.answers {
            Answers::Recorded { count, .. } => *count,
            Answers::Scripted(replies) => replies.len(),
        };
        if position >= count {
            return Err(self.fail(format_args!(
                "it has {count} replies for {}, and this is request {}",
                self.prompt,
                position + 1
            )));
        }
        let answer = match &self.answers {
            Answers::Scripted(replies) => replies[position].clone(),
            Answers::Recorded {
                directory, strict, ..
            } => self.recorded(directory, position + 1, strict.as_ref(), request)?,
        };
        let mut delay = answer.delay;
        if delay > self.idle_timeout {
            delay = self.idle_timeout;
        }
        let unknown = Billing::Unknown(Usage::default());
        if !self.stop.wait(delay) {
            return Err(Failure {
                billing: unknown,
                ..self.fail("cancelled")
            });
        }
        if answer.delay > self.idle_timeout {
            let message = format!("{}: nothing came in time", self.what);
            let failure = Failure::new(FailureKind::IdleTimeout, message);
            return Err(Failure {
                billing: unknown,
                ..failure
            });
        }
        Ok(WireResponse {
            status: answer.status,
            headers: answer.headers,
            body: Box::new(Played {
                steps: answer.steps.into(),
                offset: 0,
                idle_timeout: self.idle_timeout,
                stop: Arc::clone(&self.stop),
            }),
        })
    }

    fn cancel(&self) {
        self.stop.set();
    }
}

/// One thing that happens to the reader of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Bytes(Vec<u8>),
    /// Nothing comes any more, and nothing ends it.
    Stall,
    Fault(Fault),
}

struct Played {
    steps: VecDeque<Step>,
    /// Bytes of the first step that were read.
    offset: usize,
    idle_timeout: Duration,
    stop: Arc<Stop>,
}

impl Read for Played {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.steps.front() {
                None => return Ok(0),
                Some(Step::Bytes(bytes)) => {
                    let rest = &bytes[self.offset..];
                    let count = rest.len().min(buffer.len());
                    buffer[..count].copy_from_slice(&rest[..count]);
                    self.offset += count;
                    if count > 0 {
                        return Ok(count);
                    }
                    self.offset = 0;
                    self.steps.pop_front();
                }
                Some(Step::Stall) => {
                    let kind = if self.stop.wait(self.idle_timeout) {
                        FaultKind::Idle
                    } else {
                        FaultKind::Broken
                    };
                    let message = "nothing came in time".to_owned();
                    return Err(io::Error::other(Fault {
                        kind,
                        sent: true,
                        message,
                    }));
                }
                Some(Step::Fault(fault)) => return Err(io::Error::other(fault.clone())),
            }
        }
    }
}

impl WireBody for Played {
    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

/// Set once; whoever waits is woken.
#[derive(Default)]
struct Stop {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn set(&self) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for `duration`; whether it was never set.
    fn wait(&self, duration: Duration) -> bool {
        let is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(is_set, duration, |is_set| !*is_set);
        let (is_set, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !*is_set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_has_a_directory_of_its_own_beneath_the_cassette() {
        for (prompt, expected) in [
            ("job/prompt-1", "job/prompt-1"),
            ("a b/c/p", "a%20b%2Fc/p"),
            ("../..", "%2E./%2E."),
            ("/p", "%/p"),
            ("größe/v1.2", "gr%C3%B6%C3%9Fe/v1.2"),
        ] {
            assert_eq!(directory(prompt), Path::new(expected), "{prompt}");
        }
    }

    #[test]
    fn what_is_no_cassette_says_why() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let error = |path: &Path| Cassette::open(path).unwrap_err().0;
        assert!(error(&path.join("missing.yaml")).contains("missing.yaml: No such file"));
        assert!(error(path).contains("cassette.json: No such file"));
        std::fs::write(
            path.join(MANIFEST),
            r#"{"format": "lightsout-cassette", "version": 2}"#,
        )
        .unwrap();
        assert!(error(path).contains("version 1 is supported"));
    }
}
