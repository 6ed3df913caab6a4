//! The provider against a server on loopback, and against what it recorded there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lightsout::job::Matching;
use lightsout::message::{
    Billing, Block, BlockKind, BlockPosition, Failure, FailureKind, Head, Message, Reply, Request,
    RequestNumber, Role, ToolInput, ToolResult, Usage,
};
use lightsout::net::{Environment, Network};
use lightsout::provider::{
    ApiKey, Cassette, Clock, Endpoint, Places, Provider, Settings, StreamEvent,
};
use serde_json::json;

use super::server::{Answer, Server, raw, reply, status};

const KEY: &str = "sk-test-0123456789";

fn settings(idle_timeout: Duration) -> Settings {
    let clock = Clock {
        steady: Arc::new(|| Duration::ZERO),
        wall: Arc::new(|| SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)),
    };
    Settings {
        idle_timeout,
        clock,
    }
}

fn patient() -> Settings {
    settings(Duration::from_secs(30))
}

fn places() -> Places {
    Places {
        workspace: "/home/ann/tree".into(),
        home: None,
    }
}

fn provider(url: &str, settings: Settings) -> Provider {
    let endpoint = Endpoint {
        base_url: url.to_owned(),
        key: ApiKey::x_api_key(KEY).unwrap(),
        headers: Vec::new(),
        network: Network::new(Environment::default()),
    };
    Provider::anthropic(&endpoint, settings).unwrap()
}

fn head() -> Arc<Head> {
    Arc::new(Head {
        model: "claude-asked".into(),
        system: "Be brief.".into(),
        tools: Vec::new(),
    })
}

fn user(text: &str) -> Arc<Message> {
    let blocks = Block::text(text).into_iter().collect();
    Arc::new(Message {
        role: Role::User,
        blocks,
    })
}

fn request(number: u32, messages: &[Arc<Message>]) -> Request {
    Request {
        number: RequestNumber(number),
        head: head(),
        max_tokens: 100,
        messages: messages.to_vec(),
        breakpoints: vec![BlockPosition {
            message: messages.len() - 1,
            block: 0,
        }],
    }
}

/// The history after `reply`, each of its calls answered with `answer`.
fn answered(mut history: Vec<Arc<Message>>, reply: &Reply, answer: &str) -> Vec<Arc<Message>> {
    let results = reply
        .calls
        .iter()
        .map(|call| Block::tool_result(&ToolResult::text(&call.id, answer, false)));
    let results: Vec<Block> = results.collect();
    let blocks = reply.blocks.clone();
    history.push(Arc::new(Message {
        role: Role::Assistant,
        blocks,
    }));
    history.push(Arc::new(Message {
        role: Role::User,
        blocks: results,
    }));
    history
}

fn send(provider: &Provider, request: &Request) -> Result<Reply, Failure> {
    provider.send(request, &mut |_| {})
}

/// One request to a server that answers so.
fn one(answer: Answer, settings: Settings) -> Result<Reply, Failure> {
    let server = Server::start([answer]);
    let provider = provider(&server.url(), settings);
    let result = send(&provider, &request(1, &[user("hi")]));
    assert_eq!(server.finish().len(), 1);
    result
}

