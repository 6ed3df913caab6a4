//! Acceptance cases: staying alive, honest ends, turns and money.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::cases::{assert_end, assert_passed, is_running, job, results, run, stream};
use super::program::Program;
use super::server::{reply, status};

#[test]
fn g01_without_a_terminal_a_run_ends_by_itself_and_writes_no_escape_sequences() {
    let program = Program::new(&job("")).under(&["setsid"]);
    assert!(program.command().get_envs().all(|(name, _)| name != "TERM"));
    let (ran, _) = run(program, [reply().text("4")]);
    assert_passed(&ran);
    assert_eq!(ran.stdout, "4\n");
    assert!(!ran.stderr.is_empty());
    assert!(
        !ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'),
        "{}",
        ran.stderr
    );
}

#[test]
fn g02_a_child_that_keeps_the_pipe_is_not_waited_for() {
    for (command, sleep) in [
        ("sleep 300.021 & echo started", "sleep 300.021"),
        ("sleep 300.022 >/dev/null & echo started", "sleep 300.022"),
    ] {
        let answers = [
            reply().tool_use("Bash", json!({"command": command})),
            reply().text("ok"),
        ];
        let (ran, _) = run(Program::new(&job("Bash")), answers);
        assert_passed(&ran);
        let (text, is_error) = &ran.tool_results()[0];
        assert!(text.starts_with("started\n") && !is_error, "{text}");
        assert!(text.contains(sleep), "the leftover is named: {text}");
        assert!(ran.prompt(0)["duration_ms"].as_u64().unwrap() < 10_000);
        assert!(!is_running(sleep));
    }
}

#[test]
fn g03_a_time_limit_reaches_the_whole_process_tree() {
    let command = r#"trap "" TERM; (sleep 300.03) & echo 1; sleep 300.03"#;
    let answers = [
        reply().tool_use("Bash", json!({"command": command, "timeout": 500})),
        reply().text("ok"),
    ];
    let (ran, _) = run(Program::new(&job("Bash")), answers);
    assert_passed(&ran);
    let (text, is_error) = &ran.tool_results()[0];
    assert!(
        *is_error && text.starts_with("1\nKilled after 0.5 s (timeout)"),
        "{text}"
    );
    assert!(!is_running("sleep 300.03"));
    assert!(ran.prompt(0)["duration_ms"].as_u64().unwrap() < 10_000);
}

/// Runs git as a user would, whether it succeeds or not.
#[expect(
    clippy::disallowed_methods,
    reason = "prepares a repository, outside of the product"
)]
fn git(directory: &Path, command_line: &str) {
    let output = Command::new("git")
        .args(command_line.split(' '))
        .current_dir(directory)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", directory)
        .env("GIT_EDITOR", "true")
        .output();
    output.unwrap();
}

/// A program in whose workspace these git commands were run; `FILE=TEXT` writes a file.
fn in_repository(job: &str, steps: &[&str]) -> Program {
    let program = Program::new(job);
    let identity = [
        "init -q -b main",
        "config user.name Ann",
        "config user.email ann@example.com",
    ];
    for step in identity.iter().chain(steps) {
        match step.split_once('=') {
            Some((file, text)) => std::fs::write(program.path().join(file), text).unwrap(),
            None => git(program.path(), step),
        }
    }
    program
}

