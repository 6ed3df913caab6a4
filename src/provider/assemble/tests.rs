//! Whole streams, from bytes to replies.

use serde_json::{Map, json};

use crate::message::{Block, BlockKind, ToolInput, ToolUse};

use super::super::sse::Decoder;
use super::*;

/// What became of a stream, and what was heard meanwhile.
#[derive(Debug, PartialEq)]
struct Outcome {
    ended: Ended,
    deltas: String,
    calls: Vec<ToolUse>,
    began: usize,
}

#[derive(Debug, PartialEq)]
enum Ended {
    Whole(Box<Reply>),
    Truncated(Usage),
    Fault(StreamFault),
}

fn run<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, used: &[&str]) -> Outcome {
    let used: HashSet<String> = used.iter().map(|id| (*id).to_owned()).collect();
    let mut assembler = Assembler::new(RequestNumber(7), &used);
    let mut decoder = Decoder::default();
    let (mut deltas, mut calls, mut began) = (String::new(), Vec::new(), 0);
    let mut fault = None;
    for piece in pieces {
        let fed = decoder.feed(piece, &mut |data: &[u8]| {
            assembler.take(data, &mut |event| match event {
                StreamEvent::Began => began += 1,
                StreamEvent::TextDelta(text) => deltas.push_str(text),
                StreamEvent::CallComplete(call) => calls.push(call.clone()),
            })
        });
        if let Err(found) = fed {
            fault = Some(found);
            break;
        }
    }
    let ended = match fault {
        Some(fault) => Ended::Fault(fault),
        None if assembler.is_complete() => {
            let reply = assembler.into_reply("asked", None, Duration::ZERO);
            Ended::Whole(Box::new(reply))
        }
        None => Ended::Truncated(assembler.usage()),
    };
    Outcome {
        ended,
        deltas,
        calls,
        began,
    }
}

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/fixtures/sse/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn reply_of(name: &str) -> (Reply, Outcome) {
    let bytes = fixture(name);
    let outcome = run([bytes.as_slice()], &[]);
    match &outcome.ended {
        Ended::Whole(reply) => ((**reply).clone(), outcome),
        other => panic!("{name}: {other:?}"),
    }
}

fn parsed(blocks: &[Block]) -> Vec<Value> {
    blocks
        .iter()
        .map(|block| serde_json::from_str(block.json()).unwrap())
        .collect()
}

/// The blocks of `expected.json` in the form in which they go back: no blank text, `{}` for a broken input.
fn sent_back(expected: &Value) -> Vec<Value> {
    let blocks = expected["content"].as_array().unwrap().iter();
    let blocks = blocks.filter(|block| block["text"] != "");
    blocks
        .map(|block| {
            let mut block = block.clone();
            if let Some(object) = block.as_object_mut()
                && object.remove("input_unparseable").is_some()
            {
                object.insert("input".to_owned(), json!({}));
            }
            block
        })
        .collect()
}

fn expected_calls(expected: &Value) -> Vec<ToolUse> {
    let blocks = expected["content"].as_array().unwrap().iter();
    let calls = blocks.filter(|block| block["type"] == "tool_use");
    calls
        .map(|call| ToolUse {
            id: call["id"].as_str().unwrap().to_owned(),
            name: call["name"].as_str().unwrap().to_owned(),
            input: match call["input_unparseable"].as_str() {
                Some(text) => ToolInput::Unparseable(text.to_owned()),
                None => ToolInput::Json(call["input"].clone()),
            },
        })
        .collect()
}

fn expected_usage(usage: &Value) -> Usage {
    let figure = |value: &Value| value.as_u64().unwrap_or_default();
    Usage {
        input_tokens: figure(&usage["input_tokens"]),
        output_tokens: figure(&usage["output_tokens"]),
        cache_creation_input_tokens: figure(&usage["cache_creation_input_tokens"]),
        cache_creation_1h_input_tokens: figure(
            &usage["cache_creation"]["ephemeral_1h_input_tokens"],
        ),
        cache_read_input_tokens: figure(&usage["cache_read_input_tokens"]),
    }
}

