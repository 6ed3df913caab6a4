//! What passes between the loop, the provider and the tools: messages, requests, replies, failures.
//!
//! A [`Block`] is held once, in the bytes in which it is sent, so that what was sent never changes and
//! a request is assembled from parts instead of being serialised again. This room imports nothing of
//! the crate and knows no provider: the block format is that of the Messages API, into which every
//! provider translates.

mod block;
mod failure;
mod request;
mod tool;
mod usage;

pub use block::{Block, BlockKind, Message, Role};
pub use failure::{Billing, Failure, FailureKind};
pub use request::{ApiStopReason, BlockPosition, Head, Reply, Request, RequestNumber, ToolSpec};
pub use tool::{ResultContent, ToolInput, ToolResult, ToolUse, clean_text};
pub use usage::Usage;
