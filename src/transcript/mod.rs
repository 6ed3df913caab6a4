//! What happened: written first, acted on after.

mod event;

pub use event::{
    CheckResult, Event, EventBody, Init, JobStarted, Permission, PromptKey, PromptPlanned,
    PromptResult, RunStarted, Scope, ScopedEvent,
};
