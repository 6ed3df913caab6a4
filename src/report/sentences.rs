//! One event of a prompt -> the line a person is told of it.
//!
//! A line has one line of foreign text: of a message of several, the first. The reports have the rest.

use std::sync::Arc;

use crate::message::{Reply, ToolResult};
use crate::query::{Denial, Notice};
use crate::stop::Outcome;
use crate::transcript::{CheckResult, EventBody, PromptResult, Redactor};

use super::foreign::{first_line, one_line, plain};
use super::github::neutralise;
use super::wording::duration_words;

/// Longest line; reports have what is cut off.
const LONGEST: usize = 500;
/// Longest arguments of a call in a line.
const LONGEST_INPUT: usize = LONGEST / 3;

/// Makes lines: foreign text neutralised, secrets masked, no newline inside.
#[derive(Debug)]
pub(super) struct Sentences {
    redactor: Arc<Redactor>,
    is_verbose: bool,
}

impl Sentences {
    /// `is_verbose`: each turn and each tool result has a line too.
    pub(super) fn new(redactor: Arc<Redactor>, is_verbose: bool) -> Self {
        Self {
            redactor,
            is_verbose,
        }
    }

    /// What is said of an event of the prompt `name`; `messages` were in its last request.
    pub(super) fn on_event(&self, name: &str, body: &EventBody, messages: usize) -> Vec<String> {
        let line = match body {
            EventBody::Permission(permission) => permission
                .denial
                .as_ref()
                .map(|denial| self.denial(name, denial)),
            EventBody::Assistant { reply, turn, .. } => {
                let warnings = reply.warnings.iter();
                let mut lines: Vec<String> = warnings
                    .map(|warning| self.warning(Some(name), warning))
                    .collect();
                if self.is_verbose {
                    lines.push(self.clean(&turn_line(name, *turn, messages, reply)));
                }
                return lines;
            }
            EventBody::ToolResult {
                result, tool_name, ..
            } => self.is_verbose.then(|| tool_line(name, tool_name, result)),
            EventBody::Check(check) if self.is_verbose || !check.passed => {
                Some(self.check(name, check))
            }
            EventBody::Notice(notice) => self.notice(name, notice),
            EventBody::Warning { message } => Some(self.warning(Some(name), message)),
            EventBody::RequestFailed { failure, .. } => self.is_verbose.then(|| {
                let failure = self.head(&failure.to_string());
                format!("{name}: request failed: {failure}")
            }),
            EventBody::RunStarted(_)
            | EventBody::RunEnded { .. }
            | EventBody::Init(_)
            | EventBody::User { .. }
            | EventBody::RequestSent { .. }
            | EventBody::Check(_)
            | EventBody::Result(_)
            | EventBody::TextDelta { .. } => None,
        };
        line.map(|line| self.clean(&line)).into_iter().collect()
    }

    /// How a prompt ended.
    pub(super) fn result(&self, name: &str, result: &PromptResult) -> String {
        let word = match result.outcome() {
            Outcome::Passed => "PASS",
            Outcome::Failed => "FAIL",
            Outcome::Errored => "ERROR",
            Outcome::Skipped => "SKIP",
        };
        let turns = if result.num_turns == 1 {
            "turn"
        } else {
            "turns"
        };
        let cost = result
            .cost
            .map_or_else(|| "cost unknown".to_owned(), |cost| cost.to_string());
        let figures = format!(
            "{} {turns}  {cost}  {}",
            result.num_turns,
            duration_words(result.duration)
        );
        let reason = result.stop.name();
        let message = self.head(&result.stop.message);
        self.clean(&match result.outcome() {
            Outcome::Passed => format!("{word} {name}  {figures}"),
            Outcome::Skipped => format!("{word} {name} {reason}: {message}"),
            // Figures before the message, which may be long and is cut at its end.
            Outcome::Failed | Outcome::Errored => {
                format!("{word} {name} {reason}  {figures}: {message}")
            }
        })
    }

    /// A warning of a prompt, or of the run.
    pub(super) fn warning(&self, name: Option<&str>, message: &str) -> String {
        let message = self.head(message);
        self.clean(&match name {
            Some(name) => format!("warning: {name}: {message}"),
            None => format!("warning: {message}"),
        })
    }

    /// Masked before it is cut, for a secret that is cut in two is not found any more.
    pub(super) fn clean(&self, line: &str) -> String {
        let line = plain(line);
        one_line(&neutralise(&self.redactor.redact(&line)), LONGEST)
    }

    /// The first line of foreign text, masked before it is cut.
    fn head(&self, text: &str) -> String {
        first_line(&self.redactor.redact(&plain(text))).to_owned()
    }

    fn denial(&self, name: &str, denial: &Denial) -> String {
        let input = denial.tool_input.to_string();
        let input = one_line(&self.redactor.redact(&input), LONGEST_INPUT);
        let reason = self.head(&denial.reason);
        let hint = denial.would_allow.as_ref();
        let hint = hint.map_or_else(String::new, |rule| format!(" (would be allowed by {rule})"));
        format!(
            "denied: {name}: {} {input}: {reason}{hint}",
            denial.tool_name
        )
    }

    fn check(&self, name: &str, check: &CheckResult) -> String {
        if check.passed {
            let duration = duration_words(check.duration);
            return format!("{name}: {} passed in {duration}", check.id);
        }
        let message = self.head(&check.message);
        let output = self.redactor.redact(&plain(&check.output)).into_owned();
        let last = output.trim_end().lines().next_back().unwrap_or_default();
        let colon = if last.is_empty() { "" } else { ": " };
        format!("{name}: {} failed: {message}{colon}{last}", check.id)
    }

    fn notice(&self, name: &str, notice: &Notice) -> Option<String> {
        match notice {
            Notice::Retry {
                attempt,
                max_retries,
                delay,
                failure,
            } => {
                // The first attempt is no retry.
                let attempts = max_retries.saturating_add(1);
                let (delay, failure) = (duration_words(*delay), self.head(&failure.to_string()));
                Some(format!(
                    "retry: {name}: attempt {attempt} of {attempts} failed, again in {delay}: {failure}"
                ))
            }
            Notice::Warning { message } => Some(self.warning(Some(name), message)),
            Notice::Transition { why, turn } => self
                .is_verbose
                .then(|| format!("{name}: {why} to turn {turn}")),
            Notice::Tombstone { .. }
            | Notice::Dropped { .. }
            | Notice::Filled { .. }
            | Notice::MaxTurnsReached { .. }
            | Notice::SyntheticError { .. }
            | Notice::Stopped(_) => None,
        }
    }
}

fn turn_line(name: &str, turn: u32, messages: usize, reply: &Reply) -> String {
    let calls = reply.calls.len();
    let follow_up = if calls > 0 {
        "follow-up needed"
    } else {
        "no follow-up"
    };
    format!("{name}: turn {turn}: messages {messages}, tool_use {calls}, {follow_up}")
}

fn tool_line(name: &str, tool_name: &str, result: &ToolResult) -> String {
    let flag = if result.is_error { "error" } else { "ok" };
    format!(
        "{name}: tool_result {tool_name}: {flag}, {} characters",
        result.text_chars()
    )
}