#[test]
fn a_conversation_streams_and_goes_on_over_one_connection() {
    let server = Server::start([
        reply()
            .thinking("hm")
            .text("Looking.")
            .tool_use("Read", json!({"file_path": "a\nb"})),
        reply().text("Done.").writes(&[1]),
    ]);
    let provider = provider(&server.url(), patient());
    let history = vec![user("hi")];
    let mut heard = Vec::new();
    let first = provider.send(&request(1, &history), &mut |event| {
        heard.push(match event {
            StreamEvent::Began => "began".to_owned(),
            StreamEvent::TextDelta(text) => format!("text {text}"),
            StreamEvent::CallComplete(call) => format!("call {}", call.name),
        });
    });
    let first = first.unwrap();
    assert_eq!(heard, ["began", "text Looking.", "call Read"]);
    assert_eq!(
        first.calls[0].input,
        ToolInput::Json(json!({"file_path": "a\nb"}))
    );
    assert_eq!(
        (first.request_id.as_deref(), first.model.as_str()),
        (Some("req_0"), "claude-test")
    );
    let history = answered(history, &first, "contents");
    let second = send(&provider, &request(2, &history)).unwrap();
    assert_eq!(second.text, "Done.");

    let requests = server.finish();
    assert_eq!(
        requests
            .iter()
            .map(|request| request.connection)
            .collect::<Vec<_>>(),
        [0, 0]
    );
    let (one, two) = (&requests[0], &requests[1]);
    assert_eq!(
        (one.method.as_str(), one.path.as_str()),
        ("POST", "/v1/messages")
    );
    for (name, value) in [
        ("x-api-key", KEY),
        ("anthropic-version", "2023-06-01"),
        ("content-type", "application/json"),
        (
            "user-agent",
            concat!("lightsout/", env!("CARGO_PKG_VERSION")),
        ),
    ] {
        assert_eq!(one.header(name), Some(value));
    }
    assert_eq!(one.header("authorization"), None);
    // What was sent stays as it was, but for the moving cache mark.
    let mark = r#","cache_control":{"type":"ephemeral"}}]}],"max_tokens""#;
    let sent = std::str::from_utf8(&one.bytes)
        .unwrap()
        .split(mark)
        .next()
        .unwrap();
    assert!(std::str::from_utf8(&two.bytes).unwrap().starts_with(sent));
}

#[test]
fn a_bearer_token_goes_into_its_own_header_and_extra_headers_go_along() {
    let server = Server::start([reply().text("hi")]);
    let endpoint = Endpoint {
        base_url: format!("{}/", server.url()),
        key: ApiKey::bearer("tok").unwrap(),
        headers: vec![("X-Team".into(), "ci".into())],
        network: Network::new(Environment::default()),
    };
    let provider = Provider::anthropic(&endpoint, patient()).unwrap();
    send(&provider, &request(1, &[user("hi")])).unwrap();
    let requests = server.finish();
    assert_eq!(requests[0].header("authorization"), Some("Bearer tok"));
    assert_eq!(requests[0].header("x-api-key"), None);
    assert_eq!(requests[0].header("x-team"), Some("ci"));
    assert_eq!(requests[0].path, "/v1/messages");
}

#[test]
fn an_error_status_is_a_failure_with_all_the_server_said() {
    let server = Server::start([status(429)
        .header("retry-after-ms", "20")
        .header("x-should-retry", "true")
        .error("rate_limit_error", &format!("slow down, {KEY}"))]);
    let provider = provider(&server.url(), patient());
    let failure = send(&provider, &request(1, &[user("hi")])).unwrap_err();
    assert_eq!(
        failure,
        Failure {
            status: Some(429),
            retry_after: Some(Duration::from_millis(20)),
            should_retry: Some(true),
            request_id: Some("req_0".into()),
            ..Failure::new(
                FailureKind::RateLimit,
                format!(
                    "POST {}/v1/messages: status 429: rate_limit_error: slow down, [key]",
                    server.url()
                ),
            )
        }
    );
}

/// `(kind, billing, had_output)` and the end of the message.
fn seen(result: Result<Reply, Failure>) -> (FailureKind, Billing, bool, String) {
    let failure = result.unwrap_err();
    let cause = failure
        .message
        .split_once("/v1/messages: ")
        .map(|(_, cause)| cause.to_owned());
    (
        failure.kind,
        failure.billing,
        failure.had_output,
        cause.unwrap_or(failure.message),
    )
}

