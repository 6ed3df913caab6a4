//! The query loop as a pure machine: what the world says goes in, what is asked of the world comes out.
//!
//! [`Machine::step`] is the whole loop. It knows no clock, file, socket or await, no tool, no price and
//! no provider: time is an argument, chance a seed, and equal inputs give equal transitions.
//!
//! Three words that must not blur: an [`Input`] is what the world told the machine, an [`Effect`] what
//! the machine asks of the world, a [`Notice`] a line that the transcript should have beside the inputs.

mod failure;
mod history;
mod machine;
mod queue;
mod reply;
mod retry;
mod state;
mod transition;

#[cfg(test)]
mod tests;

pub use history::History;
pub use machine::{Machine, Step, UnexpectedInput};
pub use retry::delay as retry_delay;
pub use state::{
    CallDecision, CheckFailure, Denial, Effect, End, HookEvent, HooksOutcome, Input, Notice,
    Purpose, Settings, State, Timer,
};
pub use transition::Transition;
