//! Events -> records.
//!
//! Secrets are masked and terminal sequences dropped here, once, so no format has to think of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use time::OffsetDateTime;

use crate::message::Usage;
use crate::models::Usd;
use crate::query::{Denial, Notice};
use crate::stop::{Outcome, Stop, StopReason, exit};
use crate::transcript::{
    EventBody, Init, JobStarted, PromptKey, PromptPlanned, PromptResult, Redactor, RunStarted,
    Scope, ScopedEvent,
};

use super::foreign::plain;
use super::record::{CheckRecord, JobRecord, PromptRecord, RunRecord};

/// Folds the events of a run.
#[derive(Debug, Default)]
pub struct Recorder {
    redactor: Arc<Redactor>,
    run: Option<(RunStarted, OffsetDateTime)>,
    ended: Option<(u8, Option<&'static str>)>,
    last: Duration,
    warnings: Vec<String>,
    prompts: BTreeMap<PromptKey, PromptFold>,
}

/// What is known of a prompt so far.
#[derive(Debug, Default)]
struct PromptFold {
    init: Option<Init>,
    started: Option<(OffsetDateTime, Duration)>,
    last: Duration,
    retries: u32,
    checks: Vec<CheckRecord>,
    warnings: Vec<String>,
    result: Option<PromptResult>,
    /// What the result would say, in case none comes.
    so_far: SoFar,
}

#[derive(Debug, Default)]
struct SoFar {
    text: String,
    num_turns: u32,
    requests: u32,
    cost: Usd,
    unsettled: Usd,
    usage: Usage,
    api_stop_reason: Option<String>,
    duration_api: Duration,
    denials: Vec<Denial>,
}

impl Recorder {
    /// A recorder that masks what `redactor` knows.
    pub fn new(redactor: Arc<Redactor>) -> Self {
        Self {
            redactor,
            ..Self::default()
        }
    }

    /// Takes in one event.
    pub fn on_event(&mut self, scoped: &ScopedEvent) {
        let event = &*scoped.event;
        self.last = self.last.max(event.elapsed);
        let key = match scoped.scope {
            Scope::Prompt(key) => key,
            Scope::Run => {
                self.on_run_event(&event.body, event.at);
                return;
            }
        };
        let fold = self.prompts.entry(key).or_default();
        fold.last = event.elapsed;
        let never_ran = matches!(
            &event.body,
            EventBody::Result(result) if result.outcome() == Outcome::Skipped
        );
        if fold.started.is_none() && !never_ran {
            fold.started = Some((event.at, event.elapsed));
        }
        fold.on_event(&event.body, &self.redactor);
    }

    fn on_run_event(&mut self, body: &EventBody, at: OffsetDateTime) {
        match body {
            EventBody::RunStarted(started) => self.run = Some((started.clone(), at)),
            EventBody::RunEnded { exit_code, signal } => self.ended = Some((*exit_code, *signal)),
            EventBody::Warning { message } => {
                self.warnings.push(clean(&self.redactor, message));
            }
            EventBody::Init(_)
            | EventBody::User { .. }
            | EventBody::RequestSent { .. }
            | EventBody::Assistant { .. }
            | EventBody::RequestFailed { .. }
            | EventBody::Permission(_)
            | EventBody::ToolResult { .. }
            | EventBody::Check(_)
            | EventBody::Notice(_)
            | EventBody::Result(_)
            | EventBody::TextDelta { .. } => {}
        }
    }

    /// The run as far as it is known; `None` before its first event.
    ///
    /// A prompt that never began is `not_run`; one that began and has no result was cut off: `aborted`.
    pub fn record(&self) -> Option<RunRecord> {
        let (run, started_at) = self.run.as_ref()?;
        let jobs: Vec<JobRecord> = run
            .jobs
            .iter()
            .enumerate()
            .map(|(index, job)| self.job_record(index, job))
            .collect();
        let outcomes = jobs.iter().flat_map(|job| &job.prompts);
        let (exit_code, signal) = self
            .ended
            .unwrap_or_else(|| (exit::code(outcomes.map(|prompt| prompt.outcome)), None));
        Some(RunRecord {
            run_id: run.run_id,
            version: run.version.to_owned(),
            output: run.output.clone(),
            hostname: run.hostname.clone(),
            started_at: *started_at,
            duration: self.last,
            exit_code,
            signal: signal.map(str::to_owned),
            concurrency: run.concurrency,
            warnings: self.warnings.clone(),
            jobs,
        })
    }

