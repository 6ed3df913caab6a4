//! The loop by tables, one line a step, and its properties over random worlds.
//!
//! Every request that leaves in any of these tests is checked: calls and results are paired and in
//! order, no text is blank, the first message is the user's.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::message::{
    ApiStopReason, Block, BlockKind, Failure, FailureKind, Head, Message, Reply, Request,
    RequestNumber, Role, ToolInput, ToolResult, ToolUse, Usage,
};
use crate::stop::{Finding, Stop, StopReason};

fn settings() -> Settings {
    Settings {
        head: Arc::new(Head {
            model: "m".into(),
            system: "s".into(),
            tools: vec![],
        }),
        max_turns: 5,
        max_output_tokens: 100,
        max_tokens_floor: 50,
        timeout: Duration::from_mins(5),
        attempts: 3,
        overloaded_attempts: 2,
        parallel_tools: 10,
        stop_on_denied: false,
        fail_on_denied: true,
        has_checks: false,
        seed: 1,
    }
}

fn started() -> Input {
    Input::Started {
        prompt: "do it".into(),
    }
}

/// A reply: words are calls when they look like `Name:id`, visible text otherwise.
fn reply_with(content: &str, stop_reason: ApiStopReason) -> Reply {
    let (mut blocks, mut calls, mut text) = (Vec::new(), Vec::new(), String::new());
    for word in content.split_whitespace() {
        if let Some((name, id)) = word.split_once(':') {
            let json = json!({"type": "tool_use", "id": id, "name": name, "input": {}}).to_string();
            blocks.push(Block::from_wire(BlockKind::ToolUse, json));
            calls.push(ToolUse {
                id: id.into(),
                name: name.into(),
                input: ToolInput::Json(json!({})),
            });
        } else {
            blocks.push(Block::text(word).unwrap());
            text.push_str(word);
        }
    }
    Reply {
        id: None,
        request_id: None,
        model: "m".into(),
        blocks,
        calls,
        text,
        stop_reason: Some(stop_reason),
        stop_details: Value::Null,
        usage: Usage {
            input_tokens: 10,
            output_tokens: 5,
            ..Usage::default()
        },
        usage_is_final: true,
        warnings: vec![],
        duration: Duration::ZERO,
    }
}

fn reply(request: u32, content: &str) -> Input {
    reply_for(request, reply_with(content, ApiStopReason::EndTurn))
}

fn reply_for(request: u32, reply: Reply) -> Input {
    Input::ReplyComplete {
        request: RequestNumber(request),
        reply: Arc::new(reply),
        overspent: None,
    }
}

fn cut(request: u32, content: &str, why: ApiStopReason) -> Input {
    reply_for(request, reply_with(content, why))
}

fn failed(request: u32, kind: FailureKind) -> Input {
    Input::RequestFailed {
        request: RequestNumber(request),
        failure: Failure::new(kind, "POST x: broken"),
    }
}

fn allow(request: u32, id: &str, is_read_only: bool) -> Input {
    decide(request, id, CallDecision::Allowed { is_read_only })
}

fn decide(request: u32, id: &str, decision: CallDecision) -> Input {
    Input::CallDecided {
        request: RequestNumber(request),
        tool_use_id: id.into(),
        decision,
    }
}

fn deny(request: u32, id: &str) -> Input {
    decide(
        request,
        id,
        CallDecision::Denied(Denial {
            tool_name: "Write".into(),
            tool_use_id: id.into(),
            tool_input: json!({}),
            rule: None,
            reason: "no rule allows it".into(),
            would_allow: Some("Write(a)".into()),
        }),
    )
}

fn done(request: u32, id: &str) -> Input {
    Input::CallDone {
        request: RequestNumber(request),
        result: ToolResult::text(id, "ok", false),
        notes: vec![],
    }
}

const RETRY: Input = Input::TimerFired(Timer::Retry);
const DEADLINE: Input = Input::TimerFired(Timer::Deadline);