#[test]
fn every_way_in_which_an_answer_fails_has_its_name_and_its_cost() {
    let nothing_known = Billing::Unknown(Usage::default());
    let begun = Billing::Unknown(Usage {
        input_tokens: 10,
        output_tokens: 5,
        ..Usage::default()
    });
    let text = || reply().text("partial");
    for (answer, kind, billing, had_output, cause) in [
        (
            text().error_event("overloaded_error", "Overloaded"),
            FailureKind::Overloaded,
            begun,
            true,
            "error in the stream: overloaded_error: Overloaded",
        ),
        (
            raw(&b"data: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"m\"}}\n\n"[..]),
            FailureKind::Server,
            Billing::Nothing,
            false,
            "error in the stream: api_error: m",
        ),
        (
            text().cut_after(600),
            FailureKind::Truncated,
            begun,
            true,
            "peer disconnected",
        ),
        (
            raw(&b""[..]),
            FailureKind::Truncated,
            nothing_known,
            false,
            "the stream ended before the reply was whole",
        ),
        (
            raw(&b"data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\"output_tokens\":5}}}\n\n"[..]),
            FailureKind::Truncated,
            begun,
            false,
            "the stream ended before the reply was whole",
        ),
        (
            text().reset_after(0),
            FailureKind::Connection,
            nothing_known,
            false,
            "connection reset by peer (os error 104)",
        ),
        (
            status(200).body("text/html", "<html>hello</html>"),
            FailureKind::Protocol,
            nothing_known,
            false,
            "the answer is no event stream but text/html: \"<html>hello</html>\"",
        ),
        (
            raw(&b"data: {\"type\":\n\n"[..]),
            FailureKind::Protocol,
            nothing_known,
            false,
            "EOF while parsing a value at line 1 column 8 in the event \"{\\\"type\\\":\"",
        ),
        (
            status(502).body("text/html", "<h1>Bad Gateway</h1>").close(),
            FailureKind::Server,
            nothing_known,
            false,
            "status 502: <h1>Bad Gateway</h1>",
        ),
        (
            status(503).body("text/plain", "down"),
            FailureKind::Server,
            Billing::Nothing,
            false,
            "status 503: down",
        ),
        (
            status(307).header("location", "http://elsewhere/"),
            FailureKind::Invalid,
            Billing::Nothing,
            false,
            "status 307: redirects to http://elsewhere/, and redirects are not followed: the base URL must name the API itself",
        ),
    ] {
        let shown = format!("{answer:?}");
        let expected = (kind, billing, had_output, cause.to_owned());
        assert_eq!(seen(one(answer, patient())), expected, "{shown}");
    }
}

#[test]
fn a_reply_that_lacks_its_beginning_or_its_reason_to_end_is_none() {
    let start = json!({"type": "message_start", "message": {"usage": {"input_tokens": 10}}});
    let text = json!({"type": "text", "text": "a"});
    let text = json!({"type": "content_block_start", "content_block": text});
    let stop = json!({"type": "message_stop"});
    let known = Billing::Unknown(Usage {
        input_tokens: 10,
        ..Usage::default()
    });
    for (events, kind, billing, had_output, cause) in [
        (
            vec![&start, &text, &stop],
            FailureKind::Truncated,
            known,
            true,
            "the reply ended without a stop reason, so it may not be whole",
        ),
        (
            vec![&text, &stop],
            FailureKind::Protocol,
            Billing::Unknown(Usage::default()),
            false,
            "content of a message that never began: there was no message_start",
        ),
    ] {
        let lines: Vec<String> = events
            .iter()
            .map(|event| format!("data: {event}\n\n"))
            .collect();
        let expected = (kind, billing, had_output, cause.to_owned());
        assert_eq!(seen(one(raw(lines.concat()), patient())), expected);
    }
}

