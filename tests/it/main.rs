//! Tests from outside: one binary, a file a subject.

#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails, fails its test; clippy knows only the tests themselves"
)]

mod action;
mod architecture;
mod attacks;
mod cases;
mod cases_conversation;
mod cases_ending;
mod cases_job_file;
mod cases_policy;
mod cases_reports;
mod cases_stream;
mod cases_tools;
mod cli;
mod job_files;
mod jobs;
mod many;
mod program;
mod provider;
mod readme;
mod requests;
mod runs;
mod scenarios;
mod server;
mod slow_readers;
mod workflow;
mod xml;
