//! Events -> records, from which every report is made.
//!
//! Secrets are masked and terminal sequences dropped here, once, so no format has to think of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::message::Usage;
use crate::models::Usd;
use crate::query::{Denial, Notice};
use crate::stop::{Outcome, StopReason, exit};
use crate::transcript::{
    EventBody, Init, JobStarted, PromptKey, PromptPlanned, PromptResult, Redactor, RunStarted,
    Scope, ScopedEvent,
};

use super::foreign::plain;

/// One run, as far as reports tell of it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// UUID version 7.
    pub run_id: Uuid,
    /// The program's version.
    pub version: String,
    /// Where it wrote.
    pub output: PathBuf,
    /// The machine's name.
    pub hostname: String,
    /// When it began, UTC.
    pub started_at: OffsetDateTime,
    /// How long it took, by a steady clock.
    pub duration: Duration,
    /// The exit code.
    pub exit_code: u8,
    /// The signal that ended it, if one did.
    pub signal: Option<String>,
    /// How many prompts ran side by side.
    pub concurrency: usize,
    /// Warnings that belong to no prompt.
    pub warnings: Vec<String>,
    /// The jobs, in order.
    pub jobs: Vec<JobRecord>,
}

/// One job of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord {
    /// Its name.
    pub name: String,
    /// Its file as it was named.
    pub file: String,
    /// Digest of the file.
    pub digest: String,
    /// Its prompts, in order.
    pub prompts: Vec<PromptRecord>,
}

/// One prompt, whether it ran or not.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptRecord {
    /// Its id.
    pub id: String,
    /// Its line in the job file.
    pub line: u32,
    /// Its model as reports name it.
    pub model: String,
    /// Its turn limit.
    pub max_turns: u32,
    /// Its cap.
    pub max_budget: Option<Usd>,
    /// The conversation's id; `None` when there was none.
    pub session_id: Option<Uuid>,
    /// When it began; `None` when it did not.
    pub started_at: Option<OffsetDateTime>,
    /// Whether it did its work.
    pub outcome: Outcome,
    /// The stop reason, or what was found after the loop.
    pub reason: String,
    /// Why the loop ended.
    pub stop_reason: StopReason,
    /// The API's last stop reason.
    pub api_stop_reason: Option<String>,
    /// Why it did not pass, for a person; empty only when it passed.
    pub message: String,
    /// The last visible text of the model; empty when there was none.
    pub result: String,
    /// Turns taken.
    pub num_turns: u32,
    /// Requests sent, retries included.
    pub requests: u32,
    /// Requests that were tried again.
    pub retries: u32,
    /// What replies cost; `None` when the model has no price.
    pub cost: Option<Usd>,
    /// What attempts without a final usage may have cost, at most.
    pub unsettled: Usd,
    /// All tokens.
    pub usage: Usage,
    /// From start to end, checks included.
    pub duration: Duration,
    /// Of that, waiting for the provider.
    pub duration_api: Duration,
    /// Denied calls.
    pub denials: Vec<Denial>,
    /// Checks that ran.
    pub checks: Vec<CheckRecord>,
    /// What a person should know.
    pub warnings: Vec<String>,
    /// What held what the model's commands may do.
    pub sandbox: String,
    /// Digest of the rules; empty when the conversation never began.
    pub policy_digest: String,
    /// Its transcript, relative to the output directory; `None` when there is none.
    pub transcript: Option<String>,
}

/// One check that ran.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckRecord {
    /// `check-1`….
    pub id: String,
    /// Line in the job file.
    pub line: u32,
    /// The command.
    pub command: String,
    /// Whether it exited with 0.
    pub passed: bool,
    /// What was wrong; empty when it passed.
    pub message: String,
    /// The end of its output.
    pub output: String,
    /// How long it took.
    pub duration: Duration,
}

/// How many prompts ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Did their work.
    pub passed: usize,
    /// Did not.
    pub failed: usize,
    /// Could not be told.
    pub errored: usize,
    /// Never started.
    pub skipped: usize,
}

impl Counts {
    /// Counts outcomes.
    pub fn of(outcomes: impl IntoIterator<Item = Outcome>) -> Self {
        let mut counts = Self::default();
        for outcome in outcomes {
            match outcome {
                Outcome::Passed => counts.passed += 1,
                Outcome::Failed => counts.failed += 1,
                Outcome::Errored => counts.errored += 1,
                Outcome::Skipped => counts.skipped += 1,
            }
        }
        counts
    }

    /// All of them.
    pub fn all(self) -> usize {
        self.passed + self.failed + self.errored + self.skipped
    }

    /// The outcome of the whole, by the same order as the exit code: failed before errored, and what
    /// did not run counts as failed.
    pub fn outcome(self) -> Outcome {
        if self.failed + self.skipped > 0 {
            Outcome::Failed
        } else if self.errored > 0 {
            Outcome::Errored
        } else {
            Outcome::Passed
        }
    }
}

impl RunRecord {
    /// All prompts with their jobs.
    pub fn prompts(&self) -> impl Iterator<Item = (&JobRecord, &PromptRecord)> {
        self.jobs
            .iter()
            .flat_map(|job| job.prompts.iter().map(move |prompt| (job, prompt)))
    }

    /// How many prompts ended how.
    pub fn counts(&self) -> Counts {
        Counts::of(self.prompts().map(|(_, prompt)| prompt.outcome))
    }

    /// The outcome of the run. Never passed when the exit code says otherwise.
    pub fn outcome(&self) -> Outcome {
        match self.counts().outcome() {
            Outcome::Passed if self.exit_code != exit::PASSED => Outcome::Errored,
            outcome => outcome,
        }
    }

    /// What all replies cost; `None` when the price of some is not known.
    pub fn cost(&self) -> Option<Usd> {
        self.prompts().map(|(_, prompt)| prompt.cost).sum()
    }

    /// What attempts without a final usage may have cost, at most.
    pub fn unsettled(&self) -> Usd {
        self.prompts().map(|(_, prompt)| prompt.unsettled).sum()
    }
}

impl JobRecord {
    /// How many prompts ended how.
    pub fn counts(&self) -> Counts {
        Counts::of(self.prompts.iter().map(|prompt| prompt.outcome))
    }
}

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
                Some(_) => {
                    crate::stop::Stop::new(StopReason::Aborted, "cut off: the run ended first")
                }
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

fn not_run() -> crate::stop::Stop {
    crate::stop::Stop::new(StopReason::NotRun, "never started: the run ended first")
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
