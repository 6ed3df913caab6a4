//! How a prompt ends: the stop reason of its conversation, what was found after the loop, the outcome
//! of both, and the exit code of a run.
//!
//! Knows names and their meaning; it does not know how any of them comes about.

use std::fmt;

use serde::Serialize;

/// Why a conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A final reply, and whoever was asked about it was content.
    Completed,
    /// The next turn would have exceeded `max_turns`.
    MaxTurns,
    /// The next request did not fit the budget.
    MaxBudgetUsd,
    /// A Stop hook said `continue: false`.
    StopHookPrevented,
    /// Another hook said `continue: false`.
    HookStopped,
    /// Stop hooks blocked too often.
    StopHookLoop,
    /// A call was denied under `on_denied: stop`.
    PermissionDenied,
    /// No valid structured output.
    InvalidOutput,
    /// The model declined to answer.
    Refusal,
    /// A reply without visible output.
    EmptyReply,
    /// The reply was cut at the output limit.
    MaxOutputTokens,
    /// The conversation does not fit the model's window.
    PromptTooLong,
    /// The prompt's wall clock ran out.
    Timeout,
    /// The provider failed for good, or an internal fault.
    ModelError,
    /// A hook could not be run.
    HookError,
    /// What the prompt needs could not be set up.
    SetupError,
    /// The transcript could not be written.
    RecordFailed,
    /// A signal or the end of the run.
    Aborted,
    /// Never started.
    NotRun,
}

/// What was found after a loop that ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// A check did not pass.
    ChecksFailed,
    /// A call was denied under `on_denied: fail`.
    PermissionDenied,
}

/// Whether a prompt did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did.
    Passed,
    /// It did not, and trying the same again would not help.
    Failed,
    /// It could not be told: the machine, the provider or a person stood in the way.
    Errored,
    /// It was never started.
    Skipped,
}

impl StopReason {
    /// Every stop reason, in the order of the specification.
    pub const ALL: [Self; 19] = [
        Self::Completed,
        Self::MaxTurns,
        Self::MaxBudgetUsd,
        Self::StopHookPrevented,
        Self::HookStopped,
        Self::StopHookLoop,
        Self::PermissionDenied,
        Self::InvalidOutput,
        Self::Refusal,
        Self::EmptyReply,
        Self::MaxOutputTokens,
        Self::PromptTooLong,
        Self::Timeout,
        Self::ModelError,
        Self::HookError,
        Self::SetupError,
        Self::RecordFailed,
        Self::Aborted,
        Self::NotRun,
    ];

    /// The name used in JSON, YAML and JUnit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::MaxTurns => "max_turns",
            Self::MaxBudgetUsd => "max_budget_usd",
            Self::StopHookPrevented => "stop_hook_prevented",
            Self::HookStopped => "hook_stopped",
            Self::StopHookLoop => "stop_hook_loop",
            Self::PermissionDenied => "permission_denied",
            Self::InvalidOutput => "invalid_output",
            Self::Refusal => "refusal",
            Self::EmptyReply => "empty_reply",
            Self::MaxOutputTokens => "max_output_tokens",
            Self::PromptTooLong => "prompt_too_long",
            Self::Timeout => "timeout",
            Self::ModelError => "model_error",
            Self::HookError => "hook_error",
            Self::SetupError => "setup_error",
            Self::RecordFailed => "record_failed",
            Self::Aborted => "aborted",
            Self::NotRun => "not_run",
        }
    }

    /// The outcome of a prompt that ended for this reason and about which nothing else was found.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Completed => Outcome::Passed,
            Self::MaxTurns
            | Self::MaxBudgetUsd
            | Self::StopHookPrevented
            | Self::HookStopped
            | Self::StopHookLoop
            | Self::PermissionDenied
            | Self::InvalidOutput
            | Self::Refusal
            | Self::EmptyReply
            | Self::MaxOutputTokens
            | Self::PromptTooLong
            | Self::Timeout => Outcome::Failed,
            Self::ModelError
            | Self::HookError
            | Self::SetupError
            | Self::RecordFailed
            | Self::Aborted => Outcome::Errored,
            Self::NotRun => Outcome::Skipped,
        }
    }
}

impl Finding {
    /// The name used in JSON and JUnit.
    pub fn name(self) -> &'static str {
        match self {
            Self::ChecksFailed => "checks_failed",
            Self::PermissionDenied => "permission_denied",
        }
    }
}

impl Outcome {
    /// The name used in JSON and on the terminal.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Errored => "errored",
            Self::Skipped => "skipped",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The end of one conversation: why, in which words, and what was found afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Why the loop ended.
    pub reason: StopReason,
    /// One or more lines for a person; empty when there is nothing to add.
    pub message: String,
    /// What was found after the loop, if anything.
    pub finding: Option<Finding>,
}

impl Stop {
    /// A stop about which nothing further was found.
    pub fn new(reason: StopReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            finding: None,
        }
    }

    /// Passed only when the reason is good and nothing was found.
    pub fn outcome(&self) -> Outcome {
        match (self.reason.outcome(), self.finding) {
            (Outcome::Passed, Some(_)) => Outcome::Failed,
            (outcome, _) => outcome,
        }
    }

    /// The one name that reports show: the finding where there is one, else the stop reason.
    pub fn name(&self) -> &'static str {
        self.finding
            .map_or_else(|| self.reason.name(), Finding::name)
    }
}

/// Exit codes of `lightsout run`.
pub mod exit {
    use super::Outcome;

    /// Everything passed.
    pub const PASSED: u8 = 0;
    /// Something failed or was not run.
    pub const FAILED: u8 = 1;
    /// Usage, or a fault in a job file.
    pub const USAGE: u8 = 2;
    /// Something errored and nothing failed.
    pub const ERRORED: u8 = 3;
    /// The filters matched nothing.
    pub const NOTHING_SELECTED: u8 = 4;

    /// The exit code for the outcomes of a run that no signal ended.
    pub fn code(outcomes: impl IntoIterator<Item = Outcome>) -> u8 {
        let (mut failed, mut errored) = (false, false);
        for outcome in outcomes {
            match outcome {
                Outcome::Passed => {}
                Outcome::Failed | Outcome::Skipped => failed = true,
                Outcome::Errored => errored = true,
            }
        }
        match (failed, errored) {
            (true, _) => FAILED,
            (false, true) => ERRORED,
            (false, false) => PASSED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stop_reason_serialises_as_its_name() {
        for reason in StopReason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
        }
    }

    #[test]
    fn only_completed_without_a_finding_passes() {
        for reason in StopReason::ALL {
            let mut stop = Stop::new(reason, "");
            assert_eq!(
                stop.outcome() == Outcome::Passed,
                reason == StopReason::Completed
            );
            stop.finding = Some(Finding::ChecksFailed);
            assert_ne!(stop.outcome(), Outcome::Passed);
        }
    }

    #[test]
    fn the_exit_code_tells_the_worst_that_a_person_must_act_on() {
        use Outcome::{Errored, Failed, Passed, Skipped};
        for (outcomes, code) in [
            (vec![], 0),
            (vec![Passed, Passed], 0),
            (vec![Passed, Failed], 1),
            (vec![Passed, Skipped], 1),
            (vec![Errored, Passed], 3),
            (vec![Errored, Failed], 1),
        ] {
            assert_eq!(exit::code(outcomes.clone()), code, "{outcomes:?}");
        }
    }
}
