//! The binary against a server that speaks the wire format: for each way a conversation can go its
//! outcome, reason, exit code, JUnit, number of requests and transcript.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::program::{Program, Ran, wait_for};
use super::server::{Answer, Server, raw, reply, status};

/// A job that may read and run `echo` and `false`; tries twice.
const JOB: &str = "\
prompts: [Do it.]
allowed_tools: [Read, Grep, Glob, Bash(echo *), Bash(false), Bash(sleep *)]
max_turns: 5
max_budget_usd: 1
limits: {attempts: 2, idle_timeout: 1s}
";

struct Expected {
    code: i32,
    outcome: &'static str,
    reason: &'static str,
    requests: usize,
}

/// Runs the job against the answers and checks what every scenario must show.
fn run(job: &str, answers: Vec<Answer>, expected: &Expected) -> (Ran, Vec<Value>) {
    let server = Server::start(answers);
    let ran = Program::new(job)
        .file("a.txt", "alpha\n")
        .against(&server)
        .run();
    let requests: Vec<Value> = server
        .finish()
        .into_iter()
        .map(|request| request.body)
        .collect();
    assert_eq!(ran.code, expected.code, "{}", ran.stderr);
    let (outcome, reason, _) = ran.end();
    assert_eq!(
        (outcome.as_str(), reason.as_str()),
        (expected.outcome, expected.reason),
        "{}",
        ran.stderr
    );
    assert_eq!(requests.len(), expected.requests);
    let prompt = ran.prompt(0);
    assert_eq!(prompt["requests"], expected.requests);
    let junit = ran.junit();
    match expected.outcome {
        "passed" => assert!(
            !junit.contains("<failure") && !junit.contains("<error"),
            "{junit}"
        ),
        "failed" => assert!(
            junit.contains("<failure") && junit.contains(&format!("type=\"{reason}\"")),
            "{junit}"
        ),
        _ => assert!(
            junit.contains("<error") && junit.contains(&format!("type=\"{reason}\"")),
            "{junit}"
        ),
    }
    ran.assert_transcript_is_whole();
    (ran, requests)
}

const PASSED: Expected = Expected {
    code: 0,
    outcome: "passed",
    reason: "completed",
    requests: 2,
};
const MODEL_ERROR: Expected = Expected {
    code: 3,
    outcome: "errored",
    reason: "model_error",
    requests: 2,
};

#[test]
fn a_text_reply_passes_and_is_the_result_on_standard_output() {
    let (ran, _) = run(
        JOB,
        vec![reply().text("It is done.")],
        &Expected {
            requests: 1,
            ..PASSED
        },
    );
    assert_eq!(ran.stdout, "It is done.\n");
    assert_eq!(ran.prompt(0)["result"], "It is done.");
    // 10 input tokens at 2 dollars and 5 output tokens at 10 dollars a million.
    assert_eq!(ran.run_json()["total_cost_usd"], 0.000_07);
}

#[test]
fn one_tool_is_run_and_its_result_goes_back() {
    let answers = vec![
        reply().tool_use("Read", json!({"file_path": "a.txt"})),
        reply().text("alpha"),
    ];
    let (ran, requests) = run(JOB, answers, &PASSED);
    assert_eq!(ran.tool_results(), [("     1\talpha".to_owned(), false)]);
    let results = &requests[1]["messages"][2]["content"];
    assert_eq!(results[0]["type"], "tool_result");
    assert_eq!(results[0]["content"], "     1\talpha");
}

#[test]
fn three_parallel_tools_are_answered_in_one_message_in_call_order() {
    let three = reply()
        .tool_use_with_id("toolu_1", "Read", json!({"file_path": "a.txt"}))
        .tool_use_with_id("toolu_2", "Bash", json!({"command": "echo two"}))
        .tool_use_with_id("toolu_3", "Glob", json!({"pattern": "*.txt"}));
    let (_, requests) = run(JOB, vec![three, reply().text("ok")], &PASSED);
    let results = requests[1]["messages"][2]["content"].as_array().unwrap();
    let ids: Vec<&Value> = results
        .iter()
        .map(|result| &result["tool_use_id"])
        .collect();
    assert_eq!(ids, ["toolu_1", "toolu_2", "toolu_3"]);
    assert_eq!(results[1]["content"], "two");
}