#[test]
fn g04_a_command_that_opens_an_editor_fails_at_once() {
    let staged = ["f=one", "add f"];
    let stopped_rebase = [
        "f=base",
        "add f",
        "commit -q -m base",
        "checkout -q -b side",
        "f=side",
        "commit -q -a -m side",
        "checkout -q main",
        "f=main",
        "commit -q -a -m main",
        "checkout -q side",
        "rebase -q main",
        "f=merged",
        "add f",
    ];
    for (steps, command, message) in [
        (&staged[..], "git commit", "editor"),
        (&stopped_rebase, "git rebase --continue", "editor"),
        (&[], "read x </dev/tty", "/dev/tty"),
    ] {
        let answers = [
            reply().tool_use("Bash", json!({"command": command})),
            reply().text("ok"),
        ];
        let (ran, _) = run(in_repository(&job("Bash"), steps), answers);
        assert_passed(&ran);
        let (text, is_error) = &ran.tool_results()[0];
        assert!(*is_error && text.contains(message), "{command}: {text}");
        assert!(text.contains("Exit code"), "{command}: {text}");
        assert!(ran.prompt(0)["duration_ms"].as_u64().unwrap() < 10_000);
    }
}

#[test]
fn g07_an_api_failure_is_no_answer() {
    let refused = || status(429).error("rate_limit_error", "You are going too fast.");
    let (ran, requests) = run(Program::new(&job("")), [refused(), refused()]);
    assert_end(&ran, 3, "errored", "model_error");
    assert_eq!(requests.len(), 2);
    assert_eq!(ran.prompt(0)["result"], "");
    assert_eq!(ran.stdout, "");
    assert!(
        ran.stderr.contains("You are going too fast."),
        "{}",
        ran.stderr
    );
    let junit = ran.junit();
    assert!(junit.contains("<error type=\"model_error\""), "{junit}");
    assert!(!junit.contains("<system-out"), "{junit}");
}

