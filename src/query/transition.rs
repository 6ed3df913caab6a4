//! Why the loop went round again.

use std::fmt;

use serde::Serialize;

/// Why another request is made. A first request and a plain retry have none.
///
/// The names are those of the specification, section 5.9; the ones whose recovery is not built yet
/// are never produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Transition {
    /// All calls of a reply were answered.
    NextTurn,
    /// A Stop hook blocked.
    StopHookBlocking,
    /// A `TaskCompleted` hook blocked.
    TaskHookBlocking,
    /// A check failed under `on_check_failure: {continue}`.
    CheckFailed,
    /// Staged replacements were drained.
    CollapseDrainRetry,
    /// The conversation was compacted ahead of time.
    AutoCompact,
    /// The conversation was compacted after a refusal.
    ReactiveCompactRetry,
    /// The same request with a higher output limit.
    MaxOutputTokensEscalate,
    /// The model is asked to resume.
    MaxOutputTokensRecovery,
    /// The same request with a lower output limit.
    MaxOutputTokensLowered,
    /// The same request without thinking blocks.
    ThinkingStrippedRetry,
    /// The turn is tried again on the fallback model.
    ModelFallback,
    /// Structured output was invalid.
    StructuredOutputRetry,
    /// `Finish` was not called.
    CompletionReminder,
    /// The reply had no visible output.
    EmptyReplyReminder,
    /// A server tool goes on.
    PauseTurn,
    /// The last request at a limit.
    WindDown,
}

impl Transition {
    /// Every transition, in the order of the specification.
    pub const ALL: [Self; 17] = [
        Self::NextTurn,
        Self::StopHookBlocking,
        Self::TaskHookBlocking,
        Self::CheckFailed,
        Self::CollapseDrainRetry,
        Self::AutoCompact,
        Self::ReactiveCompactRetry,
        Self::MaxOutputTokensEscalate,
        Self::MaxOutputTokensRecovery,
        Self::MaxOutputTokensLowered,
        Self::ThinkingStrippedRetry,
        Self::ModelFallback,
        Self::StructuredOutputRetry,
        Self::CompletionReminder,
        Self::EmptyReplyReminder,
        Self::PauseTurn,
        Self::WindDown,
    ];

    /// The name in the transcript.
    pub fn name(self) -> &'static str {
        match self {
            Self::NextTurn => "next_turn",
            Self::StopHookBlocking => "stop_hook_blocking",
            Self::TaskHookBlocking => "task_hook_blocking",
            Self::CheckFailed => "check_failed",
            Self::CollapseDrainRetry => "collapse_drain_retry",
            Self::AutoCompact => "auto_compact",
            Self::ReactiveCompactRetry => "reactive_compact_retry",
            Self::MaxOutputTokensEscalate => "max_output_tokens_escalate",
            Self::MaxOutputTokensRecovery => "max_output_tokens_recovery",
            Self::MaxOutputTokensLowered => "max_output_tokens_lowered",
            Self::ThinkingStrippedRetry => "thinking_stripped_retry",
            Self::ModelFallback => "model_fallback",
            Self::StructuredOutputRetry => "structured_output_retry",
            Self::CompletionReminder => "completion_reminder",
            Self::EmptyReplyReminder => "empty_reply_reminder",
            Self::PauseTurn => "pause_turn",
            Self::WindDown => "wind_down",
        }
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transition_serialises_as_its_name() {
        for transition in Transition::ALL {
            assert_eq!(serde_json::to_value(transition).unwrap(), transition.name());
        }
    }
}
