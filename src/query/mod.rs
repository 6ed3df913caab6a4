//! The query loop as a pure machine: what the world says goes in, what is asked of the world comes out.

mod state;
mod transition;

pub use state::{
    CallDecision, CheckFailure, Denial, Effect, End, HookEvent, HooksOutcome, Input, Notice,
    Purpose, Settings, Timer,
};
pub use transition::Transition;