fn compare(name: &str, outcome: &Outcome, expected: &Value) {
    match (expected["outcome"].as_str().unwrap(), &outcome.ended) {
        ("message", Ended::Whole(reply)) => {
            assert_eq!(reply.id.as_deref(), expected["id"].as_str(), "{name}");
            assert_eq!(
                Some(reply.model.as_str()),
                expected["model"].as_str(),
                "{name}"
            );
            assert_eq!(parsed(&reply.blocks), sent_back(expected), "{name}");
            assert_eq!(reply.calls, expected_calls(expected), "{name}");
            assert_eq!(outcome.calls, reply.calls, "{name}");
            assert_eq!(outcome.deltas, reply.text, "{name}");
            let stop_reason = reply.stop_reason.as_ref().map(ApiStopReason::name);
            assert_eq!(stop_reason, expected["stop_reason"].as_str(), "{name}");
            assert_eq!(reply.stop_details, expected["stop_details"], "{name}");
            assert_eq!(reply.usage, expected_usage(&expected["usage"]), "{name}");
        }
        ("stream_error", Ended::Fault(StreamFault::Error { error, request_id })) => {
            assert_eq!(error, &expected["error"], "{name}");
            assert_eq!(
                request_id.as_deref(),
                expected["request_id"].as_str(),
                "{name}"
            );
        }
        ("truncated", Ended::Truncated(usage)) => {
            assert_eq!(*usage, expected_usage(&expected["usage"]), "{name}");
        }
        (_, ended) => panic!("{name}: {ended:?}"),
    }
}

#[test]
fn every_sample_is_read_the_same_however_it_is_cut() {
    let expected: Map<String, Value> = serde_json::from_slice(&fixture("expected.json")).unwrap();
    assert_eq!(expected.len(), 21);
    for (name, expected) in &expected {
        let bytes = fixture(name);
        let whole = run([bytes.as_slice()], &[]);
        compare(name, &whole, expected);
        assert_eq!(run(bytes.chunks(1), &[]), whole, "{name} byte by byte");
        let events = events([bytes.as_slice()]);
        for cut in 0..bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(self::events([head, tail]), events, "{name} cut at {cut}");
        }
    }
}

/// The data of the events of a stream.
fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::default();
    let mut events = Vec::new();
    for piece in pieces {
        let fed: Result<(), StreamFault> = decoder.feed(piece, &mut |data: &[u8]| {
            events.push(data.to_vec());
            Ok(())
        });
        fed.unwrap();
    }
    events
}

#[test]
fn warnings_name_what_was_out_of_the_ordinary() {
    for (name, warnings) in [
        ("01-text.sse", vec![]),
        (
            "16-framing-oddities.sse",
            vec![
                "the stream has an unknown delta \"future_delta\"",
                "the stream has an unknown event \"telemetry_hint\"",
            ],
        ),
        (
            "17-compaction.sse",
            vec!["the reply has an unknown stop reason \"compaction\""],
        ),
        (
            "18-thinking-dropped.sse",
            vec![
                "the server changed the input: [{\"path\":\"messages.1.content.0\",\"reason\":\"prefix_binding_mismatch\",\"type\":\"thinking_dropped\"}]",
            ],
        ),
    ] {
        assert_eq!(reply_of(name).0.warnings, warnings, "{name}");
    }
}

/// G-13: the figures of later events replace those of earlier ones.
#[test]
fn g13_usage_in_the_stream_is_cumulative() {
    let expected = Usage {
        input_tokens: 1000,
        output_tokens: 500,
        cache_creation_input_tokens: 2000,
        cache_creation_1h_input_tokens: 0,
        cache_read_input_tokens: 10_000,
    };
    assert_eq!(reply_of("usage-cumulative.sse").0.usage, expected);
}

/// G-29: thinking goes back byte for byte and in place.
#[test]
fn g29_thinking_blocks_are_kept_byte_for_byte() {
    let reply = reply_of("thinking-signature.sse").0;
    let blocks: Vec<(BlockKind, &str)> = reply
        .blocks
        .iter()
        .map(|block| (block.kind(), &**block.json()))
        .collect();
    assert_eq!(
        blocks,
        [
            (
                BlockKind::Thinking,
                r#"{"type":"thinking","thinking":"Check the  file, then\nanswer. é中","signature":"c2lnLXBhcnQtMQ+/cGFydC0y=="}"#
            ),
            (
                BlockKind::Thinking,
                r#"{"type":"redacted_thinking","data":"b3BhcXVl+/=="}"#
            ),
            (
                BlockKind::ToolUse,
                r#"{"type":"tool_use","id":"toolu_T1","name":"Read","input":{"file_path":"a.txt"}}"#
            ),
        ]
    );
}

