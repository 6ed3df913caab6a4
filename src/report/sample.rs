//! Hand-made runs for the tests of this room.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use time::macros::datetime;
use uuid::Uuid;

use crate::message::{
    ApiStopReason, Block, Head, Reply, RequestNumber, ToolInput, ToolResult, ToolUse, Usage,
};
use crate::models::Usd;
use crate::policy::Place;
use crate::query::{Denial, Notice, Purpose};
use crate::stop::{Stop, StopReason};
use crate::transcript::{
    CheckResult, Event, EventBody, Init, JobStarted, Permission, PromptKey, PromptPlanned,
    PromptResult, Redactor, RunStarted, Scope, ScopedEvent,
};

use super::record::RunRecord;
use super::recorder::Recorder;

/// Events of a run, 100 ms apart.
pub(super) struct Sample {
    pub(super) events: Vec<ScopedEvent>,
}

pub(super) fn usd(dollars: f64) -> Usd {
    Usd::from_decimal(dollars).unwrap()
}

impl Sample {
    /// A run of jobs, each a name and the ids of its prompts.
    pub(super) fn of(jobs: &[(&str, &[&str])]) -> Self {
        Self::answered_by("anthropic/claude-x", jobs)
    }

    /// The same, answered by a cassette.
    pub(super) fn replaying(jobs: &[(&str, &[&str])]) -> Self {
        Self::answered_by("replay/claude-x.yaml", jobs)
    }

    fn answered_by(model: &str, jobs: &[(&str, &[&str])]) -> Self {
        let mut sample = Self { events: vec![] };
        let jobs = jobs.iter().map(|(name, ids)| JobStarted {
            name: (*name).to_owned(),
            file: format!("jobs/{name}.yaml"),
            digest: "sha256:1234".to_owned(),
            prompts: ids
                .iter()
                .enumerate()
                .map(|(index, id)| PromptPlanned {
                    id: (*id).to_owned(),
                    line: 10 + index as u32,
                    model: model.to_owned(),
                    max_turns: 5,
                    max_budget: Some(usd(0.5)),
                    transcript: format!("{name}/{id}/transcript.jsonl"),
                })
                .collect(),
        });
        let started = RunStarted {
            run_id: Uuid::from_u128(1),
            version: "0.1.0",
            output: "out".into(),
            hostname: "runner-7".to_owned(),
            jobs: jobs.collect(),
            concurrency: 4,
        };
        sample.run(EventBody::RunStarted(started));
        sample
    }

    pub(super) fn run(&mut self, body: EventBody) -> &mut Self {
        self.push(Scope::Run, body)
    }

    pub(super) fn prompt(&mut self, (job, prompt): (usize, usize), body: EventBody) -> &mut Self {
        self.push(Scope::Prompt(PromptKey { job, prompt }), body)
    }

    pub(super) fn init(&mut self, key: (usize, usize)) -> &mut Self {
        let head = Head {
            model: "claude-x".to_owned(),
            system: "You work alone.".to_owned(),
            tools: vec![],
        };
        let init = Init {
            session_id: Uuid::from_u128(100 + key.1 as u128),
            cwd: "/work".into(),
            head: Arc::new(head),
            model: "anthropic/claude-x".to_owned(),
            api_key_source: "none",
            sandbox: "none",
            policy_digest: "sha256:abcd".to_owned(),
            version: "0.1.0",
        };
        self.prompt(key, EventBody::Init(init))
    }

    /// A request and its reply: text, and a call of Read when `calls`.
    pub(super) fn turn(
        &mut self,
        key: (usize, usize),
        turn: u32,
        text: &str,
        calls: bool,
    ) -> &mut Self {
        let request = RequestNumber(turn);
        self.prompt(
            key,
            EventBody::RequestSent {
                request,
                purpose: Purpose::Main,
                max_tokens: 16_000,
                input_bound: 5_000,
                messages: 2 * turn as usize - 1,
                reserved: usd(0.1),
            },
        );
        let call = ToolUse {
            id: format!("t{turn}"),
            name: "Read".to_owned(),
            input: ToolInput::Json(json!({"file_path": "a"})),
        };
        let stop_reason = if calls {
            ApiStopReason::ToolUse
        } else {
            ApiStopReason::EndTurn
        };
        let reply = Reply {
            id: None,
            request_id: None,
            model: "claude-x".to_owned(),
            blocks: Block::text(text).into_iter().collect(),
            calls: if calls { vec![call] } else { vec![] },
            text: text.to_owned(),
            stop_reason: Some(stop_reason),
            stop_details: Value::Null,
            usage: usage(),
            usage_is_final: true,
            warnings: vec![],
            duration: Duration::from_millis(90),
        };
        let assistant = EventBody::Assistant {
            request,
            reply: Arc::new(reply),
            turn,
            cost: usd(0.021),
        };
        self.prompt(key, assistant);
        if calls {
            let result = EventBody::ToolResult {
                result: ToolResult::text(&format!("t{turn}"), "content", false),
                tool_name: "Read".to_owned(),
                notes: vec![],
                assistant: Uuid::nil(),
                duration: Duration::from_millis(3),
            };
            self.prompt(key, result);
        }
        self
    }

