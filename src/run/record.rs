//! What of an input and a step goes to the transcript, and in which order.

use std::time::Duration;

use uuid::Uuid;

use crate::message::Block;
use crate::models::Usd;
use crate::query::{CheckFailure, End, Input, Notice, Purpose, Step};
use crate::transcript::{CheckResult, EventBody, Permission};

/// An input and what only the hands know about it.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) input: Input,
    pub(super) detail: Detail,
}

/// What only the hands know about an input.
#[derive(Debug)]
pub(super) enum Detail {
    /// Nothing more.
    Nothing,
    /// About `Sent`.
    Sent {
        purpose: Purpose,
        input_bound: u64,
        messages: usize,
        reserved: Usd,
    },
    /// About `ReplyComplete`.
    Replied { cost: Usd },
    /// About `RequestFailed`.
    Failed { unsettled: Usd },
    /// About `CallDecided`, when the policy was asked.
    Decided(Box<Permission>),
    /// About `CallDone`.
    Ran {
        tool_name: String,
        duration: Duration,
    },
    /// About `ChecksDone`.
    Checked(Vec<CheckResult>),
}

impl Told {
    pub(super) fn plain(input: Input) -> Self {
        Self {
            input,
            detail: Detail::Nothing,
        }
    }

    pub(super) fn fault(message: String) -> Self {
        Self::plain(Input::Ended(End::Fault(message)))
    }

    pub(super) fn checked(results: Vec<CheckResult>) -> Self {
        let failures = results
            .iter()
            .filter(|result| !result.passed)
            .map(|result| CheckFailure {
                id: result.id.clone(),
                message: result.message.clone(),
            })
            .collect();
        Self {
            input: Input::ChecksDone { failures },
            detail: Detail::Checked(results),
        }
    }

    /// The event of a request that ended after its conversation.
    pub(super) fn late_event(self) -> Option<EventBody> {
        match (self.input, self.detail) {
            (Input::RequestFailed { request, failure }, Detail::Failed { unsettled }) => {
                Some(EventBody::RequestFailed {
                    request,
                    failure,
                    unsettled,
                })
            }
            // No turn, but it was paid for.
            (Input::ReplyComplete { request, reply, .. }, Detail::Replied { cost }) => {
                let cost = if reply.usage_is_final {
                    format!("cost {cost}")
                } else {
                    "did not say what it cost".to_owned()
                };
                Some(EventBody::Warning {
                    message: format!(
                        "the reply to request {request} came after the end and {cost}"
                    ),
                })
            }
            _ => None,
        }
    }
}

/// The events of one step: what was told, then what the machine says beside it.
///
/// `turn` is the number of turns after the step; `assistant` the event that calls were asked in.
pub(super) fn events(told: &Told, step: &Step, turn: u32, assistant: Uuid) -> Vec<EventBody> {
    let mut events = told_events(told, turn, assistant);
    for notice in &step.notices {
        events.push(match notice {
            Notice::Filled { result, tool_name } => EventBody::ToolResult {
                result: result.clone(),
                tool_name: tool_name.clone(),
                notes: Vec::new(),
                assistant,
                duration: Duration::ZERO,
            },
            other => EventBody::Notice(other.clone()),
        });
    }
    events
}

fn told_events(told: &Told, turn: u32, assistant: Uuid) -> Vec<EventBody> {
    match (&told.input, &told.detail) {
        (Input::Started { prompt }, _) => {
            vec![EventBody::User {
                blocks: Block::text(prompt).into_iter().collect(),
                is_synthetic: false,
            }]
        }
        (
            Input::Sent {
                request,
                max_tokens,
            },
            Detail::Sent {
                purpose,
                input_bound,
                messages,
                reserved,
            },
        ) => {
            vec![EventBody::RequestSent {
                request: *request,
                purpose: *purpose,
                max_tokens: *max_tokens,
                input_bound: *input_bound,
                messages: *messages,
                reserved: *reserved,
            }]
        }
        (Input::ReplyComplete { request, reply, .. }, Detail::Replied { cost }) => {
            vec![EventBody::Assistant {
                request: *request,
                reply: reply.clone(),
                turn,
                cost: *cost,
            }]
        }
        (Input::RequestFailed { request, failure }, Detail::Failed { unsettled }) => {
            vec![EventBody::RequestFailed {
                request: *request,
                failure: failure.clone(),
                unsettled: *unsettled,
            }]
        }
        (Input::CallDecided { .. }, Detail::Decided(permission)) => {
            vec![EventBody::Permission(Permission::clone(permission))]
        }
        (
            Input::CallDone { result, notes, .. },
            Detail::Ran {
                tool_name,
                duration,
            },
        ) => {
            vec![EventBody::ToolResult {
                result: result.clone(),
                tool_name: tool_name.clone(),
                notes: notes.clone(),
                assistant,
                duration: *duration,
            }]
        }
        (_, Detail::Checked(results)) => results.iter().cloned().map(EventBody::Check).collect(),
        _ => Vec::new(),
    }
}
