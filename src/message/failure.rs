//! A request that got no complete reply.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::Usage;

/// What went wrong with a request, by what can be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// No connection, or it broke: refused, reset, DNS, closed before an answer.
    Connection,
    /// Nothing came for longer than the idle limit.
    IdleTimeout,
    /// The stream ended without `message_stop`, or the reply without a stop reason and a call.
    Truncated,
    /// 408, 409, 5xx, or the same as an event in the stream.
    Server,
    /// 429 that may be tried again.
    RateLimit,
    /// 529, `overloaded_error`.
    Overloaded,
    /// A spend, quota or usage limit; 402: nothing will work until a person acts.
    SpendLimit,
    /// 401: the key is wrong.
    Authentication,
    /// The conversation or the body is too large.
    PromptTooLong,
    /// `max_tokens` is over the model's limit.
    MaxTokensTooHigh,
    /// A signature in a thinking block is invalid here.
    ThinkingSignature,
    /// Another 4xx, a redirect, a certificate fault: trying again would not help.
    Invalid,
    /// The answer is not what the protocol says.
    Protocol,
    /// The cassette has no (matching) answer.
    Cassette,
    /// The request was cancelled by us.
    Cancelled,
}

/// What a failed request may have cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Billing {
    /// It was never sent, or refused with an error status of the provider's own: nothing.
    Nothing,
    /// It was sent and its final usage is not known, be it that the answer broke off or that a gateway
    /// gave up waiting for it; what was reported until then.
    Unknown(Usage),
}

/// A request that got no complete reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What went wrong.
    pub kind: FailureKind,
    /// The HTTP status, when there was one other than 200.
    pub status: Option<u16>,
    /// The whole message for a person: what was tried on what, then the cause.
    pub message: String,
    /// How long the server asks to wait (`retry-after-ms`, then `retry-after`).
    pub retry_after: Option<Duration>,
    /// `x-should-retry`, when the server sent it.
    pub should_retry: Option<bool>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// What it may have cost.
    pub billing: Billing,
    /// Whether part of a reply had arrived, which is now discarded.
    pub had_output: bool,
}

impl Failure {
    /// A failure that cost nothing and about which nothing more is known.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            message: message.into(),
            retry_after: None,
            should_retry: None,
            request_id: None,
            billing: Billing::Nothing,
            had_output: false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl FailureKind {
    /// The category in `api_retry` events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::IdleTimeout => "idle_timeout",
            Self::Truncated => "truncated",
            Self::Server => "server",
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::SpendLimit => "spend_limit",
            Self::Authentication => "authentication",
            Self::PromptTooLong => "prompt_too_long",
            Self::MaxTokensTooHigh => "max_tokens_too_high",
            Self::ThinkingSignature => "thinking_signature",
            Self::Invalid => "invalid_request",
            Self::Protocol => "protocol",
            Self::Cassette => "cassette",
            Self::Cancelled => "cancelled",
        }
    }
}