    fn job_record(&self, job_index: usize, job: &JobStarted) -> JobRecord {
        let prompts = job.prompts.iter().enumerate().map(|(index, planned)| {
            let key = PromptKey {
                job: job_index,
                prompt: index,
            };
            prompt_record(planned, self.prompts.get(&key), &self.redactor)
        });
        JobRecord {
            name: clean(&self.redactor, &job.name),
            file: clean(&self.redactor, &job.file),
            digest: job.digest.clone(),
            prompts: prompts.collect(),
        }
    }
}

impl PromptFold {
    fn on_event(&mut self, body: &EventBody, redactor: &Redactor) {
        match body {
            EventBody::Init(init) => self.init = Some(init.clone()),
            EventBody::RequestSent { .. } => self.so_far.requests += 1,
            EventBody::Assistant {
                reply, turn, cost, ..
            } => {
                let so_far = &mut self.so_far;
                so_far.num_turns = *turn;
                so_far.cost += *cost;
                so_far.usage += reply.usage;
                so_far.duration_api += reply.duration;
                so_far.api_stop_reason = reply
                    .stop_reason
                    .as_ref()
                    .map(|reason| reason.name().to_owned());
                if !reply.text.trim().is_empty() {
                    so_far.text.clone_from(&reply.text);
                }
                let warnings = reply.warnings.iter();
                self.warnings
                    .extend(warnings.map(|warning| clean(redactor, warning)));
            }
            EventBody::RequestFailed { unsettled, .. } => self.so_far.unsettled += *unsettled,
            EventBody::Permission(permission) => {
                self.so_far.denials.extend(permission.denial.clone());
            }
            EventBody::Check(check) => self.checks.push(CheckRecord {
                id: check.id.clone(),
                line: check.line,
                command: clean(redactor, &check.command),
                passed: check.passed,
                message: clean(redactor, &check.message),
                output: clean(redactor, &check.output),
                duration: check.duration,
            }),
            EventBody::Notice(notice) => self.on_notice(notice, redactor),
            EventBody::Warning { message } => self.warnings.push(clean(redactor, message)),
            EventBody::Result(result) => self.result = Some(result.clone()),
            EventBody::RunStarted(_)
            | EventBody::RunEnded { .. }
            | EventBody::User { .. }
            | EventBody::ToolResult { .. }
            | EventBody::TextDelta { .. } => {}
        }
    }

    fn on_notice(&mut self, notice: &Notice, redactor: &Redactor) {
        match notice {
            Notice::Retry { .. } => self.retries += 1,
            Notice::Warning { message } => self.warnings.push(clean(redactor, message)),
            Notice::Transition { .. }
            | Notice::Tombstone { .. }
            | Notice::Dropped { .. }
            | Notice::Filled { .. }
            | Notice::MaxTurnsReached { .. }
            | Notice::SyntheticError { .. }
            | Notice::Stopped(_) => {}
        }
    }