#[test]
fn silence_is_a_fault_before_the_answer_and_within_it() {
    let idle = || settings(Duration::from_millis(150));
    for answer in [
        reply().text("a").stall_after(600),
        reply().text("a").stall_after(0),
    ] {
        let (kind, _, _, cause) = seen(one(answer, idle()));
        assert_eq!(
            (kind, cause.as_str()),
            (
                FailureKind::IdleTimeout,
                "nothing came in time (no byte for 150ms)"
            )
        );
    }
    let late = reply().text("a").delay(Duration::from_millis(600));
    assert_eq!(seen(one(late, idle())).0, FailureKind::IdleTimeout);
}

#[test]
fn a_whole_reply_does_not_wait_for_a_body_that_never_ends() {
    let events = std::fs::read("fixtures/sse/ok-after-retry.sse").unwrap();
    let length = events.len();
    let reply = one(raw(events).stall_after(length), patient()).unwrap();
    assert_eq!(reply.text, "FINAL-ANSWER");
}

#[test]
fn what_comes_behind_a_whole_reply_does_not_matter() {
    let mut events = std::fs::read("fixtures/sse/ok-after-retry.sse").unwrap();
    events.extend_from_slice(b"data: [DONE]\n\n");
    assert_eq!(one(raw(events), patient()).unwrap().text, "FINAL-ANSWER");
}

#[test]
fn a_host_beyond_loopback_is_reached_through_the_proxy_whose_refusal_is_final() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // All of it, or closing would reset the connection.
        let lines = BufReader::new(&stream).lines().map(Result::unwrap);
        let lines: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        stream
            .write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            .unwrap();
        lines[0].clone()
    });
    let environment = Environment {
        http_proxy: Some(proxy),
        ..Environment::default()
    };
    let endpoint = Endpoint {
        base_url: "http://api.invalid".into(),
        key: ApiKey::none(),
        headers: Vec::new(),
        network: Network::new(environment),
    };
    let provider = Provider::anthropic(&endpoint, patient()).unwrap();
    let failure = send(&provider, &request(1, &[user("hi")])).unwrap_err();
    assert_eq!(answering.join().unwrap(), "CONNECT api.invalid:80 HTTP/1.1");
    assert_eq!(
        (failure.kind, failure.billing),
        (FailureKind::Invalid, Billing::Nothing)
    );
    assert!(failure.message.contains("407"), "{}", failure.message);
}

#[test]
fn nobody_there_costs_nothing() {
    // A port that was free a moment ago.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let failure = send(&provider(&url, patient()), &request(1, &[user("hi")])).unwrap_err();
    assert_eq!(
        failure,
        Failure::new(
            FailureKind::Connection,
            format!("POST {url}/v1/messages: connection refused (os error 111)"),
        )
    );
}

#[test]
fn a_fault_of_tls_is_not_worth_another_try_and_costs_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        stream.read_exact(&mut buffer[..1]).unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
        // What is left unread would reset the connection before the client has read this.
        while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
    });
    let failure = send(&provider(&url, patient()), &request(1, &[user("hi")])).unwrap_err();
    answering.join().unwrap();
    assert_eq!(
        (failure.kind, failure.billing),
        (FailureKind::Invalid, Billing::Nothing)
    );
}

