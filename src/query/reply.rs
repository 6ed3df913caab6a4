//! What a finished reply leads to.

use std::sync::Arc;

use crate::message::{ApiStopReason, Reply, RequestNumber};
use crate::stop::StopReason;

use super::machine::Machine;
use super::queue::Queue;
use super::state::{Effect, State};
use super::transition::Transition;

impl Machine {
    /// A whole reply came. Whether tools run is decided by the presence of calls, not by the API's
    /// stop reason; only a reply that was refused, too dear or cut off is looked at first.
    pub(super) fn replied(&mut self, reply: &Arc<Reply>, overspent: Option<&str>) {
        self.api_stop_reason.clone_from(&reply.stop_reason);
        if reply.stop_reason == Some(ApiStopReason::Refusal) {
            self.refused(reply);
            return;
        }
        self.take_turn(reply);
        if let Some(overspent) = overspent {
            self.stop(StopReason::MaxBudgetUsd, overspent);
            return;
        }
        match &reply.stop_reason {
            Some(ApiStopReason::MaxTokens) => self.stop(
                StopReason::MaxOutputTokens,
                format!(
                    "the reply was cut off at the output limit after {} tokens",
                    reply.usage.output_tokens
                ),
            ),
            Some(ApiStopReason::ModelContextWindowExceeded) => self.stop(
                StopReason::PromptTooLong,
                "the conversation filled the model's context window before the reply was complete",
            ),
            Some(ApiStopReason::PauseTurn)
                if reply.calls.is_empty() && !reply.blocks.is_empty() =>
            {
                self.request(Some(Transition::PauseTurn));
            }
            Some(
                ApiStopReason::EndTurn
                | ApiStopReason::ToolUse
                | ApiStopReason::StopSequence
                | ApiStopReason::PauseTurn
                | ApiStopReason::Refusal
                | ApiStopReason::Other(_),
            )
            | None => self.go_on(reply),
        }
    }

    /// The reply enters the history: that is a turn.
    fn take_turn(&mut self, reply: &Reply) {
        self.turns += 1;
        let calls = reply.calls.iter().map(|call| call.id.clone());
        let usage = reply.usage_is_final.then_some(&reply.usage);
        self.history.push_reply(&reply.blocks, calls, usage);
        self.queue = Queue::new(&reply.calls);
        if !reply.text.trim().is_empty() {
            self.text.clone_from(&reply.text);
        }
    }

    fn go_on(&mut self, reply: &Reply) {
        if !reply.calls.is_empty() {
            let request = RequestNumber(self.number);
            self.state = State::RunningTools { request };
            let authorize = |call| Effect::Authorize { request, call };
            self.step
                .effects
                .extend(reply.calls.iter().cloned().map(authorize));
        } else if reply.text.trim().is_empty() {
            self.stop(
                StopReason::EmptyReply,
                "the model ended its reply without any visible text",
            );
        } else if self.settings.has_checks {
            self.state = State::Checking;
            self.step.effects.push(Effect::RunChecks);
        } else {
            self.complete(None);
        }
    }

    /// A refused reply does not enter the history; what was said before it is not an answer. Its calls
    /// are never run.
    fn refused(&mut self, reply: &Reply) {
        self.queue = Queue::new(&reply.calls);
        let detail = |key: &str| {
            reply.stop_details[key]
                .as_str()
                .filter(|text| !text.is_empty())
        };
        let category = detail("category").map(|category| format!(" (category: {category})"));
        let explanation = detail("explanation").map(|explanation| format!(": {explanation}"));
        self.stop(
            StopReason::Refusal,
            format!(
                "the model refused{}{}",
                category.unwrap_or_default(),
                explanation.unwrap_or_default()
            ),
        );
    }
}