    /// The result; for a prompt that was cut off, what is known without one.
    fn result(&self) -> PromptResult {
        if let Some(result) = &self.result {
            return result.clone();
        }
        let so_far = &self.so_far;
        let began = self.started.map_or(self.last, |(_, elapsed)| elapsed);
        PromptResult {
            stop: match self.started {
                Some(_) => Stop::new(StopReason::Aborted, "cut off: the run ended first"),
                None => not_run(),
            },
            text: so_far.text.clone(),
            num_turns: so_far.num_turns,
            requests: so_far.requests,
            cost: Some(so_far.cost),
            unsettled: so_far.unsettled,
            usage: so_far.usage,
            api_stop_reason: so_far.api_stop_reason.clone(),
            duration: self.last.saturating_sub(began),
            duration_api: so_far.duration_api,
            denials: so_far.denials.clone(),
        }
    }
}

fn not_run() -> Stop {
    Stop::new(StopReason::NotRun, "never started: the run ended first")
}

fn prompt_record(
    planned: &PromptPlanned,
    fold: Option<&PromptFold>,
    redactor: &Redactor,
) -> PromptRecord {
    let nothing = PromptFold::default();
    let fold = fold.unwrap_or(&nothing);
    let result = fold.result();
    let outcome = result.outcome();
    let mut message = clean(redactor, &result.stop.message);
    if message.trim().is_empty() && outcome != Outcome::Passed {
        // A failure without a word is of no use to anybody.
        message = format!("ended as {}", result.stop.name());
    }
    let init = fold.init.as_ref();
    PromptRecord {
        id: planned.id.clone(),
        line: planned.line,
        model: clean(redactor, &planned.model),
        max_turns: planned.max_turns,
        max_budget: planned.max_budget,
        session_id: init.map(|init| init.session_id),
        started_at: fold.started.map(|(at, _)| at),
        outcome,
        reason: result.stop.name().to_owned(),
        stop_reason: result.stop.reason,
        api_stop_reason: result.api_stop_reason,
        message,
        result: clean(redactor, &result.text),
        num_turns: result.num_turns,
        requests: result.requests,
        retries: fold.retries,
        cost: result.cost,
        unsettled: result.unsettled,
        usage: result.usage,
        duration: result.duration,
        duration_api: result.duration_api,
        denials: result
            .denials
            .iter()
            .map(|denial| clean_denial(redactor, denial))
            .collect(),
        checks: fold.checks.clone(),
        warnings: fold.warnings.clone(),
        sandbox: init.map_or("none", |init| init.sandbox).to_owned(),
        policy_digest: init
            .map(|init| init.policy_digest.clone())
            .unwrap_or_default(),
        transcript: fold.started.map(|_| planned.transcript.clone()),
    }
}

/// Terminal sequences go first: they may stand in the middle of a secret, as `grep --color` puts them.
fn clean(redactor: &Redactor, text: &str) -> String {
    redactor.redact(&plain(text)).into_owned()
}

fn clean_denial(redactor: &Redactor, denial: &Denial) -> Denial {
    let optional = |text: &Option<String>| text.as_ref().map(|text| clean(redactor, text));
    Denial {
        tool_name: clean(redactor, &denial.tool_name),
        tool_use_id: clean(redactor, &denial.tool_use_id),
        tool_input: clean_value(redactor, &denial.tool_input),
        rule: optional(&denial.rule),
        reason: clean(redactor, &denial.reason),
        would_allow: optional(&denial.would_allow),
    }
}

fn clean_value(redactor: &Redactor, value: &Value) -> Value {
    let mut value = value.clone();
    redactor.redact_value(&mut value);
    value
}

#[cfg(test)]
mod tests {
    use super::super::record::Counts;
    use super::super::sample::{Sample, denial, mixed, result, usd};
    use super::*;
    use crate::stop::Finding;

    fn only(sample: &Sample) -> PromptRecord {
        let record = sample.record();
        assert_eq!(record.prompts().count(), 1);
        record.jobs[0].prompts[0].clone()
    }

    #[test]
    fn a_prompt_that_never_began_is_not_run() {
        let sample = Sample::of(&[("job", &["a"])]);
        let prompt = only(&sample);
        assert_eq!(prompt.outcome, Outcome::Skipped);
        assert_eq!(prompt.reason, "not_run");
        assert_eq!(prompt.message, "never started: the run ended first");
        assert_eq!((prompt.transcript, prompt.started_at), (None, None));
        assert_eq!(prompt.cost, Some(Usd::ZERO));
        assert_eq!(sample.record().exit_code, exit::FAILED);
    }

