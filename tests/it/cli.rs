//! What a person reads: help, faults, explanations, the lines of a run. Compared whole with `fixtures/cli`.

use std::fs;
use std::path::Path;

use super::program::{Program, Ran, fixtures};

/// Compares with `fixtures/cli/NAME.txt`; what differs is left in the target directory, to be looked at
/// and copied.
fn assert_reads(name: &str, ran: &Ran) {
    let actual = format!(
        "{}--- standard error\n{}--- exit code {}\n",
        steady(&ran.stdout, ran),
        steady(&ran.stderr, ran),
        ran.code
    );
    let path = fixtures().join(format!("cli/{name}.txt"));
    let expected = fs::read_to_string(&path).unwrap_or_default();
    if actual != expected {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.txt"));
        fs::write(&kept, &actual).unwrap();
        panic!(
            "{} reads otherwise, see {}:\n{actual}",
            path.display(),
            kept.display()
        );
    }
}

/// Without what differs from run to run: the directory and the times.
fn steady(text: &str, ran: &Ran) -> String {
    let text = text.replace(ran.path().to_str().unwrap(), "DIR");
    let time = regex::Regex::new(r"\b\d+(\.\ds|ms)\b").unwrap();
    time.replace_all(&text, "0ms").into_owned()
}

const JOB: &str = "\
model: replay/cassette.yaml
allowed_tools: [Read, Edit, Bash(echo *)]
denied_tools: ['Read(*.pem)']
max_turns: 4
sandbox: {mode: off}
prompts:
  - id: good
    prompt: Do it.
  - id: bad
    prompt: Do it.
    checks: [{command: 'echo nothing was done; exit 3'}]
  - id: broken
    prompt: Do it.
    limits: {attempts: 2}
";

const CASSETTE: &str = "\
model: claude-sonnet-5-5
prompts:
  good:
    - text: I look.
      tool_uses:
        - {name: Read, input: {file_path: a.txt}}
        - {name: Bash, input: {command: echo one}}
    - text: It is done.
  bad:
    - tool_use: {name: Bash, input: {command: rm a.txt}}
    - tool_use: {name: Read, input: {file_path: key.pem}}
    - text: Done as well.
  broken:
    - error: {status: 529, type: overloaded_error, message: Overloaded, headers: {retry-after: 0}}
    - error: {status: 400, type: invalid_request_error, message: 'messages: too many'}
";

fn program(command: &[&str]) -> Program {
    Program::bare(command)
        .file("job.yaml", JOB)
        .file("cassette.yaml", CASSETTE)
        .file("a.txt", "alpha\n")
        .file("key.pem", "secret\n")
}

#[test]
fn help() {
    assert_reads("help", &program(&["--help"]).run());
}

#[test]
fn help_of_run() {
    assert_reads("help-run", &program(&["run", "--help"]).run());
}

#[test]
fn a_command_line_that_is_wrong() {
    assert_reads("usage", &program(&["run", "--concurency", "2"]).run());
}

#[test]
fn a_job_file_with_faults() {
    let bad = "\
promts: [Do it.]
allowed_tools: [Raed, 'Bash(git log *']
max_turns: lots
max_budget_usd: -1
timeout: 5 parsecs
hooks: {Stop: [{command: make}]}
";
    let ran = program(&["validate", "job.yaml", "bad.yaml"])
        .file("bad.yaml", bad)
        .run();
    assert_reads("validate", &ran);
}

#[test]
fn explanations() {
    for (name, call) in [
        ("explain-allowed", "Bash(echo one | echo two)"),
        ("explain-denied", "Bash(echo $(id) > /etc/passwd)"),
        ("explain-denied-by-rule", "Read(keys/key.pem)"),
        ("explain-write", "Edit(a.txt)"),
    ] {
        assert_reads(name, &program(&["explain", "job.yaml", call]).run());
    }
}

#[test]
fn a_run_line_by_line() {
    for prompt in ["good", "bad", "broken"] {
        let command = ["run", "job.yaml", "--output", "out", "-v", "--only", prompt];
        assert_reads(&format!("run-verbose-{prompt}"), &program(&command).run());
    }
}

#[test]
fn a_run_in_a_few_lines() {
    let command = [
        "run", "job.yaml", "--output", "out", "--skip", "broken", "--skip", "good",
    ];
    assert_reads("run", &program(&command).run());
}

#[test]
fn the_last_line_is_how_it_ended_even_below_the_results() {
    let command = ["run", "job.yaml", "--output", "out", "--only", "good"];
    let both_streams = ["bash", "-c", "exec \"$0\" \"$@\" 2>&1"];
    assert_reads(
        "run-on-one-stream",
        &program(&command).under(&both_streams).run(),
    );
}

#[test]
fn a_warning_about_the_job_file_is_kept_and_quiet_prints_none() {
    let command = ["run", "job.yaml", "--output", "out", "--only", "bad"];
    let ran = program(&command).args(&["--quiet"]).run();
    assert_eq!(ran.code, 1);
    assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
    assert_eq!(
        ran.run_json()["warnings"],
        serde_json::json!([
            "job.yaml:7:5: prompts \"good\", \"broken\" may write or run commands, and no check looks at \
             what they did"
        ])
    );
}

#[test]
fn a_run_without_anything_to_run() {
    let command = ["run", "job.yaml", "--only", "none"];
    assert_reads("run-nothing", &program(&command).run());
}

#[test]
fn prompts_begin_in_the_order_of_the_files() {
    let ids: Vec<String> = (1..=24).map(|number| format!("p{number}")).collect();
    let prompts: Vec<String> = ids
        .iter()
        .map(|id| format!("  - {{id: {id}, prompt: Do it.}}\n"))
        .collect();
    // Readers go by the free places, writers by the workspace.
    for tool in ["Read", "Edit"] {
        let job = format!(
            "model: replay/cassette.yaml\nallowed_tools: [{tool}]\nprompts:\n{}",
            prompts.concat()
        );
        let command = ["run", "job.yaml", "--output", "out", "--concurrency", "1"];
        let ran = program(&command)
            .file("job.yaml", job)
            .file("cassette.yaml", "replies: [{text: done}]")
            .run();
        let passed = ran.stderr.lines().filter_map(|line| {
            let (id, _) = line.strip_prefix("PASS job/")?.split_once(' ')?;
            Some(id.to_owned())
        });
        assert_eq!(passed.collect::<Vec<_>>(), ids, "{tool}");
    }
}
