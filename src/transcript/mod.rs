//! What happened: written first, acted on after.
//!
//! Events go in; lines of `transcript.jsonl` come out, secrets masked, on disk before anybody acts on
//! them, and the same events go on to whoever watches. The shapes on disk are those of Claude Code's
//! stream-json where it has one. This room decides nothing, makes no events and knows no report.

mod atomic;
mod event;
mod journal;
mod redact;
mod stream_json;

pub use atomic::write_atomically;
pub use event::{
    CheckResult, Event, EventBody, Init, JobStarted, Permission, PromptKey, PromptPlanned,
    PromptResult, RunStarted, Scope, ScopedEvent,
};
pub use journal::{Journal, path_name};
pub use redact::Redactor;
pub use stream_json::{stream_json_line, timestamp};