    #[test]
    fn a_prompt_without_a_result_is_aborted_and_keeps_what_is_known() {
        let mut sample = Sample::of(&[("job", &["a"])]);
        sample
            .init((0, 0))
            .turn((0, 0), 1, "step 1", true)
            .denied((0, 0));
        sample.turn((0, 0), 2, "", true);
        let prompt = only(&sample);
        assert_eq!(prompt.outcome, Outcome::Errored);
        assert_eq!(prompt.reason, "aborted");
        assert_eq!(prompt.result, "step 1");
        assert_eq!((prompt.num_turns, prompt.requests), (2, 2));
        assert_eq!(prompt.cost, Some(usd(0.042)));
        assert_eq!(prompt.usage.input_tokens, 2000);
        assert_eq!(prompt.denials, [denial()]);
        assert_eq!(prompt.duration, Duration::from_millis(700));
        assert_eq!(prompt.transcript.as_deref(), Some("job/a/transcript.jsonl"));
        assert_eq!(sample.record().exit_code, exit::ERRORED);
    }

    #[test]
    fn g09_the_turn_limit_keeps_message_and_last_text() {
        let mut sample = Sample::of(&[("job", &["a"])]);
        sample.init((0, 0));
        let stop = Stop::new(StopReason::MaxTurns, "the limit of 2 turns is reached");
        sample.result((0, 0), stop, "step 2");
        let prompt = only(&sample);
        assert_eq!(prompt.reason, "max_turns");
        assert_eq!(prompt.message, "the limit of 2 turns is reached");
        assert_eq!((&*prompt.result, prompt.num_turns), ("step 2", 2));
    }

    #[test]
    fn a_failure_is_never_without_a_message() {
        for reason in StopReason::ALL {
            let mut sample = Sample::of(&[("job", &["a"])]);
            sample.result((0, 0), Stop::new(reason, ""), "");
            let prompt = only(&sample);
            assert_eq!(prompt.message.is_empty(), prompt.outcome == Outcome::Passed);
        }
    }

    #[test]
    fn a_finding_is_the_reason_beside_the_stop_reason() {
        let mut sample = Sample::of(&[("job", &["a"])]);
        let mut stop = Stop::new(StopReason::Completed, "");
        stop.finding = Some(Finding::PermissionDenied);
        sample.init((0, 0)).result((0, 0), stop, "done");
        let prompt = only(&sample);
        assert_eq!(prompt.reason, "permission_denied");
        assert_eq!(prompt.stop_reason, StopReason::Completed);
        assert_eq!(prompt.outcome, Outcome::Failed);
    }

    #[test]
    fn the_run_tells_the_worst_and_sums_up() {
        let record = mixed().record();
        assert_eq!(
            record.counts(),
            Counts {
                passed: 1,
                failed: 1,
                errored: 1,
                skipped: 1
            }
        );
        assert_eq!(record.outcome(), Outcome::Failed);
        assert_eq!(record.cost(), Some(usd(0.168)));
        assert_eq!(record.jobs[1].counts().outcome(), Outcome::Errored);

        let mut sample = Sample::of(&[("job", &["a"])]);
        sample.passed((0, 0), "yes").ended(3, None);
        assert_eq!(sample.record().outcome(), Outcome::Errored);
    }

    #[test]
    fn an_unknown_price_makes_the_total_unknown() {
        let mut sample = Sample::of(&[("job", &["a", "b"])]);
        sample.passed((0, 0), "yes").init((0, 1));
        let mut unpriced = result(Stop::new(StopReason::Completed, ""), "");
        unpriced.cost = None;
        sample.prompt((0, 1), EventBody::Result(unpriced));
        assert_eq!(sample.record().cost(), None);
    }

    #[test]
    fn a_secret_that_a_tool_coloured_is_masked_too() {
        let mut sample = Sample::of(&[("job", &["a"])]);
        sample.passed((0, 0), "found \u{1b}[31mhunter2\u{1b}[0m-hunter2");
        assert_eq!(only(&sample).result, "found ***");
    }
}
