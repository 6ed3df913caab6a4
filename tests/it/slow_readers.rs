//! A run whose output nobody reads, or whose reader has gone away.

use rustix::process::Signal;

use super::program::{Program, wait_for};

/// Enough prompts to fill a pipe and every buffer behind it with `-v`.
fn many_prompts() -> Program {
    let prompts: Vec<String> = (0..250).map(|n| format!("prompt number {n}")).collect();
    let job = format!(
        "model: replay/cassette.yaml\nreplay: {{match: order}}\nallowed_tools: [Read]\nprompts: [{}]\n",
        prompts.join(", ")
    );
    let cassette = "replies:\n\
        - {tool_use: {name: Read, input: {file_path: job.yaml}}}\n\
        - {tool_use: {name: Read, input: {file_path: job.yaml}}}\n\
        - {text: done}\n";
    Program::new(&job)
        .file("cassette.yaml", cassette)
        .args(&["-v"])
}

#[test]
fn the_reports_are_written_while_nobody_reads_and_a_signal_ends_the_wait() {
    let running = many_prompts().start();
    let report = running.path().join("out/junit.xml");
    wait_for("the reports", || report.exists().then_some(()));
    running.signal(Signal::TERM);
    // The pipes are read only from here on; what was lost is lost, the record is not.
    let ran = running.wait_unread();
    assert_eq!(ran.code, 0);
    assert_eq!(ran.run_json()["counts"]["passed"], 250);
}

#[test]
fn results_that_cannot_be_delivered_are_an_error_and_a_reader_that_left_is_none() {
    let program = || {
        Program::new("model: replay/c.yaml\nprompts: [hi]\n")
            .file("c.yaml", "replies: [{text: hello}]\n")
    };
    let run = |line: &str| program().shell(line).run();
    let lightsout = env!("CARGO_BIN_EXE_lightsout");
    let full = run(&format!("{lightsout} run job.yaml --output out >/dev/full"));
    assert_eq!(full.code, 3, "{}", full.stderr);
    assert!(
        full.stderr
            .contains("writing the results to standard output"),
        "{}",
        full.stderr
    );
    let gone = run(&format!(
        "set -o pipefail; {lightsout} run job.yaml --output out | true"
    ));
    assert_eq!(gone.code, 0, "{}", gone.stderr);
}
