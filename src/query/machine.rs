//! The whole loop on one screen.

use std::fmt;
use std::time::Duration;

use crate::message::{ApiStopReason, Block, RequestNumber, ToolResult};
use crate::stop::{Finding, Stop, StopReason};

use super::history::History;
use super::queue::Queue;
use super::state::{
    CallDecision, CheckFailure, Denial, Effect, End, Input, Notice, Purpose, Settings, State, Timer,
};
use super::transition::Transition;

/// One conversation.
#[derive(Debug)]
pub struct Machine {
    pub(super) settings: Settings,
    pub(super) state: State,
    pub(super) history: History,
    pub(super) queue: Queue,
    /// Number of the last request; 0 before the first.
    pub(super) number: u32,
    /// Attempts at the current request, this one included.
    pub(super) attempt: u32,
    pub(super) turns: u32,
    pub(super) deadline: Duration,
    pub(super) text: String,
    pub(super) api_stop_reason: Option<ApiStopReason>,
    pub(super) denials: Vec<Denial>,
    /// What the step being made has to say so far.
    pub(super) step: Step,
}

/// What one input led to.
#[derive(Debug, Default)]
pub struct Step {
    /// Lines for the transcript, to be written before anything is acted on.
    pub notices: Vec<Notice>,
    /// What the world is asked to do, in order.
    pub effects: Vec<Effect>,
    /// The end, if this is it; nothing may be stepped afterwards.
    pub stop: Option<Stop>,
}

/// An input that cannot happen in this state: a defect of the loop or of whoever feeds it.
#[derive(Debug, PartialEq, Eq)]
pub struct UnexpectedInput {
    /// Where the loop stood.
    pub state: State,
    /// What it was told.
    pub input: &'static str,
}

impl fmt::Display for UnexpectedInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the query loop met {} in state {:?}",
            self.input, self.state
        )
    }
}

impl std::error::Error for UnexpectedInput {}

