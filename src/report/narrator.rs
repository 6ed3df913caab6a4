//! Events -> lines for people: what is said of an event, wherever it is said.
#![expect(
    clippy::format_push_string,
    reason = "a few lines a prompt: what the text looks like matters more than one allocation"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::models::Usd;
use crate::query::Notice;
use crate::stop::Outcome;
use crate::transcript::{
    EventBody, PromptKey, PromptPlanned, PromptResult, Redactor, RunStarted, Scope, ScopedEvent,
};

use super::record::Counts;
use super::sentences::{Sentences, Turn};
use super::wording::{Cost, count_words, duration_words};

/// How much is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// Nothing, unless something did not pass.
    Quiet,
    /// A line a finished prompt, a denial, a warning.
    #[default]
    Normal,
    /// Also each turn and each tool result.
    Verbose,
}

/// What became of the reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reports {
    /// All of them are there.
    Written,
    /// One or another is not.
    Incomplete,
}

/// The most prompts that a heartbeat names.
const MOST_NAMED: usize = 3;

/// Knows what is running and how far it is, and what is to be said when.
///
/// What was said of a prompt under [`Verbosity::Quiet`] is held back until the prompt is known not to
/// have passed.
#[derive(Debug)]
pub(super) struct Narrator {
    verbosity: Verbosity,
    sentences: Sentences,
    run: Option<RunStarted>,
    signal: Option<&'static str>,
    running: BTreeMap<PromptKey, Running>,
    outcomes: Vec<Outcome>,
    /// What the replies of each prompt have cost so far.
    costs: BTreeMap<PromptKey, Usd>,
}

/// A prompt that has begun and not ended.
#[derive(Debug, Default)]
pub(super) struct Running {
    pub(super) turn: u32,
    pub(super) max_turns: u32,
    /// What it is doing.
    pub(super) doing: String,
    this_turn: Turn,
    held: Vec<String>,
}

impl Narrator {
    pub(super) fn new(verbosity: Verbosity, redactor: Arc<Redactor>) -> Self {
        Self {
            verbosity,
            sentences: Sentences::new(redactor, verbosity == Verbosity::Verbose),
            run: None,
            signal: None,
            running: BTreeMap::new(),
            outcomes: Vec::new(),
            costs: BTreeMap::new(),
        }
    }

    /// The lines to print now.
    pub(super) fn on_event(&mut self, scoped: &ScopedEvent) -> Vec<String> {
        match scoped.scope {
            Scope::Run => self.on_run_event(&scoped.event.body),
            Scope::Prompt(key) => self.on_prompt_event(key, &scoped.event.body),
        }
    }

    /// Prompts in flight, in the order of the job files, with what they have cost so far.
    pub(super) fn running(&self) -> impl Iterator<Item = (String, Cost, &Running)> {
        let running = self.running.iter();
        running.map(|(key, running)| (self.name(*key), self.cost(*key), running))
    }

    /// How many prompts have ended how.
    pub(super) fn counts(&self) -> Counts {
        Counts::of(self.outcomes.iter().copied())
    }

    /// How many prompts there are.
    pub(super) fn planned(&self) -> usize {
        let jobs = self.run.iter().flat_map(|run| &run.jobs);
        jobs.map(|job| job.prompts.len()).sum()
    }

    /// What the replies of all prompts have cost so far, in words.
    pub(super) fn cost_words(&self) -> String {
        let jobs = self.run.iter().flat_map(|run| &run.jobs).enumerate();
        let keys = jobs.flat_map(|(job, started)| {
            let prompts = 0..started.prompts.len();
            prompts.map(move |prompt| PromptKey { job, prompt })
        });
        Cost::sum_words(keys.map(|key| self.cost(key)))
    }

    fn cost(&self, key: PromptKey) -> Cost {
        let amount = self.costs.get(&key).copied().unwrap_or_default();
        let model = self.planned_prompt(key).map_or("", |prompt| &prompt.model);
        Cost::of(model, Some(amount))
    }

    pub(super) fn heartbeat(&self, elapsed: Duration) -> Option<String> {
        if self.verbosity == Verbosity::Quiet || self.running.is_empty() {
            return None;
        }
        let mut names: Vec<String> = self
            .running()
            .take(MOST_NAMED)
            .map(|(name, _, running)| {
                let (turn, most, doing) = (running.turn, running.max_turns, &running.doing);
                format!("{name} turn {turn}/{most} {doing}")
            })
            .collect();
        if self.running.len() > MOST_NAMED {
            names.push(format!("{} more", self.running.len() - MOST_NAMED));
        }
        Some(self.sentences.clean(&format!(
            "running for {}: {}/{} done, {}; {}",
            duration_words(elapsed),
            self.outcomes.len(),
            self.planned(),
            self.cost_words(),
            names.join("; ")
        )))
    }