#[test]
fn a_body_that_the_api_would_drop_is_not_sent() {
    let server = Server::start([]);
    let json = format!(r#"{{"type":"text","text":"{}"}}"#, "x".repeat(30_000_000));
    let huge = Arc::new(Message {
        role: Role::User,
        blocks: vec![Block::from_wire(BlockKind::Text, json)],
    });
    let result = send(&provider(&server.url(), patient()), &request(1, &[huge]));
    let failure = result.unwrap_err();
    assert_eq!(
        (failure.kind, failure.billing),
        (FailureKind::PromptTooLong, Billing::Nothing)
    );
    assert_eq!(server.finish().len(), 0);
}

#[test]
fn cancelling_ends_a_blocked_request_and_every_later_one() {
    let server = Server::start([reply().text("partial").stall_after(600)]);
    let provider = provider(&server.url(), patient());
    let (heard, hearing) = std::sync::mpsc::channel();
    let blocked = std::thread::scope(|scope| {
        let blocked = scope.spawn(|| {
            provider.send(&request(1, &[user("hi")]), &mut |event| {
                if let StreamEvent::TextDelta(_) = event {
                    heard.send(()).unwrap();
                }
            })
        });
        hearing.recv().unwrap();
        provider.cancel();
        blocked.join().unwrap()
    });
    let failure = blocked.unwrap_err();
    assert_eq!(
        (failure.kind, failure.had_output),
        (FailureKind::Cancelled, true)
    );
    assert!(matches!(failure.billing, Billing::Unknown(_)));
    let later = send(&provider, &request(2, &[user("hi")])).unwrap_err();
    assert_eq!(
        (later.kind, later.billing),
        (FailureKind::Cancelled, Billing::Nothing)
    );
    assert_eq!(server.finish().len(), 1);
}

/// G-31 over several replies: an id of an earlier reply, or of a resumed history, is not used again.
#[test]
fn g31_an_id_of_an_earlier_reply_is_replaced() {
    let call = || reply().tool_use_with_id("toolu_same", "Read", json!({}));
    let server = Server::answering(move |request| {
        if request.number < 3 {
            call()
        } else {
            reply().text("Done.")
        }
    });
    let first = provider(&server.url(), patient());
    let mut history = vec![user("hi")];
    for number in 1..=2 {
        let reply = send(&first, &request(number, &history)).unwrap();
        history = answered(history, &reply, "x");
    }
    let resumed = provider(&server.url(), patient());
    for number in 3..=4 {
        let reply = send(&resumed, &request(number, &history)).unwrap();
        history = answered(history, &reply, "x");
        if reply.calls.is_empty() {
            break;
        }
    }
    assert_eq!(server.requests().len(), 4);
    // The server has checked that the ids are paired and unique.
    server.finish();
}

fn open(path: &Path) -> Cassette {
    Cassette::open(path).unwrap_or_else(|error| panic!("{error}"))
}

fn replay(path: &Path, prompt: &str, matching: Matching, idle: Settings) -> Provider {
    let places = Places {
        workspace: "/elsewhere".into(),
        home: None,
    };
    Provider::replay(&open(path), prompt, matching, &places, idle).unwrap()
}

#[test]
fn what_was_recorded_is_replayed_to_the_same_replies_and_failures() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start([
        reply()
            .thinking("hm")
            .tool_use("Read", json!({"file_path": "a"})),
        status(529)
            .header("retry-after", "3")
            .error("overloaded_error", KEY),
        reply().text("partial").cut_after(500),
        reply().text("cut").error_event("api_error", "m"),
        reply()
            .text("Done.")
            .usage(json!({"input_tokens": 7, "output_tokens": 3})),
    ]);
    let live = provider(&server.url(), patient());
    let live = live
        .recording(
            directory.path(),
            "a job/p",
            &places(),
            Arc::new(str::to_owned),
        )
        .unwrap();
    // The same conversation on two machines.
    let conversation = |provider: &Provider, workspace: &str| {
        let history = vec![user(&format!("look into {workspace}/src"))];
        let first = send(provider, &request(1, &history));
        let next = answered(history, first.as_ref().unwrap(), &format!("in {workspace}"));
        let rest = (2..=5).map(|number| send(provider, &request(number, &next)));
        [first].into_iter().chain(rest).collect::<Vec<_>>()
    };
    let recorded = conversation(&live, "/home/ann/tree");
    server.finish();

    let path = directory.path();
    assert_eq!(open(path).model(), Some("claude-asked"));
    let strict = replay(path, "a job/p", Matching::Strict, patient());
    let replayed = conversation(&strict, "/elsewhere");
    // But for where it comes from, which is part of the messages.
    let comparable = |results: Vec<Result<Reply, Failure>>| {
        let results = results.into_iter().map(|result| {
            result.map_err(|failure| Failure {
                message: failure
                    .message
                    .split(": ")
                    .skip(1)
                    .collect::<Vec<_>>()
                    .join(": "),
                ..failure
            })
        });
        results.collect::<Vec<_>>()
    };
    assert_eq!(comparable(replayed), comparable(recorded));

    let more = send(&strict, &request(6, &[user("more")])).unwrap_err();
    assert_eq!(more.kind, FailureKind::Cassette);
    assert!(
        more.message
            .ends_with("it has 5 replies for a job/p, and this is request 6")
    );
    for entry in std::fs::read_dir(path.join("a%20job/p")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(!text.contains(KEY), "{text}");
    }

    let other = [user("look into /elsewhere/lib")];
    let strict = replay(path, "a job/p", Matching::Strict, patient());
    let failure = send(&strict, &request(1, &other)).unwrap_err();
    assert_eq!(
        (failure.kind, failure.billing),
        (FailureKind::Cassette, Billing::Nothing)
    );
    assert!(
        failure.message.ends_with(
            "request 1 of a job/p departs from the recorded one at messages[0].content[0].text: \
             recorded \"look into {workspace}/src\", now \"look into {workspace}/lib\""
        ),
        "{}",
        failure.message
    );
    let by_order = replay(path, "a job/p", Matching::Order, patient());
    assert!(send(&by_order, &request(1, &other)).is_ok());

    let missing = Provider::replay(&open(path), "b/p", Matching::Order, &places(), patient());
    let error = missing.err().unwrap().to_string();
    assert!(
        error.ends_with("it has no recording of \"b/p\"; it has: a%20job/p"),
        "{error}"
    );
}

