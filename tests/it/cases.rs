//! The acceptance cases: faults that people met in public when they ran agents unattended, each a small
//! test of the binary against a server that speaks the wire format. A test bears its case's number; the
//! files `cases_*.rs` hold one subject each, and this one what they share.

use serde_json::Value;

use super::program::{Program, Ran, fixtures};
use super::server::{Answer, Server, raw};

/// A job of one prompt with these rules, each in quotes where YAML needs them.
pub(crate) fn job(rules: &str) -> String {
    format!(
        "prompts: [Do it.]\n\
         allowed_tools: [{rules}]\n\
         max_turns: 5\n\
         max_budget_usd: 1\n\
         limits: {{attempts: 2, idle_timeout: 10s}}\n"
    )
}

/// Runs a program against these answers: how it ended, and the bodies of the requests.
pub(crate) fn run(
    program: Program,
    answers: impl IntoIterator<Item = Answer>,
) -> (Ran, Vec<Value>) {
    let server = Server::start(answers);
    let ran = program.against(&server).run();
    let requests = server.finish().into_iter().map(|request| request.body);
    (ran, requests.collect())
}

/// Asserts that the first prompt ended so.
#[track_caller]
pub(crate) fn assert_end(ran: &Ran, code: i32, outcome: &str, reason: &str) {
    assert_eq!(ran.code, code, "{}", ran.stderr);
    let (got_outcome, got_reason, _) = ran.end();
    assert_eq!(
        (&*got_outcome, &*got_reason),
        (outcome, reason),
        "{}",
        ran.stderr
    );
    ran.assert_transcript_is_whole();
}

#[track_caller]
pub(crate) fn assert_passed(ran: &Ran) {
    assert_end(ran, 0, "passed", "completed");
}

/// The bytes of `fixtures/sse/NAME`.
pub(crate) fn sse(name: &str) -> Vec<u8> {
    std::fs::read(fixtures().join("sse").join(name)).unwrap()
}

/// A reply of exactly the bytes of `fixtures/sse/NAME`.
pub(crate) fn stream(name: &str) -> Answer {
    raw(sse(name))
}

/// The rows of a file of JSON lines in `fixtures`.
pub(crate) fn rows(fixture: &str) -> Vec<Value> {
    let lines = std::fs::read_to_string(fixtures().join(fixture)).unwrap();
    let rows = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    rows.collect()
}

/// The texts of the last message of a request's tool results, and whether they are errors.
pub(crate) fn results(request: &Value) -> Vec<(String, bool)> {
    let blocks = request["messages"].as_array().unwrap().last().unwrap()["content"].as_array();
    let results = blocks
        .unwrap()
        .iter()
        .filter(|block| block["type"] == "tool_result");
    results
        .map(|result| {
            let text = result["content"].as_str().unwrap_or_default().to_owned();
            (text, result["is_error"] == true)
        })
        .collect()
}

/// Whether a process runs whose command line holds these words.
pub(crate) fn is_running(words: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .any(|line| {
            String::from_utf8_lossy(&line)
                .replace('\0', " ")
                .contains(words)
        })
}