/// One line for all that a step says.
fn show(step: &Step) -> String {
    let notices = step.notices.iter().map(|notice| match notice {
        Notice::Transition { why, turn } => format!("{why} turn {turn}"),
        Notice::Retry {
            attempt,
            max_retries,
            ..
        } => format!("retry {attempt}/{max_retries}"),
        Notice::Tombstone { request } => format!("tombstone {request}"),
        Notice::Dropped { request } => format!("dropped {request}"),
        Notice::Filled { result, .. } => format!("filled {}", result.tool_use_id),
        Notice::MaxTurnsReached {
            max_turns,
            turn_count,
        } => format!("limit {turn_count}/{max_turns}"),
        Notice::SyntheticError { .. } => "synthetic".into(),
        Notice::Warning { message } => message.clone(),
        Notice::Stopped(stop) => format!("stop {}", stop.name()),
    });
    let effects = step.effects.iter().map(|effect| match effect {
        Effect::Send { request, .. } => format!("send {}", request.number),
        Effect::Discard { request } => format!("discard {request}"),
        Effect::Authorize { call, .. } => format!("authorize {}", call.id),
        Effect::Run { tool_use_id, .. } => format!("run {tool_use_id}"),
        Effect::RunHooks(event) => format!("hooks {event:?}"),
        Effect::RunChecks => "checks".into(),
        Effect::SetTimer { timer, .. } => format!("timer {timer:?}"),
        Effect::CancelAll => "cancel".into(),
    });
    notices.chain(effects).collect::<Vec<_>>().join(", ")
}

fn value(block: &Block) -> Value {
    serde_json::from_str(block.json()).unwrap()
}

