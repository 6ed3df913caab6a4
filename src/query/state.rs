//! The alphabet of the loop: settings, inputs, effects, notices, states.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::message::{Failure, Head, Reply, Request, RequestNumber, ToolResult, ToolUse};
use crate::stop::Stop;

use super::transition::Transition;

/// What the loop is told before it starts and what never changes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// System prompt, tools, model.
    pub head: Arc<Head>,
    /// The most turns.
    pub max_turns: u32,
    /// The most tokens a reply may have.
    pub max_output_tokens: u64,
    /// `max_tokens` may be lowered to fit the budget, but not below this.
    pub max_tokens_floor: u64,
    /// Wall clock of the prompt, from `Started`.
    pub timeout: Duration,
    /// How often a request is tried in all.
    pub attempts: u32,
    /// How often when the provider is overloaded.
    pub overloaded_attempts: u32,
    /// Read-only calls that may run side by side.
    pub parallel_tools: usize,
    /// Whether a denied call ends the loop at once (`on_denied: stop`).
    pub stop_on_denied: bool,
    /// Whether a denied call fails a prompt that otherwise completed (`on_denied: fail`).
    pub fail_on_denied: bool,
    /// Whether there are checks to run after a final reply.
    pub has_checks: bool,
    /// Seed of the retry jitter.
    pub seed: u64,
}

/// What the world told the machine.
///
/// Answers carry the number of their request; those to a discarded request are dropped.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Everything is set up; the first user message.
    Started {
        /// The prompt's text.
        prompt: String,
    },
    /// Something the prompt needs could not be set up.
    SetupFailed {
        /// What and why.
        message: String,
    },
    /// Money is reserved and the request is on its way.
    Sent {
        /// Which request.
        request: RequestNumber,
        /// The output limit it was sent with, possibly lowered to fit the budget.
        max_tokens: u64,
    },
    /// The request does not fit the budget and was not sent.
    BudgetRefused {
        /// Which request.
        request: RequestNumber,
        /// Spent, cap, and what it could have cost.
        message: String,
    },
    /// A whole reply.
    ReplyComplete {
        /// Which request it answers.
        request: RequestNumber,
        /// The reply.
        reply: Arc<Reply>,
        /// What to say when the reply cost more than the budget had left, which only a provider can
        /// bring about that bills more than was asked for.
        overspent: Option<String>,
    },
    /// No whole reply.
    RequestFailed {
        /// Which request failed.
        request: RequestNumber,
        /// How.
        failure: Failure,
    },
    /// The policy has spoken.
    CallDecided {
        /// The request whose reply asked for the call.
        request: RequestNumber,
        /// Which call.
        tool_use_id: String,
        /// What was decided.
        decision: CallDecision,
    },
    /// A call has its answer.
    CallDone {
        /// The request whose reply asked for the call.
        request: RequestNumber,
        /// The answer.
        result: ToolResult,
        /// Notes of the rules that allowed it, for the model.
        notes: Vec<String>,
    },
    /// The hooks of an event have answered.
    HooksDone {
        /// Which event.
        event: HookEvent,
        /// What they said together.
        outcome: HooksOutcome,
    },
    /// All checks have run.
    ChecksDone {
        /// The ones that did not pass.
        failures: Vec<CheckFailure>,
    },
    /// A timer went off.
    TimerFired(Timer),
    /// The world ends the conversation.
    Ended(End),
}

/// What the policy said of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallDecision {
    /// It may run.
    Allowed {
        /// Whether it only reads, so that others may run beside it.
        is_read_only: bool,
    },
    /// It may not; the model is told why.
    Denied(Denial),
    /// It was not judged, for it is no call of a known tool with good arguments: the answer is ready.
    Answered(ToolResult),
}

/// A denied call, as reports list it.
#[derive(Clone, Debug, PartialEq)]
pub struct Denial {
    /// The tool.
    pub tool_name: String,
    /// The call.
    pub tool_use_id: String,
    /// Its arguments.
    pub tool_input: Value,
    /// The deny rule, if one decided; else `None`: nothing allowed it.
    pub rule: Option<String>,
    /// Why, for a person and for the model.
    pub reason: String,
    /// A rule that would allow it.
    pub would_allow: Option<String>,
}

/// A check that did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFailure {
    /// Its id, `check-1`….
    pub id: String,
    /// What was wrong.
    pub message: String,
}

/// Hook events that decide how the loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookEvent {
    /// Asked when a reply is final.
    Stop,
    /// Asked when a prompt is done.
    TaskCompleted,
    /// Asked before compaction.
    PreCompact,
}

/// What the hooks of one event said together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HooksOutcome {
    /// Content.
    Pass,
    /// Not content; the reasons go to the model.
    Block {
        /// One a hook.
        reasons: Vec<String>,
    },
    /// `continue: false`.
    Prevent {
        /// The hook's own reason.
        reason: String,
    },
    /// A hook could not be run.
    Error {
        /// Its standard error.
        message: String,
    },
}

/// Timers of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// The next attempt is due.
    Retry,
    /// The prompt's wall clock ran out.
    Deadline,
}

