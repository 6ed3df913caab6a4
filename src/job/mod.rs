//! The job file: YAML in, checked [`Job`]s or a list of [`Diagnostic`]s out.
//!
//! On the way: text, tree (`node`, every value with its place), `File` (what was written), `Job` (what
//! holds). A fault is noted and the reading goes on, so that all are told at once; only what is no YAML,
//! or too large or too deep, ends it. A key that is known and not built is a fault, never ignored.
//!
//! Reads files and environment only through [`Source`], which `cli` hands in, so that all of
//! validation is tested without a disk. Knows nothing of how anything is run.

mod diagnostic;
mod env;
mod fault;
mod file;
#[expect(
    clippy::module_inception,
    reason = "the room's subject is the job, and so is this file's"
)]
mod job;
mod keys;
mod load;
mod locate;
mod model;
mod node;
mod parse;
mod prompt;
mod providers;
mod resolve;
mod rules;
mod settings;
mod source;
mod syntax;
mod value;
mod walk;
mod warnings;

pub use diagnostic::{Diagnostic, Severity, render};
pub use job::{Check, Env, Job, Limits, Matching, ModelChoice, ModelFacts, OnDenied, Prompt};
pub use load::{digest, load, load_all};
pub use source::{Overrides, Source};