#[test]
fn an_unknown_tool_and_each_kind_of_argument_fault_are_told_to_the_model() {
    let faults = [
        (
            "Fetch",
            json!({}),
            "<tool_use_error>Error: No such tool available: Fetch</tool_use_error>",
        ),
        (
            "Read",
            json!({}),
            "The required parameter `file_path` is missing",
        ),
        (
            "Read",
            json!({"file_path": "a.txt", "path": "b"}),
            "An unexpected parameter `path` was provided",
        ),
        (
            "Read",
            json!({"file_path": 7}),
            "The parameter `file_path` type is expected as `string` but provided as `number`",
        ),
        (
            "Grep",
            json!({"pattern": "a", "output_mode": "all"}),
            "output_mode",
        ),
    ];
    for (tool, input, message) in faults {
        let answers = vec![reply().tool_use(tool, input), reply().text("ok")];
        let (ran, _) = run(JOB, answers, &PASSED);
        let [(text, is_error)] = &ran.tool_results()[..] else {
            panic!("one result")
        };
        assert!(text.contains(message) && *is_error, "{text}");
        assert!(
            tool == "Fetch"
                || text.starts_with(&format!(
                    "<tool_use_error>InputValidationError: {tool} failed"
                ))
        );
    }
}

#[test]
fn arguments_that_are_no_json_are_quoted_back() {
    let stream = include_bytes!("../../fixtures/sse/19-invalid-tool-json.sse");
    let (ran, _) = run(JOB, vec![raw(&stream[..]), reply().text("ok")], &PASSED);
    let (text, is_error) = &ran.tool_results()[0];
    assert!(
        *is_error && text.contains(r#"{"command": "echo hi", }"#),
        "{text}"
    );
}

#[test]
fn a_failing_command_is_told_with_its_exit_code() {
    let answers = vec![
        reply().tool_use("Bash", json!({"command": "false"})),
        reply().text("ok"),
    ];
    let (ran, _) = run(JOB, answers, &PASSED);
    let (text, is_error) = &ran.tool_results()[0];
    assert_eq!((text.as_str(), *is_error), ("Exit code 1", true));
}

#[test]
fn a_denied_call_is_told_does_not_run_and_fails_the_prompt() {
    let answers = vec![
        reply().tool_use("Bash", json!({"command": "touch marker"})),
        reply().text("I could not"),
    ];
    let expected = Expected {
        code: 1,
        outcome: "failed",
        reason: "permission_denied",
        requests: 2,
    };
    let (ran, requests) = run(JOB, answers, &expected);
    assert!(!ran.path().join("marker").exists());
    assert_eq!(requests[1]["messages"][2]["content"][0]["is_error"], true);
    let denial = &ran.prompt(0)["permission_denials"][0];
    assert_eq!(
        (&denial["tool_name"], &denial["tool_input"]["command"]),
        (&json!("Bash"), &json!("touch marker"))
    );
    assert!(ran.stderr.contains("touch marker"), "{}", ran.stderr);
    let decision = ran
        .transcript("job/prompt-1")
        .into_iter()
        .find(|line| line["subtype"] == "permission")
        .unwrap();
    assert_eq!(decision["decision"], "denied");
}

#[test]
fn the_turn_limit_ends_a_conversation_that_goes_on() {
    let answer = || {
        reply()
            .text("step")
            .tool_use("Bash", json!({"command": "echo on"}))
    };
    let expected = Expected {
        code: 1,
        outcome: "failed",
        reason: "max_turns",
        requests: 2,
    };
    let job = JOB.replace("max_turns: 5", "max_turns: 2");
    let (ran, _) = run(&job, vec![answer(), answer()], &expected);
    assert_eq!(ran.prompt(0)["num_turns"], 2);
    assert!(ran.end().2.contains('2'), "the message names the limit");
}

#[test]
fn the_budget_ends_a_conversation_before_the_request_that_could_pass_it() {
    // The second request could cost more than what 80 000 output tokens at 10 dollars a million leave.
    let spends = reply()
        .tool_use("Read", json!({"file_path": "a.txt"}))
        .usage(json!({"input_tokens": 10, "output_tokens": 12_000}));
    let job = JOB.replace("max_budget_usd: 1", "max_budget_usd: 0.14");
    let expected = Expected {
        code: 1,
        outcome: "failed",
        reason: "max_budget_usd",
        requests: 1,
    };
    let (ran, requests) = run(&job, vec![spends], &expected);
    assert!(
        requests[0]["max_tokens"].as_u64().unwrap() < 16_000,
        "lowered to fit"
    );
    let message = ran.end().2;
    assert!(
        message.contains("$0.1201") && message.contains("$0.1400"),
        "{message}"
    );
    assert_eq!(ran.run_json()["total_cost_usd"], 0.120_02);
}

#[test]
fn a_budget_that_covers_no_request_sends_none() {
    let job = JOB.replace("max_budget_usd: 1", "max_budget_usd: 0.0001");
    let expected = Expected {
        code: 1,
        outcome: "failed",
        reason: "max_budget_usd",
        requests: 0,
    };
    run(&job, vec![], &expected);
}

#[test]
fn a_passing_fault_is_retried_with_the_servers_own_delay_where_it_gives_one() {
    for (fault, kind) in [
        (
            status(429)
                .header("retry-after-ms", "20")
                .error("rate_limit_error", "Slow down"),
            "rate_limit",
        ),
        (
            status(529)
                .header("retry-after-ms", "20")
                .error("overloaded_error", "Overloaded"),
            "overloaded",
        ),
        (
            status(500)
                .header("retry-after-ms", "20")
                .error("api_error", "Internal"),
            "server_error",
        ),
    ] {
        let (ran, _) = run(JOB, vec![fault, reply().text("ok")], &PASSED);
        let retries: Vec<Value> = ran
            .transcript("job/prompt-1")
            .into_iter()
            .filter(|line| line["subtype"] == "api_retry")
            .collect();
        assert_eq!(retries.len(), 1);
        assert_eq!(
            (&retries[0]["error"], &retries[0]["retry_delay_ms"]),
            (&json!(kind), &json!(20))
        );
        assert_eq!(
            ran.prompt(0)["cost_unsettled_usd"],
            0.0,
            "an error status costs nothing"
        );
    }
}

#[test]
fn retry_after_in_seconds_is_waited_for() {
    let fault = status(429)
        .header("retry-after", "1")
        .error("rate_limit_error", "Slow down");
    let (ran, _) = run(JOB, vec![fault, reply().text("ok")], &PASSED);
    assert!(ran.prompt(0)["duration_ms"].as_u64().unwrap() >= 1000);
}

#[test]
fn a_fault_that_does_not_pass_ends_in_model_error_after_the_configured_attempts() {
    for fault in [
        status(429)
            .header("retry-after-ms", "5")
            .error("rate_limit_error", "Slow down"),
        status(529)
            .header("retry-after-ms", "5")
            .error("overloaded_error", "Overloaded"),
        status(503)
            .header("retry-after-ms", "5")
            .body("text/html", "<html>down</html>"),
    ] {
        let (ran, _) = run(JOB, vec![fault.clone(), fault], &MODEL_ERROR);
        assert_eq!(ran.prompt(0)["result"], "", "an error is no answer");
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn a_wrong_key_is_never_tried_again_and_never_shown() {
    let fault = status(401).error(
        "authentication_error",
        "invalid x-api-key sk-test-0123456789",
    );
    let (ran, _) = run(
        JOB,
        vec![fault],
        &Expected {
            requests: 1,
            ..MODEL_ERROR
        },
    );
    assert!(ran.end().2.contains("401"), "{}", ran.end().2);
    for text in [
        &ran.stdout,
        &ran.stderr,
        &ran.read("out/run.json"),
        &ran.read("out/job/prompt-1/transcript.jsonl"),
    ] {
        assert!(!text.contains("sk-test-0123456789"), "{text}");
    }
}

#[test]
fn a_connection_that_is_refused_ends_in_model_error() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let ran = Program::new(JOB)
        .env("ANTHROPIC_BASE_URL", &format!("http://127.0.0.1:{port}"))
        .env("ANTHROPIC_API_KEY", "sk-test-0123456789")
        .run();
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let (outcome, reason, message) = ran.end();
    assert_eq!(
        (outcome.as_str(), reason.as_str()),
        ("errored", "model_error")
    );
    assert!(
        message.contains("refused") && message.contains(&port.to_string()),
        "{message}"
    );
    let prompt = ran.prompt(0);
    assert_eq!(prompt["cost_unsettled_usd"], 0.0, "nothing was sent");
    assert_eq!(
        (&prompt["requests"], &prompt["num_turns"]),
        (&json!(2), &json!(0))
    );
    assert!(
        ran.junit().contains("type=\"model_error\""),
        "{}",
        ran.junit()
    );
    ran.assert_transcript_is_whole();
}

#[test]
fn a_stream_that_is_cut_is_tried_again_and_its_reservation_stays_taken() {
    let cut = reply().text("half").cut_after(450);
    let (ran, _) = run(JOB, vec![cut, reply().text("whole")], &PASSED);
    let prompt = ran.prompt(0);
    assert_eq!(prompt["result"], "whole");
    assert!(
        prompt["cost_unsettled_usd"].as_f64().unwrap() > 0.1,
        "{prompt}"
    );
    assert!(
        ran.transcript("job/prompt-1")
            .iter()
            .any(|line| line["subtype"] == "tombstone")
    );
}

#[test]
fn a_reply_without_usage_counts_with_its_whole_reservation_and_never_as_nothing() {
    let call = || reply().tool_use("Read", json!({"file_path": "a.txt"}));
    for usage in [
        json!({}),
        json!({"input_tokens": -10, "output_tokens": 5}),
        json!(null),
    ] {
        let answers = vec![call().usage(usage), reply().text("ok")];
        let (ran, _) = run(JOB, answers, &PASSED);
        let prompt = ran.prompt(0);
        // 16 000 output tokens at 10 dollars a million, and some input.
        assert!(
            prompt["cost_unsettled_usd"].as_f64().unwrap() > 0.16,
            "{prompt}"
        );
        // The second reply alone.
        assert_eq!(ran.run_json()["total_cost_usd"], 0.000_07);
        let warnings = prompt["warnings"].to_string();
        assert!(
            warnings.contains("the provider reported no usage"),
            "{warnings}"
        );
        let reserved: Vec<f64> = ran
            .transcript("job/prompt-1")
            .iter()
            .filter(|line| line["subtype"] == "request")
            .map(|line| line["reserved_usd"].as_f64().unwrap())
            .collect();
        assert!(
            reserved[1] > reserved[0],
            "its input is not less for not being counted"
        );
    }
    let job = JOB.replace("max_budget_usd: 1", "max_budget_usd: 0.18");
    let expected = Expected {
        code: 1,
        outcome: "failed",
        reason: "max_budget_usd",
        requests: 1,
    };
    run(&job, vec![call().usage(json!({}))], &expected);
}

#[test]
fn a_gateway_that_loses_an_answer_leaves_its_cost_open() {
    for code in [408, 502, 504] {
        let lost = status(code)
            .header("retry-after-ms", "5")
            .body("text/html", "<html>");
        let (ran, _) = run(JOB, vec![lost, reply().text("ok")], &PASSED);
        let prompt = ran.prompt(0);
        assert!(
            prompt["cost_unsettled_usd"].as_f64().unwrap() > 0.1,
            "{prompt}"
        );
    }
}

#[test]
fn a_stream_that_falls_silent_is_dropped_at_the_idle_limit() {
    let silent = || reply().text("half").stall_after(300);
    let (ran, _) = run(JOB, vec![silent(), reply().text("whole")], &PASSED);
    assert_eq!(ran.prompt(0)["result"], "whole");
    let (ran, _) = run(JOB, vec![silent(), silent()], &MODEL_ERROR);
    assert!(ran.end().2.contains("no byte for 1s"), "{}", ran.end().2);
}

#[test]
fn a_reset_connection_is_tried_again() {
    let (ran, _) = run(
        JOB,
        vec![reply().text("half").reset_after(200), reply().text("whole")],
        &PASSED,
    );
    assert_eq!(ran.prompt(0)["result"], "whole");
}

#[test]
fn an_answer_that_is_no_event_stream_is_no_answer() {
    let html = status(200).body("text/html", "<html>Sign in</html>");
    let (ran, _) = run(
        JOB,
        vec![html],
        &Expected {
            requests: 1,
            ..MODEL_ERROR
        },
    );
    assert!(ran.end().2.contains("Sign in"), "{}", ran.end().2);
}

#[test]
fn a_refusal_is_a_failure_that_says_why() {
    for stream in [
        &include_bytes!("../../fixtures/sse/09-refusal-before-output.sse")[..],
        include_bytes!("../../fixtures/sse/10-refusal-mid-output.sse"),
    ] {
        let expected = Expected {
            code: 1,
            outcome: "failed",
            reason: "refusal",
            requests: 1,
        };
        let (ran, _) = run(JOB, vec![raw(stream)], &expected);
        assert_eq!(
            ran.prompt(0)["result"],
            "",
            "partial content of a refused reply is dropped"
        );
    }
}

#[test]
fn a_reply_cut_off_empty_or_over_the_window_is_no_success() {
    for (stream, reason) in [
        (
            &include_bytes!("../../fixtures/sse/07-max-tokens-text.sse")[..],
            "max_output_tokens",
        ),
        (
            include_bytes!("../../fixtures/sse/08-max-tokens-tool.sse"),
            "max_output_tokens",
        ),
        (
            include_bytes!("../../fixtures/sse/13-context-window-exceeded.sse"),
            "prompt_too_long",
        ),
        (
            include_bytes!("../../fixtures/sse/14-empty-end-turn.sse"),
            "empty_reply",
        ),
    ] {
        let expected = Expected {
            code: 1,
            outcome: "failed",
            reason,
            requests: 1,
        };
        run(JOB, vec![raw(stream)], &expected);
    }
}

#[test]
fn a_prompt_that_is_too_long_for_the_model_fails_as_that() {
    let fault = status(400).error(
        "invalid_request_error",
        "prompt is too long: 208656 tokens > 200000 maximum",
    );
    let expected = Expected {
        code: 1,
        outcome: "failed",
        reason: "prompt_too_long",
        requests: 1,
    };
    run(JOB, vec![fault], &expected);
}

#[test]
fn the_wall_clock_ends_a_prompt() {
    let job = format!("{JOB}timeout: 1s\n").replace("idle_timeout: 1s", "idle_timeout: 60s");
    let expected = Expected {
        code: 1,
        outcome: "failed",
        reason: "timeout",
        requests: 1,
    };
    run(&job, vec![reply().text("half").stall_after(300)], &expected);
}

#[test]
fn a_signal_in_the_middle_of_a_bash_call_ends_it_and_leaves_every_report() {
    for (signal, code, name) in [
        (Signal::TERM, 143, "SIGTERM"),
        (Signal::INT, 130, "SIGINT"),
        (Signal::HUP, 129, "SIGHUP"),
    ] {
        let command = json!({"command": "echo $$ > pid; sleep 300"});
        let server = Server::start([reply().text("I wait").tool_use("Bash", command)]);
        let job = JOB.replace("Bash(echo *)", "Bash");
        let running = Program::new(&job).against(&server).start();
        let pid_file = running.path().join("pid");
        let pid = wait_for("the command to run", || {
            let text = std::fs::read_to_string(&pid_file).ok()?;
            text.trim().parse::<i32>().ok()
        });
        running.signal(signal);
        let ran = running.wait();
        assert_eq!(server.finish().len(), 1);
        assert_eq!(ran.code, code, "{}", ran.stderr);
        let (outcome, reason, message) = ran.end();
        assert_eq!((outcome.as_str(), reason.as_str()), ("errored", "aborted"));
        assert!(message.contains(name), "{message}");
        assert_eq!(ran.prompt(0)["result"], "I wait", "what was said is kept");
        assert!(ran.junit().contains("type=\"aborted\""));
        assert!(ran.read("out/summary.md").contains("aborted"));
        ran.assert_transcript_is_whole();
        let (text, is_error) = &ran.tool_results()[0];
        assert!(*is_error && text.contains("Interrupted"), "{text}");
        assert!(
            !std::path::Path::new(&format!("/proc/{pid}")).exists(),
            "the command is still alive"
        );
    }
}

#[test]
fn two_prompts_that_may_write_take_turns_and_readers_run_together() {
    let most_at_once = |tools: &str| {
        let [now, most] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let (here, seen) = (Arc::clone(&now), Arc::clone(&most));
        let server = Server::answering(move |_| {
            seen.fetch_max(here.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // Long enough for the other prompt to come, if it may.
            std::thread::sleep(Duration::from_millis(700));
            here.fetch_sub(1, Ordering::SeqCst);
            reply().text("ok")
        });
        // Different system prompts, so that none waits for the other's cache.
        let job = format!(
            "prompts: [{{prompt: One., system: a}}, {{prompt: Two., system: b}}]\n\
             allowed_tools: [{tools}]\nmax_budget_usd: 1\n"
        );
        let ran = Program::new(&job).against(&server).run();
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        server.finish();
        most.load(Ordering::SeqCst)
    };
    assert_eq!(most_at_once("Bash"), 1);
    assert_eq!(most_at_once("Read"), 2);
}

#[test]
fn a_workspace_that_is_gone_is_a_setup_error_of_its_prompt() {
    // The first prompt removes what the second works in.
    let server = Server::start([
        reply().tool_use("Bash", json!({"command": "rmdir gone"})),
        reply().text("removed"),
    ]);
    let job = "prompts: [{prompt: a, allowed_tools: [Bash]}, {prompt: b, workspace: {dir: gone}}]\n\
        allowed_tools: [Read]\nmax_budget_usd: 1\n";
    let program = Program::new(job)
        .against(&server)
        .args(&["--concurrency", "1"]);
    std::fs::create_dir(program.path().join("gone")).unwrap();
    let ran = program.run();
    assert_eq!(server.finish().len(), 2);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let prompt = ran.prompt(1);
    assert_eq!(
        (&prompt["outcome"], &prompt["reason"]),
        (&json!("errored"), &json!("setup_error"))
    );
    assert!(
        prompt["message"]
            .as_str()
            .unwrap()
            .contains("opening the workspace"),
        "{prompt}"
    );
    assert!(ran.junit().contains("type=\"setup_error\""));
}

#[test]
fn prompts_that_a_signal_kept_from_starting_are_not_run_and_never_green() {
    let server =
        Server::start([reply().tool_use("Bash", json!({"command": "touch on; sleep 300"}))]);
    let job = "prompts: [a, b]\nallowed_tools: [Bash]\nmax_budget_usd: 1\n";
    let running = Program::new(job)
        .against(&server)
        .args(&["--concurrency", "1"])
        .start();
    let begun = running.path().join("on");
    wait_for("the command to run", || begun.exists().then_some(()));
    running.signal(Signal::TERM);
    let ran = running.wait();
    assert_eq!(server.finish().len(), 1);
    assert_eq!(ran.code, 143);
    let ends = [ran.prompt(0), ran.prompt(1)].map(|prompt| prompt["reason"].clone());
    assert_eq!(ends, ["aborted", "not_run"]);
    assert_eq!(ran.prompt(1)["outcome"], "skipped");
    assert!(ran.junit().contains("<skipped"), "{}", ran.junit());
}