#[test]
fn a_recording_holds_no_secret_even_when_the_model_wrote_it_in_pieces() {
    let directory = tempfile::tempdir().unwrap();
    let events = [
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "it is hun"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ter22."}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
        json!({"type": "message_stop"}),
    ];
    let events = events.map(|event| format!("data: {event}\n\n")).concat();
    let server = Server::start([
        raw(events),
        status(500)
            .header("request-id", "of-hunter22")
            .error("api_error", "no hunter22 here"),
    ]);
    let mask = Arc::new(|text: &str| text.replace("hunter22", "***"));
    let live = provider(&server.url(), patient())
        .recording(directory.path(), "j/p", &places(), mask)
        .unwrap();
    let history = [user("the password is hunter22")];
    let reply = send(&live, &request(1, &history)).unwrap();
    assert_eq!(reply.text, "it is hunter22.", "the run itself sees it");
    send(&live, &request(2, &history)).unwrap_err();
    server.finish();
    for entry in std::fs::read_dir(directory.path().join("j/p")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(
            !text.contains("hunter22") && !text.contains("ter22"),
            "{text}"
        );
    }
    let masked = [user("the password is ***")];
    let replayed = replay(directory.path(), "j/p", Matching::Strict, patient());
    let reply = send(&replayed, &request(1, &masked)).unwrap();
    assert_eq!(
        (reply.text.as_str(), reply.usage_is_final),
        ("it is ***.", true)
    );
    let failure = send(&replayed, &request(2, &masked)).unwrap_err();
    assert_eq!(failure.request_id.as_deref(), Some("of-***"));
    assert!(
        failure.message.ends_with("no *** here"),
        "{}",
        failure.message
    );
}

#[test]
fn what_is_recorded_is_byte_for_byte_what_came() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = std::fs::read("fixtures/sse/16-framing-oddities.sse").unwrap();
    let server = Server::start([raw(bytes.clone())]);
    let live = provider(&server.url(), patient())
        .recording(directory.path(), "j/p", &places(), Arc::new(str::to_owned))
        .unwrap();
    send(&live, &request(1, &[user("hi")])).unwrap();
    server.finish();
    let recorded = std::fs::read(directory.path().join("j/p/0001.response.body")).unwrap();
    assert_eq!(recorded, bytes);
}