#[test]
fn g08_the_only_useful_tool_was_denied() {
    let answers = || {
        [
            reply().tool_use("Write", json!({"file_path": "probe.txt", "content": "x"})),
            reply().text("I could not write it"),
        ]
    };
    let (ran, requests) = run(Program::new(&job("Read(**)")), answers());
    assert_end(&ran, 1, "failed", "permission_denied");
    assert!(!ran.path().join("probe.txt").exists());
    assert!(results(&requests[1])[0].1);
    let denial = &ran.prompt(0)["permission_denials"][0];
    assert_eq!(denial["tool_name"], "Write");
    assert_eq!(
        denial["tool_input"],
        json!({"file_path": "probe.txt", "content": "x"})
    );
    assert!(denial["rule"].is_null(), "no rule allowed it: {denial}");
    let denied = ran
        .stderr
        .lines()
        .filter(|line| line.starts_with("denied: "));
    let denied: Vec<&str> = denied.collect();
    assert_eq!(denied.len(), 1, "{}", ran.stderr);
    assert!(denied[0].contains("Write") && denied[0].contains("probe.txt"));
    assert!(ran.junit().contains("<failure type=\"permission_denied\""));

    let job = format!("{}on_denied: warn\n", job("Read(**)"));
    let (ran, _) = run(Program::new(&job), answers());
    assert_passed(&ran);
    assert_eq!(
        ran.prompt(0)["permission_denials"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn g08_a_tool_that_is_not_offered_is_denied_by_the_rule_that_names_it() {
    let job = format!("{}denied_tools: [Bash]\n", job("Read"));
    let answers = [
        reply().tool_use("Bash", json!({"command": "touch marker"})),
        reply().text("I could not"),
    ];
    let (ran, requests) = run(Program::new(&job), answers);
    assert_end(&ran, 1, "failed", "permission_denied");
    assert_eq!(ran.prompt(0)["permission_denials"][0]["rule"], "Bash");
    let offered: Vec<&str> = requests[0]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(offered, ["Read"]);
    assert!(!ran.path().join("marker").exists());
}

#[test]
fn g09_the_turn_limit_keeps_the_work() {
    let step = |n: u32| {
        let command = json!({"command": format!("echo {n}")});
        reply().text(&format!("step {n}")).tool_use("Bash", command)
    };
    let job = job("Bash(echo *)").replace("max_turns: 5", "max_turns: 2");
    let (ran, _) = run(Program::new(&job), [step(1), step(2)]);
    assert_end(&ran, 1, "failed", "max_turns");
    assert!(ran.end().2.contains('2'), "{}", ran.end().2);
    let prompt = ran.prompt(0);
    assert_eq!(
        (&prompt["num_turns"], &prompt["result"]),
        (&json!(2), &json!("step 2"))
    );
    // Twice 10 input tokens at 2 dollars and 5 output tokens at 10 dollars a million.
    assert_eq!(prompt["cost_usd"], 0.000_14);
    assert_eq!(
        ran.tool_results(),
        [("1".to_owned(), false), ("2".to_owned(), false)]
    );
    let junit = ran.junit();
    assert!(
        junit.contains("<failure type=\"max_turns\" message=\""),
        "{junit}"
    );
    assert!(junit.contains("step 2"), "{junit}");
}

#[test]
fn g10_a_turn_is_a_reply_of_the_model_and_not_a_result() {
    let six = (1..=6).fold(reply(), |reply, n| {
        reply.tool_use("Bash", json!({"command": format!("echo {n}")}))
    });
    let job = job("Bash(echo *)").replace("max_turns: 5", "max_turns: 3");
    let (ran, requests) = run(Program::new(&job), [six, reply().text("done")]);
    assert_passed(&ran);
    assert_eq!(results(&requests[1]).len(), 6);
    assert_eq!(ran.prompt(0)["num_turns"], 2);
    let junit = ran.junit();
    assert!(
        junit.contains("<property name=\"prompt-1.turns\" value=\"2\""),
        "{junit}"
    );
    assert_eq!(
        ran.transcript("job/prompt-1").last().unwrap()["num_turns"],
        2
    );
}

#[test]
fn g13_usage_in_a_stream_is_cumulative() {
    let (ran, _) = run(Program::new(&job("")), [stream("usage-cumulative.sse")]);
    assert_passed(&ran);
    let usage = json!({
        "input_tokens": 1000,
        "output_tokens": 500,
        "cache_creation_input_tokens": 2000,
        "cache_read_input_tokens": 10_000,
    });
    let recorded = ran.prompt(0)["usage"].clone();
    for (kind, tokens) in usage.as_object().unwrap() {
        assert_eq!(&recorded[kind], tokens, "{recorded}");
    }
}

const PRICES: &str = "providers: {claude-sonnet-5-5: {price: {input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75}}}\n";

#[test]
fn g14_cache_tokens_have_their_own_price() {
    let program = Program::new(&format!("{}{PRICES}", job("")));
    let (ran, _) = run(program, [stream("usage-cumulative.sse")]);
    assert_passed(&ran);
    assert_eq!(ran.prompt(0)["cost_usd"], 0.021);
    assert_eq!(ran.run_json()["total_cost_usd"], 0.021);
}

#[test]
fn g14_the_budget_is_checked_with_the_same_figure() {
    let job =
        format!("{}{PRICES}", job("Read")).replace("max_budget_usd: 1", "max_budget_usd: 0.08");
    let usage = json!({
        "input_tokens": 1000, "cache_creation_input_tokens": 2000,
        "cache_read_input_tokens": 10_000, "output_tokens": 500,
    });
    let reads = reply()
        .tool_use("Read", json!({"file_path": "job.yaml"}))
        .usage(usage);
    let (ran, requests) = run(Program::new(&job), [reads]);
    assert_end(&ran, 1, "failed", "max_budget_usd");
    assert_eq!(requests.len(), 1);
    assert!(ran.end().2.contains("spent $0.0210"), "{}", ran.end().2);
    assert_eq!(ran.run_json()["total_cost_usd"], 0.021);
}

#[test]
fn g14_a_model_without_a_price_is_refused_under_a_budget() {
    let job = format!("model: anthropic/claude-unheard-of-9\n{}", job(""));
    let (ran, requests) = run(Program::new(&job), []);
    assert_eq!((ran.code, requests.len()), (2, 0), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("job.yaml:1:8: error:"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("price"), "{}", ran.stderr);
}
