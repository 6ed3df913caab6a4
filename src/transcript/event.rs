//! What happened: the one enum that feeds transcript, reports and terminal.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::message::{Block, Failure, Head, Reply, RequestNumber, ToolResult, ToolUse, Usage};
use crate::models::Usd;
use crate::policy::Place;
use crate::query::{Denial, Notice, Purpose};
use crate::stop::{Outcome, Stop};

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Event {
    /// Unique.
    pub id: Uuid,
    /// When, UTC.
    pub at: OffsetDateTime,
    /// Since the run began, by a steady clock.
    pub elapsed: Duration,
    /// What.
    pub body: EventBody,
}

/// Which prompt an event belongs to: index of the job in the run, index of the prompt in the job's
/// selected prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PromptKey {
    /// Index into [`RunStarted::jobs`].
    pub job: usize,
    /// Index into [`JobStarted::prompts`].
    pub prompt: usize,
}

/// Who an event belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole run; not part of any transcript.
    Run,
    /// One prompt; a line of its transcript unless it is for the eye alone.
    Prompt(PromptKey),
}

/// What reporters receive.
#[derive(Clone, Debug)]
pub struct ScopedEvent {
    /// Whose.
    pub scope: Scope,
    /// What.
    pub event: Arc<Event>,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum EventBody {
    /// First event of a run.
    RunStarted(RunStarted),
    /// Last event of a run.
    RunEnded {
        /// The exit code.
        exit_code: u8,
        /// The signal that ended it, if one did.
        signal: Option<&'static str>,
    },
    /// First event of a prompt.
    Init(Init),
    /// A message of the runner: the prompt itself (`is_synthetic: false`) or a reminder.
    User {
        /// Its content.
        blocks: Vec<Block>,
        /// Whether the job file did not say it.
        is_synthetic: bool,
    },
    /// A request is about to be sent; its worst case is reserved.
    RequestSent {
        /// Its number.
        request: RequestNumber,
        /// What for.
        purpose: Purpose,
        /// The most output tokens.
        max_tokens: u64,
        /// The most input tokens it can cost.
        input_bound: u64,
        /// Messages in it.
        messages: usize,
        /// What is reserved for it.
        reserved: Usd,
    },
    /// A whole reply entered the history.
    Assistant {
        /// The request it answers.
        request: RequestNumber,
        /// The reply.
        reply: Arc<Reply>,
        /// The turn, from 1.
        turn: u32,
        /// What it cost.
        cost: Usd,
    },
    /// A request got no whole reply.
    RequestFailed {
        /// Its number.
        request: RequestNumber,
        /// How it failed.
        failure: Failure,
        /// What it may have cost.
        unsettled: Usd,
    },
    /// The policy has judged a call.
    Permission(Permission),
    /// A call has its answer.
    ToolResult {
        /// The answer.
        result: ToolResult,
        /// The tool's name.
        tool_name: String,
        /// Notes of the rules that allowed it.
        notes: Vec<String>,
        /// Event id of the assistant message that asked.
        assistant: Uuid,
        /// How long the tool ran.
        duration: Duration,
    },
    /// A check has run.
    Check(CheckResult),
    /// What the machine says beside.
    Notice(Notice),
    /// Something a person should know.
    Warning {
        /// What.
        message: String,
    },
    /// Last event of a prompt.
    Result(PromptResult),
    /// A piece of visible text as it streams; for the eye alone.
    TextDelta {
        /// The piece.
        text: String,
    },
}

impl EventBody {
    /// Whether the event is shown and then forgotten: no line of a transcript.
    pub fn is_for_the_eye_alone(&self) -> bool {
        matches!(self, Self::TextDelta { .. })
    }
}

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct RunStarted {
    /// UUID version 7.
    pub run_id: Uuid,
    /// The program's version.
    pub version: &'static str,
    /// Where it writes.
    pub output: PathBuf,
    /// The machine's name.
    pub hostname: String,
    /// The jobs with their selected prompts.
    pub jobs: Vec<JobStarted>,
    /// How many prompts run side by side.
    pub concurrency: usize,
}

/// One job of a run.
#[derive(Clone, Debug)]
pub struct JobStarted {
    /// Its name.
    pub name: String,
    /// Its file as it was named.
    pub file: String,
    /// Digest of the file.
    pub digest: String,
    /// The selected prompts.
    pub prompts: Vec<PromptPlanned>,
}

/// One prompt of a run, before it starts.
#[derive(Clone, Debug)]
pub struct PromptPlanned {
    /// Its id.
    pub id: String,
    /// Its line in the job file.
    pub line: u32,
    /// Its model as reports name it, such as `anthropic/claude-sonnet-5-5`.
    pub model: String,
    /// Its turn limit.
    pub max_turns: u32,
    /// Its cap.
    pub max_budget: Option<Usd>,
    /// Where its transcript is, relative to the output directory: `JOB/PROMPT/transcript.jsonl`.
    pub transcript: String,
}

/// What a conversation starts from, recorded whole.
#[derive(Clone, Debug)]
pub struct Init {
    /// The conversation's id.
    pub session_id: Uuid,
    /// The workspace.
    pub cwd: PathBuf,
    /// System prompt, tools, model on the wire.
    pub head: Arc<Head>,
    /// As reports name it.
    pub model: String,
    /// Where the key comes from (`ANTHROPIC_API_KEY`, `ANTHROPIC_AUTH_TOKEN`, `none`), never the key.
    pub api_key_source: &'static str,
    /// What holds what the model's commands may do: `none` until a sandbox is built.
    pub sandbox: &'static str,
    /// Digest of the rules.
    pub policy_digest: String,
    /// The program's version.
    pub version: &'static str,
}

/// One decision of the policy.
#[derive(Clone, Debug)]
pub struct Permission {
    /// The call as the model asked for it.
    pub call: ToolUse,
    /// Absolute paths and resolved links, as the policy saw them; `null` where there are none.
    pub derived: Value,
    /// `None`: it may run. Otherwise why not.
    pub denial: Option<Denial>,
    /// The rule that decided, as it is written.
    pub rule: Option<String>,
    /// Where that rule stands.
    pub place: Option<Place>,
    /// Why, for a person.
    pub reason: String,
}

/// One check.
#[derive(Clone, Debug)]
pub struct CheckResult {
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

/// The sum of a conversation.
#[derive(Clone, Debug)]
pub struct PromptResult {
    /// Why it ended and what was found.
    pub stop: Stop,
    /// The last visible text of the model; empty when there was none.
    pub text: String,
    /// Turns taken.
    pub num_turns: u32,
    /// Requests sent, retries included.
    pub requests: u32,
    /// What replies cost; `None` when the model has no price.
    pub cost: Option<Usd>,
    /// What attempts without a final usage may have cost, at most.
    pub unsettled: Usd,
    /// All tokens.
    pub usage: Usage,
    /// The API's last stop reason.
    pub api_stop_reason: Option<String>,
    /// From start to end, by a steady clock.
    pub duration: Duration,
    /// Of that, waiting for the provider.
    pub duration_api: Duration,
    /// Denied calls.
    pub denials: Vec<Denial>,
}

impl PromptResult {
    /// The outcome.
    pub fn outcome(&self) -> Outcome {
        self.stop.outcome()
    }
}