#[test]
fn a_cassette_of_one_reply_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.yaml");
    std::fs::write(&path, "replies: [{text: a}]\n").unwrap();
    let provider = replay(&path, "j/p", Matching::Order, patient());
    assert!(
        send(&provider, &request(1, &[user("hi")]))
            .unwrap()
            .usage_is_final
    );
    let failure = send(&provider, &request(2, &[user("hi")])).unwrap_err();
    assert!(
        failure
            .message
            .ends_with("it has 1 reply for j/p, and this is request 2"),
        "{}",
        failure.message
    );
}

#[test]
fn a_hand_written_cassette_is_served_in_order_with_its_faults() {
    let path = Path::new("fixtures/cassettes/every-fault.yaml");
    let provider = replay(
        path,
        "j/p",
        Matching::Strict,
        settings(Duration::from_millis(50)),
    );
    let hi = [user("hi")];
    let kinds: Vec<_> = (1..=6)
        .map(|number| {
            let failure = send(&provider, &request(number, &hi)).unwrap_err();
            (failure.kind, failure.retry_after, failure.had_output)
        })
        .collect();
    assert_eq!(
        kinds,
        [
            (
                FailureKind::RateLimit,
                Some(Duration::from_millis(1)),
                false
            ),
            (FailureKind::Overloaded, None, false),
            (FailureKind::Server, None, true),
            (FailureKind::Truncated, None, true),
            (FailureKind::Truncated, None, false),
            (FailureKind::IdleTimeout, None, false),
        ]
    );
    let last = send(&provider, &request(7, &hi)).unwrap();
    assert_eq!(
        (last.text.as_str(), last.model.as_str()),
        ("Done after all.", "claude-asked")
    );
    let more = send(&provider, &request(8, &hi)).unwrap_err();
    assert!(
        more.message
            .ends_with("it has 7 replies for j/p, and this is request 8")
    );
}

#[test]
fn a_hand_written_cassette_has_replies_of_its_own_for_a_prompt() {
    let path = Path::new("fixtures/cassettes/two-prompts.yaml");
    let hi = [user("hi")];
    let other = replay(path, "j/other", Matching::Strict, patient());
    let reply = send(&other, &request(1, &hi)).unwrap();
    assert_eq!(reply.text, "For everybody else.");
    let triage = replay(path, "j/triage", Matching::Strict, patient());
    let reply = send(&triage, &request(1, &hi)).unwrap();
    let calls: Vec<_> = reply
        .calls
        .iter()
        .map(|call| (call.id.as_str(), call.input_value()))
        .collect();
    assert_eq!(
        calls,
        [
            ("toolu_given", json!({"pattern": "*.md"})),
            ("toolu_script_1_2", json!({"pattern": "TODO"})),
        ]
    );
    let blocks: Vec<&str> = reply.blocks.iter().map(|block| &**block.json()).collect();
    assert_eq!(blocks[0], r#"{"text":"Two at once.","type":"text"}"#);
}

#[test]
fn a_stalled_cassette_is_cancelled_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stall.yaml");
    std::fs::write(&path, "replies: [{text: a, stall: true}]\n").unwrap();
    let provider = replay(&path, "j/p", Matching::Order, patient());
    let (began, beginning) = std::sync::mpsc::channel();
    let failure = std::thread::scope(|scope| {
        let blocked = scope
            .spawn(|| provider.send(&request(1, &[user("hi")]), &mut |_| began.send(()).unwrap()));
        beginning.recv().unwrap();
        provider.cancel();
        blocked.join().unwrap().unwrap_err()
    });
    assert_eq!(failure.kind, FailureKind::Cancelled);
}

#[test]
fn the_model_stops_for_its_own_reason() {
    let answer = reply().stop_reason("refusal");
    let reply = one(answer, patient()).unwrap();
    assert_eq!(
        reply
            .stop_reason
            .map(|reason| reason.name().to_owned())
            .as_deref(),
        Some("refusal")
    );
    assert_eq!(reply.blocks, []);
}
