//! Witnesses: folds over events, nothing else.
//!
//! Events go in; files, lines and bars come out. Live or from a transcript, equal events give equal
//! reports. What foreign text says is shown, never obeyed: it breaks no format and issues no command.
//! This room changes nothing in a run and never asks what to do next.
#![warn(clippy::wildcard_enum_match_arm)]

mod foreign;
mod github;
mod junit;
mod lines;
mod markdown;
mod narrator;
mod progress;
mod record;
mod recorder;
mod run_json;
#[cfg(test)]
mod sample;
mod sentences;
mod text;
mod wording;
mod write;

pub use github::{Level, annotation, annotations, neutralise};
pub use junit::junit;
pub use lines::Lines;
pub use markdown::markdown;
pub use narrator::{Reports, Verbosity};
pub use progress::Progress;
pub use record::{CheckRecord, Counts, JobRecord, PromptRecord, RunRecord};
pub use recorder::Recorder;
pub use run_json::{RunDocument, SCHEMA_VERSION, run_json};
pub use text::text;
pub use write::write_all;
