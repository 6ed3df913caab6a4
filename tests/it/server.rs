//! A scripted server that speaks the Messages API on loopback, with every fault a network can have.
//!
//! ```ignore
//! let server = Server::start([
//!     reply().text("I will look.").tool_use("Read", json!({"file_path": "a"})),
//!     status(529).error("overloaded_error", "Overloaded"),
//!     reply().text("Done."),
//! ]);
//! // … run something against server.url() …
//! let requests = server.finish();
//! ```
//!
//! Each request is checked as the API would check it: calls and results are paired in order, no text is
//! blank, nothing is there twice. What is wrong fails the test in [`Server::finish`], or at the latest
//! when the server is dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::requests::faults;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// From 0, over all connections.
    pub(crate) number: usize,
    /// Which connection it came on, from 0.
    pub(crate) connection: usize,
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) bytes: Vec<u8>,
    /// `null` when the body is no JSON.
    pub(crate) body: Value,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(header, _)| header == name);
        header.map(|(_, value)| value.as_str())
    }
}

/// What the server does with a request.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    content: Content,
    usage: Value,
    stop_reason: Option<String>,
    /// An error event stands in place of the end.
    error_event: Option<Value>,
    /// Sizes of the writes; without them each event is one.
    writes: Option<Vec<usize>>,
    delay: Duration,
    /// Bytes of the body after which something happens.
    limit: Option<usize>,
    end: End,
}

#[derive(Clone, Debug)]
enum Content {
    Blocks(Vec<Value>),
    Raw(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// The body ends properly and the connection is kept.
    Whole,
    /// The body ends properly and the connection is closed.
    Close,
    /// The connection is closed in the middle.
    Cut,
    /// The connection is reset.
    Reset,
    /// Nothing more comes.
    Stall,
}

/// A reply that streams, empty so far.
pub(crate) fn reply() -> Answer {
    Answer {
        status: 200,
        headers: vec![("content-type".into(), "text/event-stream".into())],
        content: Content::Blocks(Vec::new()),
        usage: json!({"input_tokens": 10, "output_tokens": 5}),
        stop_reason: None,
        error_event: None,
        writes: None,
        delay: Duration::ZERO,
        limit: None,
        end: End::Whole,
    }
}

/// An answer with another status and no body yet.
pub(crate) fn status(status: u16) -> Answer {
    Answer {
        status,
        headers: Vec::new(),
        content: Content::Raw(Vec::new()),
        ..reply()
    }
}

/// A stream of exactly these bytes.
pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Answer {
    Answer {
        content: Content::Raw(bytes.into()),
        ..reply()
    }
}

impl Answer {
    fn block(mut self, block: Value) -> Self {
        match &mut self.content {
            Content::Blocks(blocks) => blocks.push(block),
            Content::Raw(_) => panic!("a raw answer has no blocks"),
        }
        self
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.block(json!({"type": "text", "text": text}))
    }

    pub(crate) fn thinking(self, thinking: &str) -> Self {
        self.block(json!({"type": "thinking", "thinking": thinking, "signature": "c2lnbmF0dXJl"}))
    }

    /// A call with an id of its own.
    pub(crate) fn tool_use(self, name: &str, input: Value) -> Self {
        self.call(Value::Null, name, input)
    }

    pub(crate) fn tool_use_with_id(self, id: &str, name: &str, input: Value) -> Self {
        self.call(id.into(), name, input)
    }

    fn call(self, id: Value, name: &str, input: Value) -> Self {
        let mut block = json!({"type": "tool_use", "name": name});
        block["id"] = id;
        block["input"] = input;
        self.block(block)
    }

    pub(crate) fn stop_reason(self, stop_reason: &str) -> Self {
        let stop_reason = Some(stop_reason.into());
        Self {
            stop_reason,
            ..self
        }
    }

    /// The `usage` of the reply, as in the API.
    pub(crate) fn usage(self, usage: Value) -> Self {
        Self { usage, ..self }
    }