/// What the API would refuse in a request.
fn assert_accepted(request: &Request) {
    assert_eq!(request.messages.first().map(|m| m.role), Some(Role::User));
    let mut expected: Vec<String> = vec![];
    for message in &request.messages {
        assert!(!message.blocks.is_empty(), "an empty message");
        let blocks: Vec<Value> = message.blocks.iter().map(value).collect();
        let results: Vec<String> = blocks
            .iter()
            .take_while(|b| b["type"] == "tool_result")
            .map(|b| b["tool_use_id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(
            results, expected,
            "results answer the calls of the message before, in order, first"
        );
        for block in &blocks {
            assert!(block["type"] != "text" || !block["text"].as_str().unwrap().trim().is_empty());
        }
        expected = blocks
            .iter()
            .filter(|b| b["type"] == "tool_use")
            .map(|b| b["id"].as_str().unwrap().to_owned())
            .collect();
    }
    assert!(expected.is_empty(), "calls without results: {expected:?}");
    assert!(request.breakpoints.len() <= 3);
}

/// Feeds the rows; each must say what stands beside its input. Returns the end, if one came.
fn run(settings: Settings, rows: &[(Input, &str)]) -> (Machine, Option<Stop>) {
    let mut machine = Machine::new(settings);
    let mut stop = None;
    for (i, (input, expected)) in rows.iter().enumerate() {
        let now = Duration::from_secs(i as u64);
        let step = machine
            .step(now, input)
            .unwrap_or_else(|e| panic!("row {i}: {e}"));
        assert_eq!(show(&step), *expected, "row {i}: {}", input.name());
        for effect in &step.effects {
            if let Effect::Send { request, .. } = effect {
                assert_accepted(request);
            }
        }
        stop = step.stop;
    }
    (machine, stop)
}

#[test]
fn a_text_reply_completes() {
    let (machine, stop) = run(
        settings(),
        &[
            (started(), "timer Deadline, send 1"),
            (
                Input::Sent {
                    request: RequestNumber(1),
                    max_tokens: 100,
                },
                "",
            ),
            (reply(1, "done"), "stop completed, cancel"),
        ],
    );
    assert_eq!(stop, Some(Stop::new(StopReason::Completed, "")));
    assert_eq!((machine.turns(), machine.text()), (1, "done"));
}

#[test]
fn g27_all_results_of_a_turn_go_into_one_message_in_call_order() {
    let (machine, _) = run(
        settings(),
        &[
            (started(), "timer Deadline, send 1"),
            (
                reply(1, "look Read:a Bash:b Read:c"),
                "authorize a, authorize b, authorize c",
            ),
            (allow(1, "a", true), "run a"),
            (deny(1, "b"), "filled b"),
            (allow(1, "c", true), "run c"),
            (done(1, "c"), ""),
            (done(1, "a"), "next_turn turn 2, send 2"),
            (reply(2, "end"), "stop permission_denied, cancel"),
        ],
    );
    let ids: Vec<Value> = machine.history.messages()[2]
        .blocks
        .iter()
        .map(|b| value(b)["tool_use_id"].clone())
        .collect();
    assert_eq!(ids, ["a", "b", "c"]);
    assert_eq!(
        value(&machine.history.messages()[2].blocks[1])["is_error"],
        true
    );
}

#[test]
fn a_denied_call_fails_a_prompt_that_completed_and_the_message_says_what_would_allow_it() {
    let (_, stop) = run(
        settings(),
        &[
            (started(), "timer Deadline, send 1"),
            (reply(1, "Write:a"), "authorize a"),
            (deny(1, "a"), "filled a, next_turn turn 2, send 2"),
            (reply(2, "could-not"), "stop permission_denied, cancel"),
        ],
    );
    let stop = stop.unwrap();
    assert_eq!(
        (stop.reason, stop.finding),
        (StopReason::Completed, Some(Finding::PermissionDenied))
    );
    assert_eq!(
        stop.message,
        "1 call denied\nWrite: no rule allows it; `Write(a)` would allow it"
    );
}

#[test]
fn on_denied_warn_only_lists() {
    let (machine, stop) = run(
        Settings {
            fail_on_denied: false,
            ..settings()
        },
        &[
            (started(), "timer Deadline, send 1"),
            (reply(1, "Write:a"), "authorize a"),
            (deny(1, "a"), "filled a, next_turn turn 2, send 2"),
            (reply(2, "could-not"), "stop completed, cancel"),
        ],
    );
    assert_eq!(stop.unwrap().finding, None);
    assert_eq!(machine.denials().len(), 1);
}

#[test]
fn on_denied_stop_ends_at_once_and_answers_every_call() {
    run(
        Settings {
            stop_on_denied: true,
            ..settings()
        },
        &[
            (started(), "timer Deadline, send 1"),
            (
                reply(1, "Read:a Write:b Read:c"),
                "authorize a, authorize b, authorize c",
            ),
            (allow(1, "a", true), "run a"),
            (
                deny(1, "b"),
                "filled b, filled a, filled c, stop permission_denied, cancel",
            ),
        ],
    );
}

#[test]
fn g09_the_turn_limit_comes_after_the_results_and_keeps_the_last_text() {
    let (machine, stop) = run(
        Settings {
            max_turns: 2,
            ..settings()
        },
        &[
            (started(), "timer Deadline, send 1"),
            (reply(1, "step1 Bash:a"), "authorize a"),
            (allow(1, "a", false), "run a"),
            (done(1, "a"), "next_turn turn 2, send 2"),
            (reply(2, "step2 Bash:b"), "authorize b"),
            (allow(2, "b", false), "run b"),
            (done(2, "b"), "limit 2/2, stop max_turns, cancel"),
        ],
    );
    assert_eq!(
        stop.unwrap().message,
        "reached the limit of 2 turns before a final reply"
    );
    assert_eq!((machine.turns(), machine.text()), (2, "step2"));
}

#[test]
fn g10_a_turn_is_a_reply_however_many_calls_it_has() {
    let (machine, _) = run(
        Settings {
            max_turns: 3,
            ..settings()
        },
        &[
            (started(), "timer Deadline, send 1"),
            (reply(1, "Bash:a Bash:b"), "authorize a, authorize b"),
            (allow(1, "a", false), "run a"),
            (allow(1, "b", false), ""),
            (done(1, "a"), "run b"),
            (done(1, "b"), "next_turn turn 2, send 2"),
            (reply(2, "end"), "stop completed, cancel"),
        ],
    );
    assert_eq!(machine.turns(), 2);
}

#[test]
fn bad_arguments_are_answered_without_the_policy() {
    let answer = ToolResult::text("a", "<tool_use_error>…</tool_use_error>", true);
    run(
        settings(),
        &[
            (started(), "timer Deadline, send 1"),
            (reply(1, "Read:a"), "authorize a"),
            (
                decide(1, "a", CallDecision::Answered(answer)),
                "filled a, next_turn turn 2, send 2",
            ),
            (reply(2, "end"), "stop completed, cancel"),
        ],
    );
}

#[test]
fn a_failure_is_tried_again_as_often_as_its_kind_allows() {
    for (kind, tries) in [
        (FailureKind::Connection, 3),
        (FailureKind::IdleTimeout, 3),
        (FailureKind::Truncated, 3),
        (FailureKind::Server, 3),
        (FailureKind::RateLimit, 3),
        (FailureKind::Overloaded, 2),
        (FailureKind::SpendLimit, 1),
        (FailureKind::Authentication, 1),
        (FailureKind::MaxTokensTooHigh, 1),
        (FailureKind::ThinkingSignature, 1),
        (FailureKind::Invalid, 1),
        (FailureKind::Protocol, 1),
        (FailureKind::Cassette, 1),
    ] {
        let mut rows = vec![(started(), "timer Deadline, send 1".to_owned())];
        for attempt in 1..tries {
            let max = tries - 1;
            rows.push((
                failed(attempt, kind),
                format!("retry {attempt}/{max}, timer Retry"),
            ));
            rows.push((RETRY, format!("send {}", attempt + 1)));
        }
        rows.push((
            failed(tries, kind),
            "synthetic, stop model_error, cancel".to_owned(),
        ));
        let rows: Vec<(Input, &str)> = rows.iter().map(|(i, s)| (i.clone(), s.as_str())).collect();
        let (machine, stop) = run(settings(), &rows);
        assert!(
            stop.unwrap().message.starts_with("POST x: broken"),
            "{kind:?}"
        );
        assert_eq!(
            (machine.turns(), machine.text()),
            (0, ""),
            "an error is never an answer"
        );
    }
}

#[test]
fn attempts_are_counted_anew_for_each_turn() {
    run(
        settings(),
        &[
            (started(), "timer Deadline, send 1"),
            (failed(1, FailureKind::Server), "retry 1/2, timer Retry"),
            (RETRY, "send 2"),
            (reply(2, "Read:a"), "authorize a"),
            (allow(2, "a", true), "run a"),
            (done(2, "a"), "next_turn turn 2, send 3"),
            (failed(3, FailureKind::Server), "retry 1/2, timer Retry"),
            (RETRY, "send 4"),
            (reply(4, "end"), "stop completed, cancel"),
        ],
    );
}

#[test]
fn the_servers_word_decides_whether_but_makes_no_storm() {
    for (kind, word, expected) in [
        (
            FailureKind::Server,
            false,
            "synthetic, stop model_error, cancel",
        ),
        (FailureKind::Invalid, true, "retry 1/2, timer Retry"),
        (
            FailureKind::SpendLimit,
            true,
            "synthetic, stop model_error, cancel",
        ),
        (
            FailureKind::Authentication,
            true,
            "synthetic, stop model_error, cancel",
        ),
    ] {
        let mut failure = Failure::new(kind, "x");
        failure.should_retry = Some(word);
        let input = Input::RequestFailed {
            request: RequestNumber(1),
            failure,
        };
        run(
            settings(),
            &[(started(), "timer Deadline, send 1"), (input, expected)],
        );
    }
}

#[test]
fn a_wait_beyond_the_deadline_ends_at_once() {
    let mut failure = Failure::new(FailureKind::RateLimit, "429");
    failure.retry_after = Some(Duration::from_hours(1));
    let input = Input::RequestFailed {
        request: RequestNumber(1),
        failure,
    };
    let (_, stop) = run(
        settings(),
        &[
            (started(), "timer Deadline, send 1"),
            (input, "synthetic, stop model_error, cancel"),
        ],
    );
    assert!(
        stop.unwrap()
            .message
            .contains("longer than what `timeout` leaves")
    );
}

#[test]
fn a_discarded_partial_reply_gets_a_tombstone() {
    let mut failure = Failure::new(FailureKind::Truncated, "cut");
    failure.had_output = true;
    let input = Input::RequestFailed {
        request: RequestNumber(1),
        failure,
    };
    run(
        settings(),
        &[
            (started(), "timer Deadline, send 1"),
            (input, "tombstone 1, retry 1/2, timer Retry"),
        ],
    );
}

#[test]
fn a_late_answer_to_a_discarded_request_is_dropped() {
    run(
        settings(),
        &[
            (started(), "timer Deadline, send 1"),
            (failed(1, FailureKind::Server), "retry 1/2, timer Retry"),
            (RETRY, "send 2"),
            (reply(1, "late"), "dropped 1"),
            (reply(2, "end"), "stop completed, cancel"),
        ],
    );
}

#[test]
fn a_reply_that_was_cut_off_refused_or_empty_is_no_success_and_its_calls_never_run() {
    for (content, why, expected, turns) in [
        (
            "half",
            ApiStopReason::MaxTokens,
            "stop max_output_tokens, cancel",
            1,
        ),
        (
            "Write:a",
            ApiStopReason::MaxTokens,
            "filled a, stop max_output_tokens, cancel",
            1,
        ),
        (
            "half",
            ApiStopReason::ModelContextWindowExceeded,
            "stop prompt_too_long, cancel",
            1,
        ),
        (
            "no Bash:a",
            ApiStopReason::Refusal,
            "filled a, stop refusal, cancel",
            0,
        ),
        ("", ApiStopReason::Refusal, "stop refusal, cancel", 0),
        ("", ApiStopReason::EndTurn, "stop empty_reply, cancel", 1),
        (
            "end",
            ApiStopReason::Other("new".into()),
            "stop completed, cancel",
            1,
        ),
    ] {
        let (machine, _) = run(
            settings(),
            &[
                (started(), "timer Deadline, send 1"),
                (cut(1, content, why.clone()), expected),
            ],
        );
        assert_eq!(machine.turns(), turns, "{why:?}");
    }
}

#[test]
fn calls_are_run_whatever_the_apis_stop_reason_says() {
    run(
        settings(),
        &[
            (started(), "timer Deadline, send 1"),
            (cut(1, "Read:a", ApiStopReason::EndTurn), "authorize a"),
        ],
    );
}

#[test]
fn a_paused_reply_goes_on_and_a_prompt_that_is_too_long_stops() {
    run(
        settings(),
        &[
            (started(), "timer Deadline, send 1"),
            (
                failed(1, FailureKind::PromptTooLong),
                "stop prompt_too_long, cancel",
            ),
        ],
    );
    let mut machine = Machine::new(settings());
    machine.step(Duration::ZERO, &started()).unwrap();
    let step = machine
        .step(Duration::ZERO, &cut(1, "wait", ApiStopReason::PauseTurn))
        .unwrap();
    assert_eq!(show(&step), "pause_turn turn 2, send 2");
}

#[test]
fn money_that_does_not_suffice_stops_before_anything_is_sent() {
    let refused = Input::BudgetRefused {
        request: RequestNumber(1),
        message: "spent …".into(),
    };
    let (_, stop) = run(
        settings(),
        &[
            (started(), "timer Deadline, send 1"),
            (refused, "stop max_budget_usd, cancel"),
        ],
    );
    assert_eq!(stop, Some(Stop::new(StopReason::MaxBudgetUsd, "spent …")));
}

#[test]
fn a_reply_that_cost_more_than_the_budget_is_no_success_whatever_it_says() {
    for (content, expected) in [
        ("end", "stop max_budget_usd, cancel"),
        ("Bash:a", "filled a, stop max_budget_usd, cancel"),
    ] {
        let dear = Input::ReplyComplete {
            request: RequestNumber(1),
            reply: Arc::new(reply_with(content, ApiStopReason::EndTurn)),
            overspent: Some("spent $2 of $1".into()),
        };
        let (machine, _) = run(
            settings(),
            &[(started(), "timer Deadline, send 1"), (dear, expected)],
        );
        assert_eq!(machine.turns(), 1);
    }
}

#[test]
fn checks_are_asked_after_a_final_reply() {
    for (failures, expected) in [
        (vec![], "stop completed, cancel"),
        (
            vec![CheckFailure {
                id: "check-1".into(),
                message: "exit code 1".into(),
            }],
            "stop checks_failed, cancel",
        ),
    ] {
        run(
            Settings {
                has_checks: true,
                ..settings()
            },
            &[
                (started(), "timer Deadline, send 1"),
                (reply(1, "end"), "checks"),
                (Input::ChecksDone { failures }, expected),
            ],
        );
    }
}

#[test]
fn the_world_may_end_a_conversation_in_any_state_and_open_calls_are_answered() {
    let signal = || Input::Ended(End::Signal("SIGTERM"));
    run(settings(), &[(signal(), "stop aborted, cancel")]);
    for (end, expected) in [
        (signal(), "filled b, stop aborted, cancel"),
        (DEADLINE, "filled b, stop timeout, cancel"),
        (
            Input::Ended(End::Fault("panicked".into())),
            "filled b, synthetic, stop model_error, cancel",
        ),
        (
            Input::Ended(End::RecordFailed("disk full".into())),
            "filled b, stop record_failed, cancel",
        ),
    ] {
        run(
            settings(),
            &[
                (started(), "timer Deadline, send 1"),
                (reply(1, "Read:a Bash:b"), "authorize a, authorize b"),
                (allow(1, "a", true), "run a"),
                (done(1, "a"), ""),
                (end, expected),
            ],
        );
    }
    let failed = Input::SetupFailed {
        message: "no workspace".into(),
    };
    run(settings(), &[(failed, "stop setup_error, cancel")]);
}

#[test]
fn a_pair_that_cannot_happen_is_an_error_naming_both() {
    let mut machine = Machine::new(settings());
    assert_eq!(
        machine
            .step(Duration::ZERO, &RETRY)
            .unwrap_err()
            .to_string(),
        "the query loop met TimerFired(Retry) in state Starting"
    );
    machine.step(Duration::ZERO, &started()).unwrap();
    assert!(machine.step(Duration::ZERO, &started()).is_err());
    assert!(machine.step(Duration::ZERO, &done(1, "a")).is_err());
    machine.step(Duration::ZERO, &reply(1, "end")).unwrap();
    assert!(
        machine.step(Duration::ZERO, &DEADLINE).is_err(),
        "nothing follows a stop"
    );
}

#[test]
fn notes_stand_behind_the_results() {
    let mut machine = Machine::new(settings());
    machine.step(Duration::ZERO, &started()).unwrap();
    machine.step(Duration::ZERO, &reply(1, "Read:a")).unwrap();
    machine.step(Duration::ZERO, &allow(1, "a", true)).unwrap();
    let result = ToolResult::text("a", "ok", false);
    let notes = vec!["mind the gap".to_owned(), " ".to_owned()];
    machine
        .step(
            Duration::ZERO,
            &Input::CallDone {
                request: RequestNumber(1),
                result,
                notes,
            },
        )
        .unwrap();
    let message: &Message = &machine.history.messages()[2];
    let types: Vec<Value> = message
        .blocks
        .iter()
        .map(|b| value(b)["type"].clone())
        .collect();
    assert_eq!(types, ["tool_result", "text"]);
}

/// A world that answers each effect at random from a seed.
struct World {
    chance: u64,
    pending: Vec<Input>,
    next_id: u32,
}

impl World {
    fn draw(&mut self, n: u64) -> u64 {
        self.chance = self
            .chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) % n
    }

    fn reply(&mut self) -> Reply {
        let mut content = String::new();
        for _ in 0..self.draw(4) {
            self.next_id += 1;
            let id = self.next_id;
            content += if self.draw(3) == 0 { " w" } else { " T:" };
            content += &id.to_string();
        }
        let why = [
            ApiStopReason::EndTurn,
            ApiStopReason::ToolUse,
            ApiStopReason::MaxTokens,
            ApiStopReason::Refusal,
            ApiStopReason::PauseTurn,
        ];
        let why = why[(self.draw(12) as usize).min(16) % 5].clone();
        let why = if self.draw(3) > 0 {
            ApiStopReason::EndTurn
        } else {
            why
        };
        reply_with(&content, why)
    }

    fn answer(&mut self, effect: &Effect) {
        match effect {
            Effect::Send { request, .. } => {
                assert_accepted(request);
                let number = request.number;
                match self.draw(8) {
                    0 => self.pending.push(Input::BudgetRefused {
                        request: number,
                        message: "b".into(),
                    }),
                    1 | 2 => {
                        let kinds = [
                            FailureKind::Server,
                            FailureKind::Overloaded,
                            FailureKind::Connection,
                            FailureKind::Invalid,
                        ];
                        let kind = kinds[self.draw(4) as usize];
                        self.pending.push(failed(number.0, kind));
                    }
                    _ => {
                        let reply = self.reply();
                        self.pending.push(reply_for(number.0, reply));
                    }
                }
            }
            Effect::Authorize { request, call } => {
                let input = match self.draw(4) {
                    0 => deny(request.0, &call.id),
                    1 => decide(
                        request.0,
                        &call.id,
                        CallDecision::Answered(ToolResult::text(&call.id, "", true)),
                    ),
                    n => allow(request.0, &call.id, n == 2),
                };
                self.pending.push(input);
            }
            Effect::Run {
                request,
                tool_use_id,
            } => self.pending.push(done(request.0, tool_use_id)),
            Effect::RunChecks => {
                let failures = (0..self.draw(2)).map(|_| CheckFailure {
                    id: "c".into(),
                    message: String::new(),
                });
                let failures = failures.collect();
                self.pending.push(Input::ChecksDone { failures });
            }
            Effect::SetTimer {
                timer: Timer::Retry,
                ..
            } => self.pending.push(RETRY),
            Effect::SetTimer {
                timer: Timer::Deadline,
                ..
            }
            | Effect::Discard { .. }
            | Effect::RunHooks(_)
            | Effect::CancelAll => {}
        }
    }

    fn next(&mut self) -> Input {
        if self.draw(60) == 0 {
            return DEADLINE;
        }
        assert!(
            !self.pending.is_empty(),
            "the machine waits for something that nobody will say"
        );
        let i = self.draw(self.pending.len() as u64) as usize;
        self.pending.remove(i)
    }
}

