//! Does what the machine asks for, and is the only place where a conversation waits.
//!
//! What an effect starts, its input starts to take effect only after that input is on disk: a request
//! leaves after `Sent` was journaled, a call runs after its decision was.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, spawn_blocking};

use crate::message::{
    Failure, FailureKind, Reply, Request, RequestNumber, ToolResult, ToolUse, Usage,
};
use crate::provider::StreamEvent;
use crate::query::{Effect, End, Input, Purpose, Timer};
use crate::transcript::EventBody;

use super::authorize::{self, Permitted};
use super::checks;
use super::kit::Kit;
use super::prefix::{Entry, Lead, wait};
use super::purse::{Purse, Settled};
use super::record::{Detail, Told};
use super::signal::{EndingSignal, first};

/// How long the tasks of a conversation that has ended may take to wind up.
const WIND_UP: Duration = Duration::from_millis(3500);

/// What a background task has to say.
enum Answer {
    Told(Told),
    Replied(RequestNumber, Duration, Result<Reply, Failure>),
    Ran {
        request: RequestNumber,
        tool_name: String,
        result: ToolResult,
        notes: Vec<String>,
        duration: Duration,
    },
    Panicked(String),
}

/// What ended a wait.
enum Happened {
    Signal(EndingSignal),
    Answer(Box<Answer>),
    Timer,
}

/// A request whose money is reserved and that leaves once this is on disk.
struct Outgoing {
    request: Request,
    is_recorded: bool,
}

/// What a conversation has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) requests: u32,
    pub(super) usage: Usage,
    pub(super) duration_api: Duration,
}

/// The hands of one conversation.
pub(super) struct Hands {
    kit: Arc<Kit>,
    purse: Purse,
    outgoing: Option<Outgoing>,
    permits: HashMap<String, Permitted>,
    tasks: JoinSet<()>,
    answers: mpsc::UnboundedSender<Answer>,
    inbox: mpsc::UnboundedReceiver<Answer>,
    retry_at: Option<Duration>,
    deadline: Option<Duration>,
    signal: watch::Receiver<Option<EndingSignal>>,
    /// Becomes true when the conversation has ended.
    cancelled: watch::Sender<bool>,
    tally: Tally,
}

impl Hands {
    pub(super) fn new(kit: Arc<Kit>, signal: watch::Receiver<Option<EndingSignal>>) -> Self {
        let (answers, inbox) = mpsc::unbounded_channel();
        Self {
            purse: Purse::new(kit.prompt.max_budget, kit.price, kit.price_is_given),
            kit,
            outgoing: None,
            permits: HashMap::new(),
            tasks: JoinSet::new(),
            answers,
            inbox,
            retry_at: None,
            deadline: None,
            signal,
            cancelled: watch::channel(false).0,
            tally: Tally::default(),
        }
    }

    /// What was used so far.
    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    /// What was spent.
    pub(super) fn purse(&self) -> &Purse {
        &self.purse
    }

    /// Begins what an effect asks for; its answer comes from [`Self::next_input`].
    pub(super) fn begin(&mut self, effect: Effect) {
        match effect {
            Effect::Send {
                purpose,
                request,
                input_bound,
                max_tokens_floor,
            } => {
                self.reserve(purpose, request, input_bound, max_tokens_floor);
            }
            Effect::Authorize { request, call } => self.authorize(request, &call),
            Effect::Run {
                request,
                tool_use_id,
            } => self.run_tool(request, &tool_use_id),
            Effect::RunChecks => self.run_checks(),
            Effect::SetTimer {
                timer: Timer::Retry,
                at,
            } => self.retry_at = Some(at),
            Effect::SetTimer {
                timer: Timer::Deadline,
                at,
            } => self.deadline = Some(at),
            Effect::CancelAll => self.cancel_all(),
            Effect::Discard { .. } | Effect::RunHooks(_) => {
                self.fault("the loop asked for something that this version cannot do".to_owned());
            }
        }
    }