    /// The blocks are followed by an error event, and by nothing else.
    pub(crate) fn error_event(self, kind: &str, message: &str) -> Self {
        let error_event = Some(json!({"type": kind, "message": message}));
        Self {
            error_event,
            ..self
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(header, _)| header != name);
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The API's error body.
    pub(crate) fn error(self, kind: &str, message: &str) -> Self {
        let body = json!({"type": "error", "error": {"type": kind, "message": message}});
        self.body("application/json", &body.to_string())
    }

    pub(crate) fn body(self, content_type: &str, body: &str) -> Self {
        let content = Content::Raw(body.into());
        Self { content, ..self }.header("content-type", content_type)
    }

    /// The body is written in these sizes, the last again and again.
    pub(crate) fn writes(self, sizes: &[usize]) -> Self {
        let writes = Some(sizes.to_vec());
        Self { writes, ..self }
    }

    /// Waits before anything is written.
    pub(crate) fn delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Closes the connection behind a whole answer.
    pub(crate) fn close(self) -> Self {
        let end = End::Close;
        Self { end, ..self }
    }

    /// Closes the connection in the middle, after so many bytes of the body.
    pub(crate) fn cut_after(self, bytes: usize) -> Self {
        let (limit, end) = (Some(bytes), End::Cut);
        Self { limit, end, ..self }
    }

    /// Resets the connection after so many bytes of the body.
    pub(crate) fn reset_after(self, bytes: usize) -> Self {
        let (limit, end) = (Some(bytes), End::Reset);
        Self { limit, end, ..self }
    }

    /// Falls silent after so many bytes of the body; not even its end comes.
    pub(crate) fn stall_after(self, bytes: usize) -> Self {
        let (limit, end) = (Some(bytes), End::Stall);
        Self { limit, end, ..self }
    }

    /// The body in the pieces in which it is written.
    fn pieces(&self, number: usize) -> Vec<Vec<u8>> {
        let events = match &self.content {
            Content::Raw(bytes) => vec![bytes.clone()],
            Content::Blocks(blocks) => self.events(blocks, number),
        };
        let mut bytes = events.concat();
        let Some(sizes) = &self.writes else {
            return limited(events, self.limit);
        };
        let mut pieces = Vec::new();
        let mut sizes = sizes.iter().copied().filter(|size| *size > 0);
        let mut size = bytes.len().max(1);
        while !bytes.is_empty() {
            size = sizes.next().unwrap_or(size);
            let rest = bytes.split_off(size.min(bytes.len()));
            pieces.push(std::mem::replace(&mut bytes, rest));
        }
        limited(pieces, self.limit)
    }

    fn events(&self, blocks: &[Value], number: usize) -> Vec<Vec<u8>> {
        let message = json!({
            "id": format!("msg_{number}"), "type": "message", "role": "assistant", "content": [],
            "model": "claude-test", "stop_reason": null, "usage": self.usage,
        });
        let mut events = vec![json!({"type": "message_start", "message": message})];
        for (index, block) in blocks.iter().enumerate() {
            let id = format!("toolu_{number}_{index}");
            events.extend(block_events(index, block, &id));
        }
        if let Some(error) = &self.error_event {
            events.push(json!({"type": "error", "error": error}));
        } else {
            let has_calls = blocks.iter().any(|block| block["type"] == "tool_use");
            let implied = if has_calls { "tool_use" } else { "end_turn" };
            let stop_reason = self.stop_reason.as_deref().unwrap_or(implied);
            let output = json!({"output_tokens": self.usage["output_tokens"]});
            events.push(json!({
                "type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": output,
            }));
            events.push(json!({"type": "message_stop"}));
        }
        let wire = |event: &Value| {
            let kind = event["type"].as_str().unwrap_or_default();
            format!("event: {kind}\ndata: {event}\n\n").into_bytes()
        };
        events.iter().map(wire).collect()
    }
}

/// A block as it streams: begun, one delta for what grows, ended.
fn block_events(index: usize, block: &Value, id: &str) -> Vec<Value> {
    let mut start = block.clone();
    let mut deltas = Vec::new();
    match block["type"].as_str() {
        Some("text") => {
            start["text"] = "".into();
            deltas.push(json!({"type": "text_delta", "text": block["text"]}));
        }
        Some("thinking") => {
            start["thinking"] = "".into();
            start["signature"] = "".into();
            deltas.push(json!({"type": "thinking_delta", "thinking": block["thinking"]}));
            deltas.push(json!({"type": "signature_delta", "signature": block["signature"]}));
        }
        _ => {
            if start["id"].is_null() {
                start["id"] = id.into();
            }
            start["input"] = json!({});
            let input = block["input"].to_string();
            deltas.push(json!({"type": "input_json_delta", "partial_json": input}));
        }
    }
    let start = json!({"type": "content_block_start", "index": index, "content_block": start});
    let grow = |delta| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let stop = json!({"type": "content_block_stop", "index": index});
    let deltas = deltas.into_iter().map(grow);
    [start].into_iter().chain(deltas).chain([stop]).collect()
}

fn limited(pieces: Vec<Vec<u8>>, limit: Option<usize>) -> Vec<Vec<u8>> {
    let mut left = limit.unwrap_or(usize::MAX);
    let mut kept = Vec::new();
    for mut piece in pieces {
        piece.truncate(left);
        left -= piece.len();
        if !piece.is_empty() {
            kept.push(piece);
        }
    }
    kept
}

type Script = Box<dyn Fn(&Received) -> Option<Answer> + Send + Sync>;

struct Shared {
    script: Script,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    received: Vec<Received>,
    faults: Vec<String>,
    /// Shut down with the server.
    open: Vec<TcpStream>,
    is_down: bool,
}

/// A running server; it ends with this value.
pub(crate) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Server {
    /// Answers the requests in the order in which they come. One too many is a fault.
    pub(crate) fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let answers: Vec<Answer> = answers.into_iter().collect();
        Self::run(Box::new(move |request| {
            answers.get(request.number).cloned()
        }))
    }

