//! Tests from outside: one binary, a file a subject.

#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails, fails its test; clippy knows only the tests themselves"
)]

mod action;
mod architecture;
mod cli;
mod job_files;
mod jobs;
mod program;
mod provider;
mod readme;
mod requests;
mod scenarios;
mod server;
mod workflow;
