//! Processes that end when they should.
//!
//! In goes a [`ProcessSpec`], out comes how it ended and what it wrote, in bounded memory and within its
//! time limit, whatever the program does. [`child_environment`] says what a program of the model gets to
//! see of the runner's environment, [`find_bash`] which shell runs commands, and [`end_children`] ends them
//! all when the runner leaves at once. Knows nothing of tools, rules or conversations; confines nothing yet.

mod bash;
mod cancel;
mod capture;
mod children;
mod environment;
mod process;
mod survivors;

pub use bash::find_bash;
pub use cancel::Cancel;
pub use capture::{Captured, OutputCap};
pub use children::end_children;
pub use environment::child_environment;
pub use process::{Ending, Finished, ProcessSpec, run};
