//! A run as reports tell of it: what every format is made from.

use std::path::PathBuf;
use std::time::Duration;

use time::OffsetDateTime;
use uuid::Uuid;

use crate::message::Usage;
use crate::models::Usd;
use crate::query::Denial;
use crate::stop::{Outcome, StopReason, exit};

/// One run, as far as reports tell of it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// UUID version 7.
    pub run_id: Uuid,
    /// The program's version.
    pub version: String,
    /// Where it wrote.
    pub output: PathBuf,
    /// The machine's name.
    pub hostname: String,
    /// When it began, UTC.
    pub started_at: OffsetDateTime,
    /// How long it took, by a steady clock.
    pub duration: Duration,
    /// The exit code.
    pub exit_code: u8,
    /// The signal that ended it, if one did.
    pub signal: Option<String>,
    /// How many prompts ran side by side.
    pub concurrency: usize,
    /// Warnings that belong to no prompt.
    pub warnings: Vec<String>,
    /// The jobs, in order.
    pub jobs: Vec<JobRecord>,
}

/// One job of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRecord {
    /// Its name.
    pub name: String,
    /// Its file as it was named.
    pub file: String,
    /// Digest of the file.
    pub digest: String,
    /// Its prompts, in order.
    pub prompts: Vec<PromptRecord>,
}

/// One prompt, whether it ran or not.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptRecord {
    /// Its id.
    pub id: String,
    /// Its line in the job file.
    pub line: u32,
    /// Its model as reports name it.
    pub model: String,
    /// Its turn limit.
    pub max_turns: u32,
    /// Its cap.
    pub max_budget: Option<Usd>,
    /// The conversation's id; `None` when there was none.
    pub session_id: Option<Uuid>,
    /// When it began; `None` when it did not.
    pub started_at: Option<OffsetDateTime>,
    /// Whether it did its work.
    pub outcome: Outcome,
    /// The stop reason, or what was found after the loop.
    pub reason: String,
    /// Why the loop ended.
    pub stop_reason: StopReason,
    /// The API's last stop reason.
    pub api_stop_reason: Option<String>,
    /// Why it did not pass, for a person; empty only when it passed.
    pub message: String,
    /// The last visible text of the model; empty when there was none.
    pub result: String,
    /// Turns taken.
    pub num_turns: u32,
    /// Requests sent, retries included.
    pub requests: u32,
    /// Requests that were tried again.
    pub retries: u32,
    /// What replies cost; `None` when the model has no price.
    pub cost: Option<Usd>,
    /// What attempts without a final usage may have cost, at most.
    pub unsettled: Usd,
    /// All tokens.
    pub usage: Usage,
    /// From start to end, checks included.
    pub duration: Duration,
    /// Of that, waiting for the provider.
    pub duration_api: Duration,
    /// Denied calls.
    pub denials: Vec<Denial>,
    /// Checks that ran.
    pub checks: Vec<CheckRecord>,
    /// What a person should know.
    pub warnings: Vec<String>,
    /// What held what the model's commands may do.
    pub sandbox: String,
    /// Digest of the rules; empty when the conversation never began.
    pub policy_digest: String,
    /// Its transcript, relative to the output directory; `None` when there is none.
    pub transcript: Option<String>,
}

/// One check that ran.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckRecord {
    /// `check-1`….
    pub id: String,
    /// Line in the job file.
    pub line: u32,
    /// The command.
    pub command: String,
    /// Whether it exited with 0.
    pub passed: bool,
    /// What was wrong; empty when it passed.
    pub message: String,
    /// The end of its output.
    pub output: String,
    /// How long it took.
    pub duration: Duration,
}

/// How many prompts ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Did their work.
    pub passed: usize,
    /// Did not.
    pub failed: usize,
    /// Could not be told.
    pub errored: usize,
    /// Never started.
    pub skipped: usize,
}

impl Counts {
    /// Counts outcomes.
    pub fn of(outcomes: impl IntoIterator<Item = Outcome>) -> Self {
        let mut counts = Self::default();
        for outcome in outcomes {
            match outcome {
                Outcome::Passed => counts.passed += 1,
                Outcome::Failed => counts.failed += 1,
                Outcome::Errored => counts.errored += 1,
                Outcome::Skipped => counts.skipped += 1,
            }
        }
        counts
    }

    /// All of them.
    pub fn all(self) -> usize {
        self.passed + self.failed + self.errored + self.skipped
    }

    /// The outcome of the whole, by the same order as the exit code: failed before errored, and what
    /// did not run counts as failed.
    pub fn outcome(self) -> Outcome {
        if self.failed + self.skipped > 0 {
            Outcome::Failed
        } else if self.errored > 0 {
            Outcome::Errored
        } else {
            Outcome::Passed
        }
    }
}

impl RunRecord {
    /// All prompts with their jobs.
    pub fn prompts(&self) -> impl Iterator<Item = (&JobRecord, &PromptRecord)> {
        self.jobs
            .iter()
            .flat_map(|job| job.prompts.iter().map(move |prompt| (job, prompt)))
    }

    /// How many prompts ended how.
    pub fn counts(&self) -> Counts {
        Counts::of(self.prompts().map(|(_, prompt)| prompt.outcome))
    }

    /// The outcome of the run. Never passed when the exit code says otherwise.
    pub fn outcome(&self) -> Outcome {
        let outcome = self.counts().outcome();
        if outcome == Outcome::Passed && self.exit_code != exit::PASSED {
            return Outcome::Errored;
        }
        outcome
    }

    /// What all replies cost; `None` when the price of some is not known.
    pub fn cost(&self) -> Option<Usd> {
        self.prompts().map(|(_, prompt)| prompt.cost).sum()
    }

    /// What attempts without a final usage may have cost, at most.
    pub fn unsettled(&self) -> Usd {
        self.prompts().map(|(_, prompt)| prompt.unsettled).sum()
    }
}

impl JobRecord {
    /// How many prompts ended how.
    pub fn counts(&self) -> Counts {
        Counts::of(self.prompts.iter().map(|prompt| prompt.outcome))
    }
}
