//! One event of a prompt -> the line a person is told of it.
//!
//! A line has one line of foreign text: of a message of several, the first. The reports have the rest.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::message::{Reply, ResultContent, ToolInput, ToolResult};
use crate::query::{Denial, Notice, Transition};
use crate::stop::Outcome;
use crate::transcript::{CheckResult, EventBody, PromptResult, Redactor};

use super::foreign::{first_line, one_line, plain};
use super::github::neutralise;
use super::wording::{Cost, counted, duration_words};

/// Longest line; reports have what is cut off.
const LONGEST: usize = 500;
/// Longest arguments of a call in a line.
const LONGEST_INPUT: usize = LONGEST / 3;

/// What lines about a turn need to know of what went before.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Messages in its last request.
    messages: usize,
    /// The main argument of each call of its reply, by the call's id.
    arguments: HashMap<String, String>,
    /// Ids of calls that were denied.
    denied: HashSet<String>,
}

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

    /// What is said of an event of the prompt `name`.
    pub(super) fn on_event(&self, name: &str, turn: &Turn, body: &EventBody) -> Vec<String> {
        let line = match body {
            EventBody::Permission(permission) => permission
                .denial
                .as_ref()
                .map(|denial| self.denial(name, denial)),
            EventBody::Assistant {
                reply,
                turn: number,
                ..
            } => {
                let warnings = reply.warnings.iter();
                let mut lines: Vec<String> = warnings
                    .map(|warning| self.warning(Some(name), warning))
                    .collect();
                if self.is_verbose {
                    lines.push(self.clean(&turn_line(name, *number, turn.messages, reply)));
                }
                return lines;
            }
            EventBody::ToolResult {
                result, tool_name, ..
            } => self
                .is_verbose
                .then(|| self.tool_result(name, turn, tool_name, result)),
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

    /// Takes in what later lines about the turn need.
    pub(super) fn note(&self, turn: &mut Turn, body: &EventBody) {
        match body {
            EventBody::RequestSent { messages, .. } => turn.messages = *messages,
            EventBody::Assistant { reply, .. } if self.is_verbose => {
                let calls = reply.calls.iter();
                turn.denied.clear();
                turn.arguments = calls
                    .filter_map(|call| {
                        let argument = self.head(main_argument(&call.input)?);
                        Some((call.id.clone(), one_line(&argument, LONGEST_INPUT)))
                    })
                    .collect();
            }
            EventBody::Permission(permission) if permission.denial.is_some() => {
                turn.denied.insert(permission.call.id.clone());
            }
            EventBody::RunStarted(_)
            | EventBody::RunEnded { .. }
            | EventBody::Init(_)
            | EventBody::User { .. }
            | EventBody::Assistant { .. }
            | EventBody::RequestFailed { .. }
            | EventBody::Permission(_)
            | EventBody::ToolResult { .. }
            | EventBody::Check(_)
            | EventBody::Notice(_)
            | EventBody::Warning { .. }
            | EventBody::Result(_)
            | EventBody::TextDelta { .. } => {}
        }
    }

    /// How a prompt ended; `model` as reports name it.
    pub(super) fn result(&self, name: &str, model: &str, result: &PromptResult) -> String {
        let word = match result.outcome() {
            Outcome::Passed => "PASS",
            Outcome::Failed => "FAIL",
            Outcome::Errored => "ERROR",
            Outcome::Skipped => "SKIP",
        };
        let turns = counted(result.num_turns as usize, "turn");
        let cost = Cost::of(model, result.cost);
        let figures = format!("{turns}  {cost}  {}", duration_words(result.duration));
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

    fn tool_result(&self, name: &str, turn: &Turn, tool_name: &str, result: &ToolResult) -> String {
        let argument = turn.arguments.get(&result.tool_use_id);
        let argument = argument.map_or_else(String::new, |argument| format!(" {argument}"));
        let flag = if result.is_error { "error" } else { "ok" };
        let chars = counted(result.text_chars(), "char");
        // Set in below its turn, behind the name that tells prompts side by side apart.
        let line = format!("{name}:   {tool_name}{argument}: {flag}, {chars}");
        if turn.denied.contains(&result.tool_use_id) {
            // The line of the denial said why.
            return format!("{line}: denied");
        }
        let mut texts = result.content.iter().filter_map(|content| match content {
            ResultContent::Text(text) => Some(text),
            ResultContent::Image { .. } => None,
        });
        let text = texts.next().filter(|_| result.is_error);
        let text = text.map(|text| error_text(&self.redactor.redact(&plain(text))));
        match text.filter(|text| !text.is_empty()) {
            Some(text) => format!("{line}: {text}"),
            None => line,
        }
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
            Notice::Transition { why, turn } => {
                // The line of the turn said already that there is a follow-up.
                let is_said = *why == Transition::NextTurn;
                (self.is_verbose && !is_said).then(|| format!("{name}: {why} to turn {turn}"))
            }
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
    let messages = counted(messages, "message");
    let calls = reply.calls.len();
    let follow_up = if calls > 0 {
        "follow-up"
    } else {
        "no follow-up"
    };
    format!("{name}: turn {turn}: {messages}, {calls} tool_use, {follow_up}")
}

/// What a call is about: the command, the file, the pattern. `None` when nothing says it.
fn main_argument(input: &ToolInput) -> Option<&str> {
    let ToolInput::Json(input) = input else {
        return None;
    };
    let mut names = ["command", "file_path", "pattern"].into_iter();
    names.find_map(|name| input.get(name)?.as_str())
}

/// The first line of a tool's error, without the tag around it; the line below too, when the first
/// only announces it.
fn error_text(text: &str) -> String {
    let text = text.trim_start();
    let text = text.strip_prefix("<tool_use_error>").unwrap_or(text);
    let text = text.strip_suffix("</tool_use_error>").unwrap_or(text);
    let first = first_line(text);
    if !first.ends_with(':') {
        return first.to_owned();
    }
    let below = text.split_once(first).map_or("", |(_, below)| below);
    format!("{first} {}", first_line(below))
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_by_its_first_line() {
        for (text, right) in [
            ("not found", "not found"),
            ("not found\nlook elsewhere", "not found"),
            (
                "<tool_use_error>Read failed due to the following issues:\nno path\nno limit</tool_use_error>",
                "Read failed due to the following issues: no path",
            ),
            ("<tool_use_error>no</tool_use_error>", "no"),
            ("failed:", "failed:"),
            ("", ""),
        ] {
            assert_eq!(error_text(text), right, "{text:?}");
        }
    }
}