    /// Waits for whatever happens next: an answer, a timer, a signal.
    pub(super) async fn next_input(&mut self) -> Told {
        self.launch_outgoing();
        let due = [self.retry_at, self.deadline].into_iter().flatten().min();
        let timer = async {
            match due {
                Some(at) => tokio::time::sleep_until(self.kit.clock.instant(at)).await,
                None => std::future::pending().await,
            }
        };
        let happened = tokio::select! {
            biased;
            signal = first(&mut self.signal) => Happened::Signal(signal),
            Some(answer) = self.inbox.recv() => Happened::Answer(Box::new(answer)),
            () = timer => Happened::Timer,
        };
        match happened {
            Happened::Signal(signal) => Told::plain(Input::Ended(End::Signal(signal.name))),
            Happened::Answer(answer) => self.take(*answer),
            Happened::Timer => self.timer_fired(),
        }
    }

    fn timer_fired(&mut self) -> Told {
        let timer = match (self.retry_at, self.deadline) {
            (Some(retry), deadline) if deadline.is_none_or(|deadline| retry < deadline) => {
                Timer::Retry
            }
            _ => Timer::Deadline,
        };
        match timer {
            Timer::Retry => self.retry_at = None,
            Timer::Deadline => self.deadline = None,
        }
        Told::plain(Input::TimerFired(timer))
    }

    /// Turns an answer into an input, settling the money of a request.
    fn take(&mut self, answer: Answer) -> Told {
        match answer {
            Answer::Told(told) => {
                // Whoever asks for the input after this one has journaled this one.
                if let (Input::Sent { .. }, Some(outgoing)) = (&told.input, &mut self.outgoing) {
                    outgoing.is_recorded = true;
                }
                told
            }
            Answer::Replied(request, took, outcome) => self.settle(request, took, outcome),
            Answer::Ran {
                request,
                tool_name,
                result,
                notes,
                duration,
            } => Told {
                input: Input::CallDone {
                    request,
                    result,
                    notes,
                },
                detail: Detail::Ran {
                    tool_name,
                    duration,
                },
            },
            Answer::Panicked(message) => Told::plain(Input::Ended(End::Fault(message))),
        }
    }

    fn settle(
        &mut self,
        request: RequestNumber,
        took: Duration,
        outcome: Result<Reply, Failure>,
    ) -> Told {
        self.tally.duration_api += took;
        match outcome {
            Ok(mut reply) => {
                let Settled { cost, overspent } = self.purse.settle(request, &mut reply);
                self.tally.usage += reply.usage;
                self.kit.begin_turn(request, reply.calls.len());
                let reply = Arc::new(reply);
                Told {
                    input: Input::ReplyComplete {
                        request,
                        reply,
                        overspent,
                    },
                    detail: Detail::Replied { cost },
                }
            }
            Err(failure) => {
                let unsettled = self.purse.settle_failure(request, &failure);
                Told {
                    input: Input::RequestFailed { request, failure },
                    detail: Detail::Failed { unsettled },
                }
            }
        }
    }

    /// Sets money aside for a request; it leaves once that is recorded.
    fn reserve(&mut self, purpose: Purpose, mut request: Request, input_bound: u64, floor: u64) {
        let number = request.number;
        let told = match self.purse.reserve(&mut request, input_bound, floor) {
            Ok(reserved) => {
                let (max_tokens, messages) = (request.max_tokens, request.messages.len());
                self.tally.requests += 1;
                self.outgoing = Some(Outgoing {
                    request,
                    is_recorded: false,
                });
                Told {
                    input: Input::Sent {
                        request: number,
                        max_tokens,
                    },
                    detail: Detail::Sent {
                        purpose,
                        input_bound,
                        messages,
                        reserved,
                    },
                }
            }
            Err(message) => Told::plain(Input::BudgetRefused {
                request: number,
                message,
            }),
        };
        self.answer(Answer::Told(told));
    }

    /// Sends the request whose reservation has been journaled by now.
    fn launch_outgoing(&mut self) {
        let Some(Outgoing { request, .. }) = self.outgoing.take_if(|outgoing| outgoing.is_recorded)
        else {
            return;
        };
        let (kit, answers) = (Arc::clone(&self.kit), self.answers.clone());
        let mut cancelled = self.cancelled.subscribe();
        self.tasks.spawn(async move {
            let number = request.number;
            let lead = match kit.gate.enter(&request.head) {
                Entry::Lead(lead) => Some(lead),
                Entry::Follow(gate) => {
                    tokio::select! {
                        () = wait(gate) => {}
                        _ = cancelled.wait_for(|cancelled| *cancelled) => {
                            let message = "cancelled before it was sent";
                            let failure = Failure::new(FailureKind::Cancelled, message);
                            let _ = answers.send(Answer::Replied(number, Duration::ZERO, Err(failure)));
                            return;
                        }
                    }
                    None
                }
            };
            let started = kit.clock.now();
            let (provider, kit_for_text) = (Arc::clone(&kit.provider), Arc::clone(&kit));
            let sent = spawn_blocking(move || {
                provider.send(&request, &mut |event| match event {
                    StreamEvent::Began => lead.iter().for_each(Lead::open),
                    StreamEvent::TextDelta(text) => kit_for_text.show(text),
                    StreamEvent::CallComplete(_) => {}
                })
            });
            let answer = match sent.await {
                Ok(outcome) => {
                    Answer::Replied(number, kit.clock.now().saturating_sub(started), outcome)
                }
                Err(panic) => {
                    Answer::Panicked(format!("the provider panicked: {}", panic_text(panic)))
                }
            };
            // Nobody listening means that the conversation has ended.
            let _ = answers.send(answer);
        });
    }