/// Who ended the conversation from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A signal, by name.
    Signal(&'static str),
    /// The transcript cannot be written.
    RecordFailed(String),
    /// A fault of ours.
    Fault(String),
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A turn.
    Main,
    /// A summary of the conversation.
    Summary,
    /// The last words at a limit.
    WindDown,
}

/// What the machine asks of the world.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Reserve money and send; the answer is `Sent` or `BudgetRefused`, then `ReplyComplete` or `RequestFailed`.
    Send {
        /// What for.
        purpose: Purpose,
        /// The request; its `max_tokens` is what is wished for.
        request: Request,
        /// The most input tokens it can cost.
        input_bound: u64,
        /// `max_tokens` may be lowered to fit the budget, but not below this.
        max_tokens_floor: u64,
    },
    /// Nobody waits for this request any more.
    Discard {
        /// Which.
        request: RequestNumber,
    },
    /// Ask the policy; the answer is `CallDecided`.
    Authorize {
        /// The request whose reply asked for the call.
        request: RequestNumber,
        /// The call.
        call: ToolUse,
    },
    /// Run an allowed call; the answer is `CallDone`.
    Run {
        /// The request whose reply asked for the call.
        request: RequestNumber,
        /// Which call; the hands hold its permit.
        tool_use_id: String,
    },
    /// Run the hooks of an event; the answer is `HooksDone`.
    RunHooks(HookEvent),
    /// Run the checks; the answer is `ChecksDone`.
    RunChecks,
    /// Let a timer go off at a point in time.
    SetTimer {
        /// Which.
        timer: Timer,
        /// When, on the clock of `step`.
        at: Duration,
    },
    /// End whatever is still running.
    CancelAll,
}

/// What the transcript should say beside inputs: a line each.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// The loop goes round again.
    Transition {
        /// Why.
        why: Transition,
        /// The turn that begins.
        turn: u32,
    },
    /// A request will be tried again.
    Retry {
        /// The attempt that failed, from 1.
        attempt: u32,
        /// The most attempts.
        max_retries: u32,
        /// How long until the next.
        delay: Duration,
        /// What went wrong.
        failure: Failure,
    },
    /// Part of a reply was thrown away.
    Tombstone {
        /// Whose reply.
        request: RequestNumber,
    },
    /// An answer came for a request that nobody waits for.
    Dropped {
        /// Which request.
        request: RequestNumber,
    },
    /// A call that did not run has its answer from the loop: it was denied, its arguments were bad, or
    /// the conversation ended before it could run.
    Filled {
        /// The tool's name.
        tool_name: String,
        /// The answer.
        result: ToolResult,
    },
    /// The turn limit was reached.
    MaxTurnsReached {
        /// The limit.
        max_turns: u32,
        /// Turns taken.
        turn_count: u32,
    },
    /// A message that nobody said, so that a transcript ends with an answer: the error that ended it.
    SyntheticError {
        /// The error.
        message: String,
    },
    /// Something a person should know.
    Warning {
        /// What.
        message: String,
    },
    /// The end.
    Stopped(Stop),
}

/// Where the loop stands.
///
/// `StopHooks`, `TaskHooks`, `Compacting` and `WindingDown` are laid out for the recoveries and hooks
/// that enter them; until then nothing does, and an input that meets one is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing was sent yet.
    Starting,
    /// A request is out.
    Requesting {
        /// Which.
        request: RequestNumber,
    },
    /// The next attempt waits for its time.
    Waiting,
    /// Calls of a reply are judged and run.
    RunningTools {
        /// The request whose reply asked for them.
        request: RequestNumber,
    },
    /// A summary is being made.
    Compacting,
    /// Stop hooks are asked.
    StopHooks,
    /// `TaskCompleted` hooks are asked.
    TaskHooks,
    /// Checks are running.
    Checking,
    /// The last words at a limit.
    WindingDown,
    /// Over.
    Stopped,
}

impl Input {
    /// The request that this answers, if it answers one.
    pub fn request(&self) -> Option<RequestNumber> {
        match self {
            Self::Sent { request, .. }
            | Self::BudgetRefused { request, .. }
            | Self::ReplyComplete { request, .. }
            | Self::RequestFailed { request, .. }
            | Self::CallDecided { request, .. }
            | Self::CallDone { request, .. } => Some(*request),
            Self::Started { .. }
            | Self::SetupFailed { .. }
            | Self::HooksDone { .. }
            | Self::ChecksDone { .. }
            | Self::TimerFired(_)
            | Self::Ended(_) => None,
        }
    }

    /// Its name in errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Started { .. } => "Started",
            Self::SetupFailed { .. } => "SetupFailed",
            Self::Sent { .. } => "Sent",
            Self::BudgetRefused { .. } => "BudgetRefused",
            Self::ReplyComplete { .. } => "ReplyComplete",
            Self::RequestFailed { .. } => "RequestFailed",
            Self::CallDecided { .. } => "CallDecided",
            Self::CallDone { .. } => "CallDone",
            Self::HooksDone { .. } => "HooksDone",
            Self::ChecksDone { .. } => "ChecksDone",
            Self::TimerFired(Timer::Retry) => "TimerFired(Retry)",
            Self::TimerFired(Timer::Deadline) => "TimerFired(Deadline)",
            Self::Ended(_) => "Ended",
        }
    }
}
