//! Processes that end when they should.
//!
//! In goes a [`ProcessSpec`], out comes how it ended and what it wrote, in bounded memory and within its
//! time limit, whatever the program does. [`child_environment`] says what a program of the model gets to
//! see of the runner's environment, [`find_bash`] which shell runs commands. Knows nothing of tools, rules or conversations; confines nothing yet.

mod bash;
mod cancel;
mod capture;
mod environment;
mod process;
mod survivors;

pub use bash::find_bash;
pub use cancel::Cancel;
pub use capture::{Captured, OutputCap};
pub use environment::child_environment;
pub use process::{Ending, Finished, ProcessSpec, run};