    /// The last line: how the run ended, to be said when everything else was.
    pub(super) fn closing_line(&self, reports: Reports) -> Option<String> {
        let counts = self.counts();
        let left = self.planned().saturating_sub(counts.all());
        let all_passed = counts.outcome() == Outcome::Passed && left == 0 && self.signal.is_none();
        if self.verbosity == Verbosity::Quiet && all_passed && reports == Reports::Written {
            return None;
        }
        let mut line = format!("{}, {}", count_words(counts), self.cost_words());
        if left > 0 {
            line.push_str(&format!(", {left} without a result"));
        }
        if let Some(signal) = self.signal {
            line.push_str(&format!(", ended by {signal}"));
        }
        if let Some(run) = &self.run {
            let are_where = match reports {
                Reports::Written => "reports in",
                Reports::Incomplete => "not all reports could be written in",
            };
            line.push_str(&format!("; {are_where} {}", run.output.display()));
        }
        Some(self.sentences.clean(&line))
    }

    fn on_run_event(&mut self, body: &EventBody) -> Vec<String> {
        match body {
            EventBody::RunStarted(started) => {
                self.run = Some(started.clone());
                Vec::new()
            }
            EventBody::RunEnded { signal, .. } => {
                self.signal = *signal;
                Vec::new()
            }
            // It tells of no prompt, so nothing that happens makes it worth saying when all is quiet.
            EventBody::Warning { .. } if self.verbosity == Verbosity::Quiet => Vec::new(),
            EventBody::Warning { message } => vec![self.sentences.warning(None, message)],
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
            | EventBody::TextDelta { .. } => Vec::new(),
        }
    }

    fn on_prompt_event(&mut self, key: PromptKey, body: &EventBody) -> Vec<String> {
        if let EventBody::Result(result) = body {
            return self.on_result(key, result);
        }
        if let EventBody::TextDelta { .. } = body {
            // There are very many of them.
            if let Some(running) = self.running.get_mut(&key) {
                running.on_event(body);
            }
            return Vec::new();
        }
        let name = self.name(key);
        let max_turns = self
            .planned_prompt(key)
            .map_or(0, |prompt| prompt.max_turns);
        let running = self.running.entry(key).or_default();
        running.max_turns = max_turns;
        running.on_event(body);
        if let EventBody::Assistant { cost, .. } = body {
            *self.costs.entry(key).or_default() += *cost;
        }
        self.sentences.note(&mut running.this_turn, body);
        let lines = self.sentences.on_event(&name, &running.this_turn, body);
        if self.verbosity != Verbosity::Quiet {
            return lines;
        }
        running.held.extend(lines);
        Vec::new()
    }

    fn on_result(&mut self, key: PromptKey, result: &PromptResult) -> Vec<String> {
        let running = self.running.remove(&key).unwrap_or_default();
        let passed = result.outcome() == Outcome::Passed;
        self.outcomes.push(result.outcome());
        let model = self.planned_prompt(key).map_or("", |prompt| &prompt.model);
        let line = self.sentences.result(&self.name(key), model, result);
        match (self.verbosity, passed) {
            (Verbosity::Quiet, true) => Vec::new(),
            (Verbosity::Quiet, false) => {
                let mut lines = running.held;
                lines.push(line);
                lines
            }
            (Verbosity::Normal | Verbosity::Verbose, _) => vec![line],
        }
    }

    fn name(&self, key: PromptKey) -> String {
        let job = self.run.as_ref().and_then(|run| run.jobs.get(key.job));
        job.and_then(|job| Some(format!("{}/{}", job.name, job.prompts.get(key.prompt)?.id)))
            .unwrap_or_else(|| format!("job {} prompt {}", key.job + 1, key.prompt + 1))
    }

    fn planned_prompt(&self, key: PromptKey) -> Option<&PromptPlanned> {
        self.run
            .as_ref()?
            .jobs
            .get(key.job)?
            .prompts
            .get(key.prompt)
    }
}

impl Running {
    fn on_event(&mut self, body: &EventBody) {
        match body {
            EventBody::Init(_) => "starting".clone_into(&mut self.doing),
            EventBody::RequestSent { .. } => {
                "waiting for the model".clone_into(&mut self.doing);
            }
            EventBody::TextDelta { .. } => "receiving".clone_into(&mut self.doing),
            EventBody::Assistant { turn, reply, .. } => {
                self.turn = *turn;
                self.doing = match reply.calls.last() {
                    Some(call) => format!("running {}", call.name),
                    None => "finishing".to_owned(),
                };
            }
            EventBody::Check(check) => self.doing = format!("checked {}", check.id),
            EventBody::Notice(Notice::Retry { delay, .. }) => {
                self.doing = format!("waiting {} to try again", duration_words(*delay));
            }
            EventBody::RunStarted(_)
            | EventBody::RunEnded { .. }
            | EventBody::User { .. }
            | EventBody::RequestFailed { .. }
            | EventBody::Permission(_)
            | EventBody::ToolResult { .. }
            | EventBody::Notice(_)
            | EventBody::Warning { .. }
            | EventBody::Result(_) => {}
        }
    }
}