    /// Answers each request by what it is.
    pub(crate) fn answering(answer: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        Self::run(Box::new(move |request| Some(answer(request))))
    }

    fn run(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let state = Mutex::default();
        let shared = Arc::new(Shared { script, state });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                let Ok(stream) = stream else { continue };
                let mut state = accepting.state.lock().unwrap();
                if state.is_down {
                    return;
                }
                state.open.extend(stream.try_clone());
                drop(state);
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || shared.converse(stream, connection));
            }
        });
        Self { address, shared }
    }

    /// The base URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Received> {
        self.shared.state.lock().unwrap().received.clone()
    }

    /// Ends the server and returns what it received; fails the test when a request was at fault.
    pub(crate) fn finish(self) -> Vec<Received> {
        let mut state = self.shared.state.lock().unwrap();
        let faults = std::mem::take(&mut state.faults);
        let received = state.received.clone();
        drop(state);
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        received
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock().unwrap();
        state.is_down = true;
        for stream in state.open.drain(..) {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let faults = std::mem::take(&mut state.faults);
        drop(state);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        if !std::thread::panicking() {
            assert!(faults.is_empty(), "{}", faults.join("\n"));
        }
    }
}

impl Shared {
    /// One connection, until it ends. What goes wrong with it is the client's to report.
    fn converse(&self, stream: TcpStream, connection: usize) {
        // Small writes are what is tested.
        let _ = stream.set_nodelay(true);
        let mut reader = BufReader::with_capacity(1, stream);
        while let Some(request) = self.receive(&mut reader, connection) {
            let scripted = (self.script)(&request);
            if scripted.is_none() {
                let fault = format!("request {} has no answer in the script", request.number);
                self.state.lock().unwrap().faults.push(fault);
            }
            let answer = scripted
                .unwrap_or_else(|| status(400).error("invalid_request_error", "not scripted"));
            std::thread::sleep(answer.delay);
            let stream = reader.get_mut();
            if answer.end != End::Reset {
                // The last byte was left in the socket, see `receive`.
                let _ = stream.read_exact(&mut [0]);
            }
            if write_answer(stream, &answer, request.number).is_err() || answer.end != End::Whole {
                if answer.end == End::Stall {
                    // Until the client or the test ends.
                    let _ = stream.read(&mut [0]);
                }
                if answer.end != End::Reset {
                    let _ = stream.shutdown(Shutdown::Both);
                }
                self.forget(stream);
                return;
            }
        }
    }

    /// Lets go of the other handle, so that dropping the stream closes it.
    fn forget(&self, stream: &TcpStream) {
        let peer = stream.peer_addr().ok();
        let mut state = self.state.lock().unwrap();
        state
            .open
            .retain(|open| peer.is_none() || open.peer_addr().ok() != peer);
    }

    /// Reads a request, all but the last byte of its body: closing a socket in which something is unread
    /// resets the connection, which is how [`Answer::reset_after`] works.
    fn receive(&self, reader: &mut BufReader<TcpStream>, connection: usize) -> Option<Received> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let mut first = lines.first()?.split(' ');
        let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
        let headers: Vec<(String, String)> = lines[1..]
            .iter()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length: usize = length.and_then(|(_, value)| value.parse().ok())?;
        let mut bytes = vec![0; length];
        let stream = reader.get_mut();
        stream.read_exact(&mut bytes[..length - 1]).ok()?;
        if stream.peek(&mut bytes[length - 1..]).ok()? == 0 {
            return None;
        }
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        let mut state = self.state.lock().unwrap();
        let number = state.received.len();
        let request = Received {
            number,
            connection,
            method,
            path,
            headers,
            bytes,
            body,
        };
        let faults = faults(&request.body);
        let faults = faults
            .into_iter()
            .map(|fault| format!("request {number}: {fault}"));
        state.faults.extend(faults);
        state.received.push(request.clone());
        Some(request)
    }
}

fn write_answer(stream: &mut TcpStream, answer: &Answer, number: usize) -> std::io::Result<()> {
    let request_id = ("request-id".to_owned(), format!("req_{number}"));
    let headers = answer.headers.iter().chain([&request_id]);
    let headers: Vec<String> = headers
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let head = format!(
        "HTTP/1.1 {} X\r\ntransfer-encoding: chunked\r\n{}\r\n",
        answer.status,
        headers.concat()
    );
    let pieces = answer.pieces(number);
    // A reset right away comes before any answer.
    if pieces.is_empty() && answer.end == End::Reset {
        return Ok(());
    }
    stream.write_all(head.as_bytes())?;
    for piece in pieces {
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend_from_slice(&piece);
        chunk.extend_from_slice(b"\r\n");
        stream.write_all(&chunk)?;
    }
    match answer.end {
        End::Whole | End::Close => stream.write_all(b"0\r\n\r\n"),
        End::Cut | End::Reset | End::Stall => Ok(()),
    }
}
