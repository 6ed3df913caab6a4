//! What a failed request leads to.

use std::time::Duration;

use crate::message::{Failure, FailureKind, RequestNumber};
use crate::stop::StopReason;

use super::machine::{Machine, plural};
use super::retry;
use super::state::{Effect, Notice, State, Timer};

/// What can be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remedy {
    /// The same again, at most this often in all.
    Retry { attempts: u32 },
    /// Nothing: the conversation is too long.
    TooLong,
    /// Nothing.
    GiveUp,
}

impl Machine {
    /// A request got no whole reply.
    pub(super) fn failed(&mut self, now: Duration, failure: &Failure) {
        if failure.had_output {
            self.step.notices.push(Notice::Tombstone {
                request: RequestNumber(self.number),
            });
        }
        match self.remedy(failure) {
            Remedy::TooLong => self.stop(StopReason::PromptTooLong, failure.message.clone()),
            Remedy::GiveUp => self.stop(StopReason::ModelError, failure.message.clone()),
            Remedy::Retry { attempts } if self.attempt >= attempts => {
                let tries = plural(attempts, "attempt");
                self.stop(
                    StopReason::ModelError,
                    format!(
                        "{} (gave up after {} {tries})",
                        failure.message, self.attempt
                    ),
                );
            }
            Remedy::Retry { attempts } => self.try_again(now, failure, attempts),
        }
    }

    fn remedy(&self, failure: &Failure) -> Remedy {
        let remedy = match failure.kind {
            FailureKind::Connection
            | FailureKind::IdleTimeout
            | FailureKind::Truncated
            | FailureKind::Server
            | FailureKind::RateLimit => Remedy::Retry {
                attempts: self.settings.attempts,
            },
            FailureKind::Overloaded => Remedy::Retry {
                attempts: self
                    .settings
                    .overloaded_attempts
                    .min(self.settings.attempts),
            },
            FailureKind::PromptTooLong => Remedy::TooLong,
            FailureKind::SpendLimit
            | FailureKind::Authentication
            | FailureKind::MaxTokensTooHigh
            | FailureKind::ThinkingSignature
            | FailureKind::Invalid
            | FailureKind::Protocol
            | FailureKind::Cassette
            | FailureKind::Cancelled => Remedy::GiveUp,
        };
        // The server's word decides whether an ordinary error is tried again, never how often, and
        // never makes a storm of a limit or a wrong key.
        match (remedy, failure.should_retry, failure.kind) {
            (Remedy::Retry { .. }, Some(false), _) => Remedy::GiveUp,
            (Remedy::GiveUp, Some(true), FailureKind::Invalid) => Remedy::Retry {
                attempts: self.settings.attempts,
            },
            (remedy, ..) => remedy,
        }
    }

    fn try_again(&mut self, now: Duration, failure: &Failure, attempts: u32) {
        let delay = retry::delay(
            failure,
            self.attempt,
            self.settings.seed ^ u64::from(self.number),
        );
        let at = now.saturating_add(delay);
        if at >= self.deadline {
            self.stop(
                StopReason::ModelError,
                format!(
                    "{} (the next attempt is due in {delay:.1?}, longer than what `timeout` leaves)",
                    failure.message
                ),
            );
            return;
        }
        self.step.notices.push(Notice::Retry {
            attempt: self.attempt,
            max_retries: attempts.saturating_sub(1),
            delay,
            failure: failure.clone(),
        });
        self.step.effects.push(Effect::SetTimer {
            timer: Timer::Retry,
            at,
        });
        self.state = State::Waiting;
    }
}