    pub(super) fn denied(&mut self, key: (usize, usize)) -> &mut Self {
        let denial = denial();
        let permission = Permission {
            call: ToolUse {
                id: denial.tool_use_id.clone(),
                name: denial.tool_name.clone(),
                input: ToolInput::Json(denial.tool_input.clone()),
            },
            derived: Value::Null,
            rule: None,
            place: None::<Place>,
            reason: denial.reason.clone(),
            denial: Some(denial),
        };
        self.prompt(key, EventBody::Permission(permission))
    }

    pub(super) fn check(&mut self, key: (usize, usize), number: u32, passed: bool) -> &mut Self {
        let (message, output) = if passed {
            ("", "ok\n")
        } else {
            ("exit status 101", "running 1 test\ntest a ... FAILED\n")
        };
        let check = CheckResult {
            id: format!("check-{number}"),
            line: 20 + number,
            command: "cargo test".to_owned(),
            passed,
            message: message.to_owned(),
            output: output.to_owned(),
            duration: Duration::from_millis(250),
        };
        self.prompt(key, EventBody::Check(check))
    }

    pub(super) fn notice(&mut self, key: (usize, usize), notice: Notice) -> &mut Self {
        self.prompt(key, EventBody::Notice(notice))
    }

    pub(super) fn result(&mut self, key: (usize, usize), stop: Stop, text: &str) -> &mut Self {
        self.prompt(key, EventBody::Result(result(stop, text)))
    }

    pub(super) fn passed(&mut self, key: (usize, usize), text: &str) -> &mut Self {
        self.init(key).turn(key, 1, text, false);
        self.result(key, Stop::new(StopReason::Completed, ""), text)
    }

    pub(super) fn ended(&mut self, exit_code: u8, signal: Option<&'static str>) -> &mut Self {
        self.run(EventBody::RunEnded { exit_code, signal })
    }

    /// The record; `hunter2-hunter2` is a secret.
    pub(super) fn record(&self) -> RunRecord {
        let mut recorder = Recorder::new(redactor());
        for event in &self.events {
            recorder.on_event(event);
        }
        recorder.record().unwrap()
    }

    fn push(&mut self, scope: Scope, body: EventBody) -> &mut Self {
        let elapsed = Duration::from_millis(100 * self.events.len() as u64);
        let event = Event {
            id: Uuid::from_u128(self.events.len() as u128),
            at: datetime!(2026-11-30 03:00:00.0004567 UTC) + elapsed,
            elapsed,
            body,
        };
        let event = Arc::new(event);
        self.events.push(ScopedEvent { scope, event });
        self
    }
}

pub(super) fn redactor() -> Arc<Redactor> {
    Arc::new(Redactor::new(["hunter2-hunter2"]))
}

pub(super) fn denial() -> Denial {
    Denial {
        tool_name: "Bash".to_owned(),
        tool_use_id: "t1".to_owned(),
        tool_input: json!({"command": "rm -rf x"}),
        rule: None,
        reason: "no rule allows it".to_owned(),
        would_allow: Some("Bash(rm -rf x)".to_owned()),
    }
}

pub(super) fn result(stop: Stop, text: &str) -> PromptResult {
    PromptResult {
        stop,
        text: text.to_owned(),
        num_turns: 2,
        requests: 3,
        cost: Some(usd(0.042)),
        unsettled: Usd::ZERO,
        usage: usage(),
        api_stop_reason: Some("end_turn".to_owned()),
        duration: Duration::from_micros(4_200_400),
        duration_api: Duration::from_millis(180),
        denials: vec![],
    }
}

fn usage() -> Usage {
    Usage {
        input_tokens: 1000,
        output_tokens: 200,
        ..Usage::default()
    }
}

/// One prompt of each outcome in two jobs, with denials, checks, a retry and warnings.
pub(super) fn mixed() -> Sample {
    let mut sample = Sample::of(&[
        ("nightly", &["summary", "fix", "rest"]),
        ("gate", &["review"]),
    ]);
    sample.passed((0, 0), "Nothing broke.\nAll is well.");
    sample
        .init((0, 1))
        .turn((0, 1), 1, "step 1", true)
        .denied((0, 1));
    sample.check((0, 1), 1, true).check((0, 1), 2, false);
    let mut stop = Stop::new(
        StopReason::Completed,
        "check-2: exit status 101\nsee its output",
    );
    stop.finding = Some(crate::stop::Finding::ChecksFailed);
    let mut failed = result(stop, "I fixed it.");
    failed.denials = vec![denial()];
    sample.prompt((0, 1), EventBody::Result(failed));
    sample.result(
        (0, 2),
        Stop::new(StopReason::NotRun, "the provider refuses all requests"),
        "",
    );
    sample.init((1, 0));
    sample.notice(
        (1, 0),
        Notice::Warning {
            message: "the reply named an unknown stop reason".to_owned(),
        },
    );
    let stop = Stop::new(
        StopReason::ModelError,
        "asking the model: 500, server error",
    );
    sample.result((1, 0), stop, "");
    sample.ended(1, None);
    sample
}
