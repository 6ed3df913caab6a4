//! The conductor: does what the query loop asks for.
//!
//! A [`Plan`] goes in, events come out through a channel, and the exit code at the end. `schedule` starts
//! the prompts, `prompt` runs one conversation, `hands` is the only place where a conversation waits, and
//! `authorize` the only way from a call to a permit. This room knows no report and no argument.

mod authorize;
mod checks;
mod clock;
mod hands;
mod kit;
mod prefix;
mod prompt;
mod purse;
mod record;
mod schedule;
mod select;
mod signal;
mod system;
mod turn_room;

pub use authorize::PathsOnDisk;
pub use clock::Clock;
pub use kit::{RUNS, Shared};
pub use prefix::PrefixGate;
pub use schedule::{Plan, PlannedJob, execute};
pub use select::{BadPattern, Selection};
pub use signal::{EndingSignal, listen};
