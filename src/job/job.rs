//! What was asked, checked and merged: nothing is left undecided, every path is absolute.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::models::{Price, Usd};
use crate::policy::Policy;

use super::diagnostic::Diagnostic;

/// One job file.
#[derive(Clone, Debug)]
pub struct Job {
    /// `name`, or the file's stem; unique in a run.
    pub name: String,
    /// `description`.
    pub description: Option<String>,
    /// The job file as it was named on the command line.
    pub file: PathBuf,
    /// Digest of the job file's bytes, `sha256:` and hex.
    pub digest: String,
    /// The prompts, in order; at least one.
    pub prompts: Vec<Prompt>,
    /// What validation found that is no error.
    pub warnings: Vec<Diagnostic>,
}

/// One prompt with everything that holds for it.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// Unique in the job, `[A-Za-z0-9._-]{1,64}`.
    pub id: String,
    /// Line of the prompt in the job file, from 1.
    pub line: u32,
    /// What is asked.
    pub text: String,
    /// Who is asked.
    pub model: ModelChoice,
    /// The whole system prompt; `None` for the built-in text.
    pub system: Option<String>,
    /// `append_system`.
    pub append_system: Option<String>,
    /// What is allowed, with the workspace's root and the protected paths.
    pub policy: Arc<Policy>,
    /// What a denied call leads to.
    pub on_denied: OnDenied,
    /// The most turns.
    pub max_turns: u32,
    /// Hard cap; `None` only where nothing can be spent.
    pub max_budget: Option<Usd>,
    /// Wall clock.
    pub timeout: Duration,
    /// The directory the tools work in, absolute, links resolved; it exists.
    pub workspace: PathBuf,
    /// Environment of whatever the runner starts.
    pub env: Env,
    /// What is asked after the loop.
    pub checks: Vec<Check>,
    /// Tries and waits.
    pub limits: Limits,
}

/// Who answers a prompt.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelChoice {
    /// The Messages API.
    Anthropic(ModelFacts),
    /// A cassette: a directory that `--record` wrote, or one hand-written YAML file. Absolute; it exists.
    Replay {
        /// Where it is.
        path: PathBuf,
        /// How requests find their answers.
        matching: Matching,
    },
}

/// A model's id, limits and price, `providers` of the job file applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFacts {
    /// The id on the wire.
    pub id: String,
    /// Input and output together, in tokens.
    pub context_window: Option<u64>,
    /// The most tokens a reply may have.
    pub max_output: Option<u64>,
    /// What it costs.
    pub price: Price,
}

/// How the requests of a replayed conversation find their answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Matching {
    /// A request must be the recorded one.
    #[default]
    Strict,
    /// The next answer is taken, whatever is asked.
    Order,
}

/// `on_denied`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDenied {
    /// The model is told and goes on; the prompt ends as failed.
    #[default]
    Fail,
    /// The model is told and goes on; the call is only listed.
    Warn,
    /// The loop ends at once.
    Stop,
}

/// `env`: what is passed on beside the names that always are, and what is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Env {
    /// Names to pass on from the runner's own environment.
    pub pass: Vec<String>,
    /// Names and values to set.
    pub set: Vec<(String, String)>,
}

/// A check of the command kind: it passes when the command exits with 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// `check-1`…, in order.
    pub id: String,
    /// Line in the job file, from 1.
    pub line: u32,
    /// Run by bash in the workspace.
    pub command: String,
    /// Killed after this; 10 minutes unless the check says otherwise.
    pub timeout: Duration,
}

/// `limits`, as far as they are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How often a request is tried in all; 10.
    pub attempts: u32,
    /// No byte for this long is a fault; 90 s.
    pub idle_timeout: Duration,
    /// Read-only calls that run side by side; 10.
    pub parallel_tools: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            attempts: 10,
            idle_timeout: Duration::from_secs(90),
            parallel_tools: 10,
        }
    }
}
