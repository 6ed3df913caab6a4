//! The job file: YAML in, checked [`Job`]s or a list of [`Diagnostic`]s out.
//!
//! Reads files and environment only through [`Source`], which `cli` hands in, so that all of
//! validation is tested without a disk.

mod diagnostic;
#[expect(
    clippy::module_inception,
    reason = "the room's subject is the job, and so is this file's"
)]
mod job;

pub use diagnostic::{Diagnostic, Severity};
pub use job::{Check, Env, Job, Limits, Matching, ModelChoice, ModelFacts, OnDenied, Prompt};