proptest! {
    #[test]
    fn the_loop_always_stops_pairs_every_call_and_replays_to_the_same_end(
        seed: u64, max_turns in 1u32..8, stop_on_denied: bool, has_checks: bool,
    ) {
        let settings = Settings { max_turns, stop_on_denied, has_checks, seed, ..settings() };
        let mut world = World { chance: seed, pending: vec![started()], next_id: 0 };
        let mut machine = Machine::new(settings.clone());
        let (mut inputs, mut said) = (vec![], vec![]);
        let mut open: BTreeSet<String> = BTreeSet::new();
        let stop = loop {
            prop_assert!(inputs.len() < 500, "it goes on for ever");
            let input = world.next();
            let step = machine.step(Duration::ZERO, &input).map_err(|e| TestCaseError::fail(e.to_string()))?;
            if let Input::ReplyComplete { reply, .. } = &input {
                open.extend(reply.calls.iter().map(|c| c.id.clone()));
            }
            if let Input::CallDone { result, .. } = &input {
                open.remove(&result.tool_use_id);
            }
            for notice in &step.notices {
                if let Notice::Filled { result, .. } = notice {
                    prop_assert!(open.remove(&result.tool_use_id), "filled twice");
                }
            }
            said.push(show(&step));
            inputs.push(input);
            for effect in &step.effects {
                world.answer(effect);
            }
            if let Some(stop) = step.stop {
                break stop;
            }
        };
        prop_assert!(open.is_empty(), "calls without an answer in the record: {open:?}");
        prop_assert!(machine.turns() <= max_turns);
        prop_assert!(machine.step(Duration::ZERO, &DEADLINE).is_err());
        let mut again = Machine::new(settings);
        let replayed: Vec<String> =
            inputs.iter().map(|input| show(&again.step(Duration::ZERO, input).unwrap())).collect();
        prop_assert_eq!(replayed, said);
        prop_assert!(stop.reason != StopReason::NotRun);
    }
}