impl Machine {
    /// A conversation that has not started.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: State::Starting,
            history: History::default(),
            queue: Queue::default(),
            number: 0,
            attempt: 0,
            turns: 0,
            deadline: Duration::MAX,
            text: String::new(),
            api_stop_reason: None,
            denials: Vec::new(),
            step: Step::default(),
        }
    }

    /// Takes one input at the time `now` and says what follows from it.
    pub fn step(&mut self, now: Duration, input: &Input) -> Result<Step, UnexpectedInput> {
        let unexpected = UnexpectedInput {
            state: self.state,
            input: input.name(),
        };
        if self.state == State::Stopped {
            return Err(unexpected);
        }
        if let Some(request) = input.request().filter(|request| request.0 != self.number) {
            self.step.notices.push(Notice::Dropped { request });
            return Ok(std::mem::take(&mut self.step));
        }
        match (self.state, input) {
            (_, Input::Ended(end)) => self.ended(end),
            (_, Input::TimerFired(Timer::Deadline)) => self.timed_out(),

            (State::Starting, Input::Started { prompt }) => self.started(now, prompt),
            (State::Starting, Input::SetupFailed { message }) => {
                self.stop(StopReason::SetupError, message.clone());
            }

            (State::Requesting { .. }, Input::Sent { .. }) => {}
            (State::Requesting { .. }, Input::BudgetRefused { message, .. }) => {
                self.stop(StopReason::MaxBudgetUsd, message.clone());
            }
            (
                State::Requesting { .. },
                Input::ReplyComplete {
                    reply, overspent, ..
                },
            ) => {
                self.replied(reply, overspent.as_deref());
            }
            (State::Requesting { .. }, Input::RequestFailed { failure, .. }) => {
                self.failed(now, failure);
            }
            (State::Waiting, Input::TimerFired(Timer::Retry)) => self.send(),

            (
                State::RunningTools { .. },
                Input::CallDecided {
                    tool_use_id,
                    decision,
                    ..
                },
            ) => {
                self.decided(tool_use_id, decision).ok_or(unexpected)?;
            }
            (State::RunningTools { .. }, Input::CallDone { result, notes, .. }) => {
                self.answered(result.clone(), notes.clone())
                    .ok_or(unexpected)?;
            }

            (State::Checking, Input::ChecksDone { failures }) => self.checked(failures),

            (
                State::Starting
                | State::Requesting { .. }
                | State::Waiting
                | State::RunningTools { .. }
                | State::Compacting
                | State::StopHooks
                | State::TaskHooks
                | State::Checking
                | State::WindingDown
                | State::Stopped,
                Input::Started { .. }
                | Input::SetupFailed { .. }
                | Input::Sent { .. }
                | Input::BudgetRefused { .. }
                | Input::ReplyComplete { .. }
                | Input::RequestFailed { .. }
                | Input::CallDecided { .. }
                | Input::CallDone { .. }
                | Input::HooksDone { .. }
                | Input::ChecksDone { .. }
                | Input::TimerFired(Timer::Retry),
            ) => return Err(unexpected),
        }
        Ok(std::mem::take(&mut self.step))
    }

    fn started(&mut self, now: Duration, prompt: &str) {
        self.deadline = now.saturating_add(self.settings.timeout);
        self.step.effects.push(Effect::SetTimer {
            timer: Timer::Deadline,
            at: self.deadline,
        });
        self.history
            .push_user(Block::text(prompt).into_iter().collect());
        self.request(None);
    }

    /// The one way to another request: `why` it is made, `None` for the first.
    pub(super) fn request(&mut self, why: Option<Transition>) {
        if self.turns >= self.settings.max_turns {
            let (max_turns, turn_count) = (self.settings.max_turns, self.turns);
            self.step.notices.push(Notice::MaxTurnsReached {
                max_turns,
                turn_count,
            });
            self.stop(
                StopReason::MaxTurns,
                format!(
                    "reached the limit of {max_turns} {} before a final reply",
                    plural(max_turns, "turn")
                ),
            );
            return;
        }
        if let Some(why) = why {
            self.step.notices.push(Notice::Transition {
                why,
                turn: self.turns + 1,
            });
        }
        self.attempt = 0;
        self.send();
    }

    /// Sends the conversation as it stands, for the first time or again.
    fn send(&mut self) {
        self.number += 1;
        self.attempt += 1;
        let number = RequestNumber(self.number);
        let (request, input_bound) =
            self.history
                .request(number, &self.settings.head, self.settings.max_output_tokens);
        self.state = State::Requesting { request: number };
        self.step.effects.push(Effect::Send {
            purpose: Purpose::Main,
            request,
            input_bound,
            max_tokens_floor: self.settings.max_tokens_floor,
        });
    }

    /// The policy has judged a call; `None` when no such call waits for it.
    fn decided(&mut self, id: &str, decision: &CallDecision) -> Option<()> {
        match decision {
            CallDecision::Allowed { is_read_only } => {
                self.queue.allow(id, *is_read_only).then_some(())?;
                self.run_calls();
                Some(())
            }
            CallDecision::Answered(result) => self.fill(result.clone()),
            CallDecision::Denied(denial) => {
                self.denials.push(denial.clone());
                if !self.settings.stop_on_denied {
                    return self.fill(denial_result(denial));
                }
                // Its own answer says why; those of the others say that it ended everything.
                let text = format!("{}. The conversation ends with this.", denial_text(denial));
                self.note_answer(ToolResult::text(&denial.tool_use_id, text, true))?;
                let message = denials_message(std::slice::from_ref(denial));
                self.stop(StopReason::PermissionDenied, message);
                Some(())
            }
        }
    }

    /// Answers a call that does not run.
    fn fill(&mut self, result: ToolResult) -> Option<()> {
        self.note_answer(result)?;
        self.go_on_when_answered();
        Some(())
    }

    fn note_answer(&mut self, result: ToolResult) -> Option<()> {
        let call = self
            .queue
            .unanswered()
            .find(|call| call.id == result.tool_use_id)?;
        let tool_name = call.name.clone();
        self.step.notices.push(Notice::Filled {
            tool_name,
            result: result.clone(),
        });
        self.queue.answer(result, Vec::new()).then_some(())
    }

    /// A call has its answer; `None` when no such call waits for one.
    fn answered(&mut self, result: ToolResult, notes: Vec<String>) -> Option<()> {
        self.queue.answer(result, notes).then_some(())?;
        self.go_on_when_answered();
        Some(())
    }

    /// All results of a turn go back in one message, in the order of the calls, before any text.
    fn go_on_when_answered(&mut self) {
        let Some(answers) = self.queue.take_answers() else {
            self.run_calls();
            return;
        };
        let notes: Vec<Block> = answers
            .iter()
            .flat_map(|(_, notes)| notes)
            .filter_map(|note| Block::text(note))
            .collect();
        let results = answers
            .iter()
            .map(|(result, _)| (result.tool_use_id.clone(), Block::tool_result(result)))
            .collect();
        self.history.push_results(results, notes);
        self.request(Some(Transition::NextTurn));
    }

    fn run_calls(&mut self) {
        let request = RequestNumber(self.number);
        for tool_use_id in self.queue.start(self.settings.parallel_tools) {
            self.step.effects.push(Effect::Run {
                request,
                tool_use_id,
            });
        }
    }

    fn checked(&mut self, failures: &[CheckFailure]) {
        if failures.is_empty() {
            self.complete(None);
            return;
        }
        let lines: Vec<String> = failures
            .iter()
            .map(|failure| format!("{}: {}", failure.id, failure.message))
            .collect();
        self.complete(Some((Finding::ChecksFailed, lines.join("\n"))));
    }

    /// The loop ended well; what was found afterwards decides the outcome.
    pub(super) fn complete(&mut self, found: Option<(Finding, String)>) {
        let denied = (self.settings.fail_on_denied && !self.denials.is_empty())
            .then(|| (Finding::PermissionDenied, denials_message(&self.denials)));
        let (findings, messages): (Vec<Finding>, Vec<String>) =
            found.into_iter().chain(denied).unzip();
        let mut stop = Stop::new(StopReason::Completed, messages.join("\n"));
        stop.finding = findings.first().copied();
        self.finish(stop);
    }

    fn timed_out(&mut self) {
        let timeout = self.settings.timeout;
        self.stop(
            StopReason::Timeout,
            format!("not done after {timeout:?}, the prompt's `timeout`"),
        );
    }

    fn ended(&mut self, end: &End) {
        match end {
            End::Signal(name) => self.stop(StopReason::Aborted, format!("ended by {name}")),
            End::RecordFailed(message) => self.stop(StopReason::RecordFailed, message.clone()),
            End::Fault(message) => self.stop(StopReason::ModelError, message.clone()),
        }
    }

    pub(super) fn stop(&mut self, reason: StopReason, message: impl Into<String>) {
        self.finish(Stop::new(reason, message));
    }

    /// The end: whatever still runs is cancelled, and a call without an answer gets one, so that the
    /// transcript pairs calls and results.
    fn finish(&mut self, stop: Stop) {
        let text = match stop.reason {
            StopReason::MaxOutputTokens => "Not run: the reply was cut off at the output limit.",
            StopReason::Refusal => "Not run: the reply was refused.",
            StopReason::PermissionDenied => {
                "Not run: an earlier call was denied and the job stops at that."
            }
            StopReason::PromptTooLong => "Not run: the model's context window is full.",
            _ => "Interrupted: the conversation ended before this call had a result.",
        };
        for call in self.queue.unanswered() {
            let result = ToolResult::text(&call.id, text, true);
            self.step.notices.push(Notice::Filled {
                tool_name: call.name.clone(),
                result,
            });
        }
        self.queue = Queue::default();
        if stop.reason == StopReason::ModelError {
            self.step.notices.push(Notice::SyntheticError {
                message: stop.message.clone(),
            });
        }
        self.step.effects.push(Effect::CancelAll);
        self.step.notices.push(Notice::Stopped(stop.clone()));
        self.step.stop = Some(stop);
        self.state = State::Stopped;
    }

    /// Turns taken: replies that entered the history.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// The last visible text of the model, empty before there was any.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The calls that were denied.
    pub fn denials(&self) -> &[Denial] {
        &self.denials
    }

    /// The API's stop reason of the last reply.
    pub fn api_stop_reason(&self) -> Option<&ApiStopReason> {
        self.api_stop_reason.as_ref()
    }

    /// Where the loop stands.
    pub fn state(&self) -> State {
        self.state
    }
}

