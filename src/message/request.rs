//! What is asked of a provider and what it answers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{Block, Message, ToolUse, Usage};

/// Number of a request within its conversation, from 1. Every answer carries its request's number,
/// so that the answer to a discarded request is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestNumber(pub u32);

impl fmt::Display for RequestNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A tool as the model is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema, `type: object`.
    pub input_schema: Value,
}

/// What every request of a conversation begins with; it never changes, so the provider's cache holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// The model's id on the wire.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The tools on offer, sorted by name.
    pub tools: Vec<ToolSpec>,
}

/// Where a block stands in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPosition {
    /// Index of the message.
    pub message: usize,
    /// Index of the block in it.
    pub block: usize,
}

/// One request to a model.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its number in the conversation.
    pub number: RequestNumber,
    /// System prompt, tools, model.
    pub head: Arc<Head>,
    /// The most tokens the reply may have.
    pub max_tokens: u64,
    /// The conversation so far; calls and results are paired.
    pub messages: Vec<Arc<Message>>,
    /// Blocks after which the provider may cache, at most three (the head is the fourth).
    pub breakpoints: Vec<BlockPosition>,
}

/// The API's own reason why a reply ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiStopReason {
    /// The model was done.
    EndTurn,
    /// The model wants tools run.
    ToolUse,
    /// The output limit was reached.
    MaxTokens,
    /// A stop sequence was produced.
    StopSequence,
    /// A server tool wants to go on.
    PauseTurn,
    /// The model or a classifier declined.
    Refusal,
    /// The window is full.
    ModelContextWindowExceeded,
    /// One we do not know; treated as the end of the reply.
    Other(String),
}

impl ApiStopReason {
    /// From the name on the wire.
    pub fn from_name(name: &str) -> Self {
        match name {
            "end_turn" => Self::EndTurn,
            "tool_use" => Self::ToolUse,
            "max_tokens" => Self::MaxTokens,
            "stop_sequence" => Self::StopSequence,
            "pause_turn" => Self::PauseTurn,
            "refusal" => Self::Refusal,
            "model_context_window_exceeded" => Self::ModelContextWindowExceeded,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The name on the wire.
    pub fn name(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::PauseTurn => "pause_turn",
            Self::Refusal => "refusal",
            Self::ModelContextWindowExceeded => "model_context_window_exceeded",
            Self::Other(name) => name,
        }
    }
}

/// A complete reply: the stream's `message_stop` was seen, and a stop reason or a call before it.
///
/// Empty and repeated `tool_use` ids have been replaced, in `blocks` and in `calls` alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The provider's id of the message, if it gave one.
    pub id: Option<String>,
    /// The provider's id of the request (`request-id` header), if it gave one.
    pub request_id: Option<String>,
    /// The model that answered; may differ from the one that was asked.
    pub model: String,
    /// The content in the bytes in which it goes back.
    pub blocks: Vec<Block>,
    /// The calls among them, in order.
    pub calls: Vec<ToolUse>,
    /// The visible text, all text blocks joined.
    pub text: String,
    /// The API's stop reason; `None` when the server gave none, which only a reply with calls may.
    pub stop_reason: Option<ApiStopReason>,
    /// `stop_details` as it came: why the model refused.
    pub stop_details: Value,
    /// Usage as far as it was reported.
    pub usage: Usage,
    /// Whether the provider reported input and final output tokens, so that the reply can be priced.
    pub usage_is_final: bool,
    /// Things worth a line in the record, such as `input_transformations` or an unknown stop reason.
    pub warnings: Vec<String>,
    /// From sending the request to the end of the reply.
    pub duration: Duration,
}
