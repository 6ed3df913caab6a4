//! Acceptance cases: event streams as they really come.

use serde_json::{Value, json};

use super::cases::{assert_end, assert_passed, job, results, run, sse, stream};
use super::program::{Program, fixtures};
use super::server::{Answer, raw, reply};

#[test]
fn g32_line_ends_and_framing_are_read_however_they_are_cut() {
    let chunks = std::fs::read_to_string(fixtures().join("sse/crlf.chunks")).unwrap();
    let sizes: Vec<usize> = chunks.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(sizes.iter().sum::<usize>(), sse("crlf.sse").len());
    for (answer, text) in [
        (stream("crlf.sse").writes(&sizes), "line one\nline two"),
        (stream("crlf.sse").writes(&[1]), "line one\nline two"),
        (stream("framing-mixed.sse"), "framing ok"),
        (stream("framing-mixed.sse").writes(&[1]), "framing ok"),
        (stream("framing-mixed.sse").writes(&[7]), "framing ok"),
    ] {
        let (ran, requests) = run(Program::new(&job("")), [answer]);
        assert_passed(&ran);
        assert_eq!(requests.len(), 1);
        assert_eq!(ran.prompt(0)["result"], text);
    }
}

/// Streams that end cleanly, too early: inside a call, before any event, after the first.
fn early_ends() -> [Answer; 3] {
    let whole = String::from_utf8(sse("truncated-tool-input.sse")).unwrap();
    let first = whole.split_inclusive("\n\n").next().unwrap().to_owned();
    [whole, String::new(), first].map(|stream| raw(stream).close())
}

#[test]
fn g33_a_stream_that_ends_too_early_is_tried_again_and_its_call_never_run() {
    for early in early_ends() {
        let (ran, requests) = run(Program::new(&job("Write")), [early, reply().text("whole")]);
        assert_passed(&ran);
        assert_eq!(requests.len(), 2);
        assert_eq!(
            requests[0]["messages"], requests[1]["messages"],
            "nothing of it is kept"
        );
        assert_eq!(ran.prompt(0)["result"], "whole");
        assert!(!ran.path().join("out.txt").exists());
        assert_eq!(ran.prompt(0)["retries"], 1);
    }
}

#[test]
fn g33_a_stream_that_always_ends_too_early_is_a_model_error() {
    for early in early_ends() {
        let (ran, requests) = run(Program::new(&job("Write")), [early.clone(), early]);
        assert_end(&ran, 3, "errored", "model_error");
        assert_eq!(requests.len(), 2);
        assert!(!ran.path().join("out.txt").exists());
    }
}

#[test]
fn g34_an_overload_inside_a_stream_is_retried_and_leaves_nothing_of_its_text() {
    let (ran, requests) = run(
        Program::new(&job("")),
        [
            stream("overloaded-midstream.sse"),
            stream("ok-after-retry.sse"),
        ],
    );
    assert_passed(&ran);
    assert_eq!(requests.len(), 2);
    assert_eq!(ran.prompt(0)["result"], "FINAL-ANSWER");
    assert_eq!(ran.stdout, "FINAL-ANSWER\n");
    assert!(!requests[1].to_string().contains("PARTIAL-ONE"));
    let retries: Vec<Value> = ran.transcript("job/prompt-1");
    let retries: Vec<&Value> = retries
        .iter()
        .filter(|line| line["subtype"] == "api_retry")
        .collect();
    assert_eq!(retries.len(), 1);
    assert_eq!(retries[0]["error"], "overloaded");
    assert!(
        retries[0]["retry_delay_ms"].as_u64().unwrap() >= 375,
        "500 ms, a quarter less at most"
    );
}

#[test]
fn g34_an_invalid_request_inside_a_stream_is_final() {
    let refused = String::from_utf8(sse("overloaded-midstream.sse")).unwrap();
    let refused = refused.replace("overloaded_error", "invalid_request_error");
    let (ran, requests) = run(Program::new(&job("")), [raw(refused)]);
    assert_end(&ran, 3, "errored", "model_error");
    assert_eq!(requests.len(), 1);
    assert_eq!(ran.prompt(0)["result"], "");
}

#[test]
fn g35_a_call_without_arguments_is_an_ordinary_mistake() {
    let (ran, requests) = run(
        Program::new(&job("Glob")),
        [stream("empty-tool-input.sse"), reply().text("ok")],
    );
    assert_passed(&ran);
    assert_eq!(requests[1]["messages"][1]["content"][0]["input"], json!({}));
    let [(text, is_error)] = &results(&requests[1])[..] else {
        panic!("one result");
    };
    assert!(
        *is_error && text.contains("The required parameter `pattern` is missing"),
        "{text}"
    );
}