/// G-31: an id that was used, in this reply or before, is replaced in the block and in the call alike.
#[test]
fn g31_repeated_and_empty_call_ids_are_replaced_once() {
    let bytes = fixture("duplicate-tool-id.sse");
    for (used, expected) in [
        (vec![], ["toolu_D1", "toolu_r7_1"]),
        (vec!["toolu_D1"], ["toolu_r7_0", "toolu_r7_1"]),
        (
            vec!["toolu_D1", "toolu_r7_0"],
            ["toolu_r7_0_2", "toolu_r7_1"],
        ),
    ] {
        let outcome = run([bytes.as_slice()], &used);
        let Ended::Whole(reply) = outcome.ended else {
            panic!("whole")
        };
        let ids: Vec<&str> = reply.calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, expected);
        let in_blocks: Vec<Value> = parsed(&reply.blocks);
        let in_blocks: Vec<&Value> = in_blocks.iter().map(|block| &block["id"]).collect();
        assert_eq!(in_blocks, expected);
        assert_eq!(outcome.calls, reply.calls);
    }
    let empty = String::from_utf8(bytes).unwrap().replace("toolu_D1", "");
    let Ended::Whole(reply) = run([empty.as_bytes()], &[]).ended else {
        panic!("whole")
    };
    let ids: Vec<&str> = reply.calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["toolu_r7_0", "toolu_r7_1"]);
}

/// G-32: every framing, and the write sizes that cut behind each CR.
#[test]
fn g32_line_ends_and_framing() {
    assert_eq!(reply_of("framing-mixed.sse").0.text, "framing ok");
    let (whole, outcome) = reply_of("crlf.sse");
    assert_eq!(whole.text, "line one\nline two");
    let bytes = fixture("crlf.sse");
    let mut rest = bytes.as_slice();
    let mut pieces = Vec::new();
    for size in String::from_utf8(fixture("crlf.chunks")).unwrap().lines() {
        let (piece, after) = rest.split_at(size.parse().unwrap());
        pieces.push(piece);
        rest = after;
    }
    assert!(rest.is_empty());
    assert_eq!(run(pieces, &[]), outcome);
}

/// G-33: a stream that ends early is never a reply, wherever it ends.
#[test]
fn g33_a_stream_that_ends_early_is_no_reply() {
    for name in ["truncated-tool-input.sse", "02-tool-use.sse"] {
        let bytes = fixture(name);
        let stop = b"event: message_stop";
        let whole = bytes.windows(stop.len()).position(|window| window == stop);
        for end in 0..whole.unwrap_or(bytes.len()) {
            let outcome = run([&bytes[..end]], &[]);
            assert!(
                matches!(outcome.ended, Ended::Truncated(_)),
                "{name} to {end}"
            );
        }
    }
    let outcome = run([fixture("truncated-tool-input.sse").as_slice()], &[]);
    assert_eq!(outcome.calls, []);
}

/// G-34: an error in the stream ends it, whatever came before.
#[test]
fn g34_an_error_event_ends_the_stream() {
    let outcome = run([fixture("overloaded-midstream.sse").as_slice()], &[]);
    let error = json!({"type": "overloaded_error", "message": "Overloaded"});
    assert_eq!(
        outcome.ended,
        Ended::Fault(StreamFault::Error {
            error,
            request_id: None
        })
    );
    assert_eq!(reply_of("ok-after-retry.sse").0.text, "FINAL-ANSWER");
}

/// G-35: no arguments at all are `{}`.
#[test]
fn g35_a_call_without_arguments_has_none() {
    let reply = reply_of("empty-tool-input.sse").0;
    assert_eq!(reply.calls[0].input, ToolInput::Json(json!({})));
    assert_eq!(
        &**reply.blocks[0].json(),
        r#"{"type":"tool_use","id":"toolu_E1","name":"Glob","input":{}}"#
    );
}

/// What becomes of `events` behind a `message_start`.
fn stream(events: &[Value]) -> Outcome {
    let start = json!({"type": "message_start", "message": {}});
    bare_stream(&[&[start], events].concat())
}

fn bare_stream(events: &[Value]) -> Outcome {
    let lines: Vec<String> = events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    run([lines.concat().as_bytes()], &[])
}

fn whole(events: &[Value]) -> Reply {
    match stream(events).ended {
        Ended::Whole(reply) => *reply,
        other => panic!("{other:?}"),
    }
}

fn end() -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
}