fn denial_text(denial: &Denial) -> String {
    format!(
        "Permission to use {} was denied: {}",
        denial.tool_name, denial.reason
    )
}

/// What the model is told of a denied call.
fn denial_result(denial: &Denial) -> ToolResult {
    let text = denial_text(denial);
    let text = match &denial.would_allow {
        Some(rule) => format!(
            "{text}. Only a rule such as `{rule}` in the job file would allow it; nobody can be asked, so go on \
             without it."
        ),
        None => format!("{text}. Nobody can be asked, so go on without it."),
    };
    ToolResult::text(&denial.tool_use_id, text, true)
}

/// The denied calls and the rules that would allow them, a line each.
fn denials_message(denials: &[Denial]) -> String {
    let mut lines = vec![format!(
        "{} {} denied",
        denials.len(),
        plural(denials.len() as u32, "call")
    )];
    lines.extend(denials.iter().map(|denial| {
        let allow = denial
            .would_allow
            .as_ref()
            .map(|rule| format!("; `{rule}` would allow it"));
        format!(
            "{}: {}{}",
            denial.tool_name,
            denial.reason,
            allow.unwrap_or_default()
        )
    }));
    lines.join("\n")
}

pub(super) fn plural(count: u32, noun: &str) -> String {
    if count == 1 {
        noun.to_owned()
    } else {
        format!("{noun}s")
    }
}