    fn authorize(&mut self, request: RequestNumber, call: &ToolUse) {
        // A tool's own code says what a call would touch; its panic ends the prompt, not its record.
        let judge = AssertUnwindSafe(|| authorize::authorize(&self.kit, request, call));
        match catch_unwind(judge) {
            Ok((told, permitted)) => {
                if let Some(permitted) = permitted {
                    self.permits.insert(call.id.clone(), permitted);
                }
                self.answer(Answer::Told(told));
            }
            Err(panic) => {
                let message = panic_message(&*panic);
                self.fault(format!(
                    "judging a call of {} panicked: {message}",
                    call.name
                ));
            }
        }
    }

    fn run_tool(&mut self, request: RequestNumber, tool_use_id: &str) {
        let Some(permitted) = self.permits.remove(tool_use_id) else {
            self.fault(format!(
                "the loop asked to run {tool_use_id}, for which there is no permit"
            ));
            return;
        };
        let (kit, answers) = (Arc::clone(&self.kit), self.answers.clone());
        let tool_name = permitted.permit.call().tool_use.name.clone();
        self.tasks.spawn(async move {
            let started = kit.clock.now();
            let notes = permitted.notes.clone();
            let working = Arc::clone(&kit);
            let ran = spawn_blocking(move || working.run_tool(request, &permitted)).await;
            let answer = match ran {
                Ok(result) => Answer::Ran {
                    request,
                    tool_name,
                    result,
                    notes,
                    duration: kit.clock.now().saturating_sub(started),
                },
                Err(panic) => Answer::Panicked(format!(
                    "the tool {tool_name} panicked: {}",
                    panic_text(panic)
                )),
            };
            let _ = answers.send(answer);
        });
    }

    fn run_checks(&mut self) {
        let (kit, answers) = (Arc::clone(&self.kit), self.answers.clone());
        self.tasks.spawn(async move {
            let working = Arc::clone(&kit);
            let answer = match spawn_blocking(move || checks::run_all(&working)).await {
                Ok(results) => Answer::Told(Told::checked(results)),
                Err(panic) => Answer::Panicked(format!("a check panicked: {}", panic_text(panic))),
            };
            let _ = answers.send(answer);
        });
    }

    fn cancel_all(&mut self) {
        self.outgoing = None;
        self.cancelled.send_replace(true);
        self.kit.cancel.set();
        self.kit.provider.cancel();
    }

    /// Cancels what still runs, waits for it to end, and says what became of requests that were out.
    pub(super) async fn wind_up(&mut self) -> Vec<EventBody> {
        self.cancel_all();
        let all_ended = async { while self.tasks.join_next().await.is_some() {} };
        // What has not ended by now ends with the process; its money stays reserved.
        let _ = tokio::time::timeout(WIND_UP, all_ended).await;
        let mut events = Vec::new();
        while let Ok(answer) = self.inbox.try_recv() {
            if let Answer::Replied(request, took, outcome) = answer {
                let told = self.settle(request, took, outcome);
                events.extend(told.late_event());
            }
        }
        self.purse.give_up();
        events
    }

    fn answer(&self, answer: Answer) {
        // The receiver is a field of this very struct.
        let _ = self.answers.send(answer);
    }

    fn fault(&self, message: String) {
        self.answer(Answer::Panicked(message));
    }
}

/// What ended a task that did not end by itself.
pub(super) fn panic_text(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => panic_message(&*panic),
        Err(_) => "it was cancelled".to_owned(),
    }
}

/// What a panic said.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