fn start(index: usize, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn grow(index: usize, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

#[test]
fn a_sloppy_server_is_understood() {
    let stop = json!({"type": "message_stop"});
    let hello = json!({"type": "text_delta", "text": "hello"});
    // Neither a model nor the end of a block.
    let reply = whole(&[
        start(0, &json!({"type": "text"})),
        grow(0, &hello),
        end(),
        stop.clone(),
    ]);
    assert_eq!(
        (reply.text.as_str(), reply.model.as_str()),
        ("hello", "asked")
    );
    assert_eq!(
        &**reply.blocks[0].json(),
        r#"{"type":"text","text":"hello"}"#
    );
    // No stop reason, all of it in the beginning, and input that came at once.
    let call = json!({"type": "tool_use", "id": "t", "name": "Read", "input": {"b": 1}});
    let reply = whole(&[
        start(0, &json!({"type": "text", "text": "a"})),
        start(1, &call),
        stop.clone(),
    ]);
    assert_eq!(reply.text, "a");
    assert_eq!(reply.calls[0].input, ToolInput::Json(json!({"b": 1})));
    assert_eq!(reply.warnings, ["the reply has no stop reason"]);
    // One index for all blocks.
    let reply = whole(&[
        start(0, &json!({"type": "text", "text": ""})),
        grow(0, &hello),
        json!({"type": "content_block_stop", "index": 0}),
        start(0, &json!({"type": "text", "text": ""})),
        grow(0, &hello),
        end(),
        stop,
    ]);
    assert_eq!(reply.text, "hellohello");
}

#[test]
fn what_makes_no_sense_is_a_fault_not_a_short_reply() {
    let hello = json!({"type": "text_delta", "text": "hello"});
    for (events, cause) in [
        (vec![grow(0, &hello)], "a delta of a block that never began"),
        (
            vec![
                start(0, &json!({"type": "text"})),
                json!({"type": "content_block_stop", "index": 0}),
                grow(0, &hello),
            ],
            "a delta for a block that has ended",
        ),
        (
            vec![start(0, &json!({"type": "tool_use", "id": "t"}))],
            "a tool_use block without a name",
        ),
    ] {
        let fault = StreamFault::Protocol(cause.to_owned());
        assert_eq!(stream(&events).ended, Ended::Fault(fault));
    }
}

#[test]
fn nothing_of_a_message_comes_before_its_beginning() {
    let text = start(0, &json!({"type": "text", "text": "a"}));
    let stop = json!({"type": "message_stop"});
    for (events, cause) in [
        (vec![text, end(), stop.clone()], "content of a message"),
        (vec![end(), stop], "the end of a message"),
    ] {
        let cause = format!("{cause} that never began: there was no message_start");
        assert_eq!(
            bare_stream(&events).ended,
            Ended::Fault(StreamFault::Protocol(cause))
        );
    }
}

#[test]
fn a_reply_without_a_stop_reason_is_whole_only_when_it_has_calls() {
    let text = start(0, &json!({"type": "text", "text": "Deleting the"}));
    let stop = json!({"type": "message_stop"});
    let empty = json!({"type": "message_delta", "delta": {"stop_reason": ""}});
    let cause = "the reply ended without a stop reason, so it may not be whole";
    for events in [
        vec![stop.clone()],
        vec![text.clone(), stop.clone()],
        vec![text.clone(), empty, stop.clone()],
    ] {
        let fault = StreamFault::Truncated(cause.to_owned());
        assert_eq!(stream(&events).ended, Ended::Fault(fault));
    }
    let call = start(1, &json!({"type": "tool_use", "id": "t", "name": "Read"}));
    let reply = whole(&[text, call, stop]);
    assert_eq!((reply.calls.len(), reply.stop_reason), (1, None));
    assert_eq!(reply.warnings, ["the reply has no stop reason"]);
}

#[test]
fn a_reply_that_is_too_large_is_not_read_on() {
    let fault = || StreamFault::Protocol("a reply over 64 MiB is not taken".to_owned());
    let used = HashSet::new();
    let text = start(0, &json!({"type": "text"})).to_string();
    for event in [
        grow(0, &json!({"type": "text_delta", "text": "1234"})),
        grow(0, &json!({"type": "thinking_delta", "thinking": "1234"})),
        grow(0, &json!({"type": "signature_delta", "signature": "1234"})),
        grow(
            0,
            &json!({"type": "input_json_delta", "partial_json": "1234"}),
        ),
        grow(0, &json!({"type": "citations_delta", "citation": [1]})),
        grow(0, &json!({"type": "compaction_delta", "content": "12"})),
        start(1, &json!({"type": "text"})),
    ] {
        let take = |assembler: &mut Assembler<'_>| {
            assembler.take(event.to_string().as_bytes(), &mut |_| {})
        };
        let mut assembler = Assembler::new(RequestNumber(1), &used);
        assembler.has_begun = true;
        assembler.take(text.as_bytes(), &mut |_| {}).unwrap();
        let before = assembler.size;
        take(&mut assembler).unwrap();
        let taken = assembler.size - before;
        assert!(taken >= 4, "{event}");
        assembler.size = MAX_REPLY - taken;
        assert_eq!(take(&mut assembler), Ok(()), "{event}");
        assert_eq!(take(&mut assembler), Err(fault()), "{event}");
    }
}

#[test]
fn a_reply_has_few_and_short_warnings() {
    let unknown = |number: usize| json!({"type": format!("x{number}{}", "y".repeat(5000))});
    let mut events: Vec<Value> = (0..100).map(unknown).collect();
    events.extend([end(), json!({"type": "message_stop"})]);
    let warnings = whole(&events).warnings;
    assert_eq!(warnings.len(), MAX_WARNINGS + 1);
    assert!(warnings.iter().all(|warning| warning.len() < 300));
    assert_eq!(
        warnings[MAX_WARNINGS],
        "more warnings about this reply were left out"
    );
}

#[test]
fn a_reply_is_priced_by_its_last_figures_and_lost_for_none() {
    let text = start(0, &json!({"type": "text", "text": "a"}));
    let begin =
        |usage: &str| format!(r#"data: {{"type":"message_start","message":{{"usage":{usage}}}}}"#);
    for (input, output, expected) in [
        (
            r#"{"input_tokens":10.0}"#,
            r#"{"output_tokens":"5"}"#,
            (10, 5, true),
        ),
        (r#"{"input_tokens":10}"#, "{}", (10, 0, false)),
        ("null", r#"{"output_tokens":5}"#, (0, 5, false)),
        (
            r#"{"input_tokens":-5}"#,
            r#"{"output_tokens":5}"#,
            (0, 5, false),
        ),
        (
            r#"{"input_tokens":10}"#,
            r#"{"output_tokens":1e400}"#,
            (10, 0, false),
        ),
        ("[]", r#""none""#, (0, 0, false)),
    ] {
        let delta = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":"#;
        let events = format!(
            "{}\n\ndata: {text}\n\ndata: {delta}{output}}}\n\ndata: {}\n\n",
            begin(input),
            json!({"type": "message_stop"})
        );
        let Ended::Whole(reply) = run([events.as_bytes()], &[]).ended else {
            panic!("{events}")
        };
        let usage = reply.usage;
        assert_eq!(
            (
                usage.input_tokens,
                usage.output_tokens,
                reply.usage_is_final
            ),
            expected,
            "{events}"
        );
    }
    assert!(reply_of("01-text.sse").0.usage_is_final);
}

/// What becomes of the data of `events`, which `json!` could not write.
fn whole_of(events: &[&str]) -> Reply {
    let start = r#"{"type":"message_start","message":{}}"#;
    let ends = [
        end().to_string(),
        json!({"type": "message_stop"}).to_string(),
    ];
    let events = [start].into_iter().chain(events.iter().copied());
    let lines: Vec<String> = events
        .chain(ends.iter().map(String::as_str))
        .map(|event| format!("data: {event}\n\n"))
        .collect();
    match run([lines.concat().as_bytes()], &[]).ended {
        Ended::Whole(reply) => *reply,
        other => panic!("{other:?}"),
    }
}

#[test]
fn half_a_character_does_not_cost_the_reply() {
    let grow = |index: usize, delta: &str| {
        format!(r#"{{"type":"content_block_delta","index":{index},"delta":{{{delta}}}}}"#)
    };
    let events = [
        start(
            0,
            &json!({"type": "thinking", "thinking": "", "signature": ""}),
        )
        .to_string(),
        grow(0, r#""type":"thinking_delta","thinking":"a\udc00b""#),
        start(1, &json!({"type": "text", "text": ""})).to_string(),
        grow(1, r#""type":"text_delta","text":"c\ud800d \ud83d\ude00""#),
        start(2, &json!({"type": "tool_use", "id": "t", "name": "N"})).to_string(),
        // In the piece itself, and in the arguments that it is a piece of.
        grow(
            2,
            r#""type":"input_json_delta","partial_json":"{\"a\":\"\ud800\",""#,
        ),
        grow(
            2,
            r#""type":"input_json_delta","partial_json":"\"b\":\"\\ud800 \\ud83d""#,
        ),
        grow(
            2,
            r#""type":"input_json_delta","partial_json":"\\ude00\"}""#,
        ),
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"new","x":"\ud800"}}"#
            .to_owned(),
    ];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let reply = whole_of(&events);
    assert_eq!(reply.text, "c\u{fffd}d 😀");
    let input = json!({"a": "\u{fffd}", "b": "\u{fffd} 😀"});
    assert_eq!(reply.calls[0].input, ToolInput::Json(input.clone()));
    assert_eq!(
        parsed(&reply.blocks),
        [
            json!({"type": "thinking", "thinking": "a\u{fffd}b", "signature": ""}),
            json!({"type": "text", "text": "c\u{fffd}d 😀"}),
            json!({"type": "tool_use", "id": "t", "name": "N", "input": input}),
            json!({"type": "new", "x": "\u{fffd}"}),
        ]
    );
}

#[test]
fn what_is_nested_too_deep_to_be_read_back_is_left_out() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let block = |index: usize, members: &str| {
        format!(r#"{{"type":"content_block_start","index":{index},"content_block":{{{members}}}}}"#)
    };
    let events = [
        block(0, &format!(r#""type":"future","x":{deep}"#)),
        block(1, &format!(r#""type":"text","text":"a","x":{deep}"#)),
        block(
            2,
            &format!(r#""type":"tool_use","id":"t","name":"N","input":{{"a":{deep}}}"#),
        ),
        format!(r#"{{"type":"message_delta","delta":{{"stop_details":{deep}}}}}"#),
    ];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let reply = whole_of(&events);
    assert_eq!(
        parsed(&reply.blocks),
        [
            json!({"type": "text", "text": "a"}),
            json!({"type": "tool_use", "id": "t", "name": "N", "input": {}}),
        ]
    );
    assert_eq!(
        reply.calls[0].input,
        ToolInput::Unparseable(format!(r#"{{"a":{deep}}}"#))
    );
    assert_eq!(
        (reply.text.as_str(), reply.stop_details),
        ("a", Value::Null)
    );
    let left_out = |kind| {
        format!(
            "content of a block of type {kind:?} was left out: it is nested deeper than 120 levels"
        )
    };
    assert_eq!(reply.warnings, [left_out("future"), left_out("text")]);
}

#[test]
fn blank_text_does_not_go_back() {
    let reply = whole(&[
        start(0, &json!({"type": "text", "text": ""})),
        grow(0, &json!({"type": "text_delta", "text": "\n\n"})),
        start(
            1,
            &json!({"type": "tool_use", "id": "t", "name": "Read", "input": {}}),
        ),
        json!({"type": "message_stop"}),
    ]);
    assert_eq!((reply.blocks.len(), reply.text.as_str()), (1, ""));
}

#[test]
fn arguments_go_back_as_they_came_and_only_as_an_object() {
    for (pieces, input, sent) in [
        (
            r#"{"n": 1.50, "a":{}}"#,
            ToolInput::Json(json!({"n": 1.5, "a": {}})),
            r#"{"n": 1.50, "a":{}}"#,
        ),
        (
            "{\"a\":\n1}",
            ToolInput::Json(json!({"a": 1})),
            "{\"a\": 1}",
        ),
        ("[1]", ToolInput::Json(json!([1])), "{}"),
        ("{\"a\"", ToolInput::Unparseable("{\"a\"".into()), "{}"),
    ] {
        let reply = whole(&[
            start(
                0,
                &json!({"type": "tool_use", "id": "t", "name": "N", "input": {}}),
            ),
            grow(
                0,
                &json!({"type": "input_json_delta", "partial_json": pieces}),
            ),
            json!({"type": "message_stop"}),
        ]);
        assert_eq!(reply.calls[0].input, input);
        let json = format!(r#"{{"id":"t","input":{sent},"name":"N","type":"tool_use"}}"#);
        assert_eq!(&**reply.blocks[0].json(), json);
    }
}

proptest::proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
        run([bytes.as_slice()], &[]);
    }

    #[test]
    fn random_damage_to_a_stream_never_panics(
        position in 0_usize..2600, byte in proptest::num::u8::ANY, drop in 0_usize..40,
    ) {
        let mut bytes = fixture("02-tool-use.sse");
        let position = position.min(bytes.len() - 1);
        bytes[position] = byte;
        let end = (position + drop).min(bytes.len());
        bytes.drain(position..end);
        run([bytes.as_slice()], &[]);
    }
}
