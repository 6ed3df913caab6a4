//! One prompt: the ten lines between the machine, the journal and the hands.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use uuid::Uuid;

use crate::models::{Price, Usd};
use crate::query::{Effect, End, Input, Machine, Settings, Step};
use crate::stop::{Outcome, Stop, StopReason};
use crate::transcript::{Event, EventBody, Init, Journal, PromptResult};

use super::clock::Clock;
use super::hands::Hands;
use super::kit::Kit;
use super::record::{self, Told};
use super::signal::EndingSignal;

/// One conversation from its first line in the transcript to its last.
pub(super) struct Conversation {
    clock: Clock,
    journal: Journal,
    /// Where the journal writes, for its errors.
    directory: PathBuf,
    /// Event of the reply whose calls are being answered.
    assistant: Uuid,
    started: Duration,
}

/// How a conversation ended.
pub(super) struct ConversationEnd {
    pub(super) result: PromptResult,
    /// Whether the result differs from the one that was handed on, since its record failed last.
    pub(super) is_corrected: bool,
}

impl Conversation {
    pub(super) fn new(clock: Clock, journal: Journal) -> Self {
        let started = clock.now();
        Self {
            clock,
            directory: journal.directory().to_owned(),
            journal,
            assistant: Uuid::nil(),
            started,
        }
    }

    /// Runs the conversation to its end.
    pub(super) async fn run(
        mut self,
        kit: Arc<Kit>,
        init: Init,
        seed: u64,
        signal: watch::Receiver<Option<EndingSignal>>,
    ) -> ConversationEnd {
        let mut machine = Machine::new(kit.settings(seed));
        let mut hands = Hands::new(Arc::clone(&kit), signal);
        let first = match self.write(EventBody::Init(init)).await {
            Ok(()) => Told::plain(Input::Started {
                prompt: kit.prompt.text.clone(),
            }),
            Err(error) => Told::plain(Input::Ended(self.record_failed(&error))),
        };
        let stop = self
            .loop_until_stopped(&mut machine, &mut hands, first)
            .await;
        let late = hands.wind_up().await;
        for body in late {
            // The conversation has its stop reason; what cannot be added to its record stays unsaid.
            let _ = self.write(body).await;
        }
        let cost = (kit.price != Price::Free).then_some(hands.purse().spent());
        self.finish(&machine, stop, Some(&hands), cost).await
    }

    async fn loop_until_stopped(
        &mut self,
        machine: &mut Machine,
        hands: &mut Hands,
        first: Told,
    ) -> Stop {
        let mut told = first;
        loop {
            let step = match machine.step(self.clock.now(), &told.input) {
                Ok(step) => step,
                Err(unexpected) => {
                    told = Told::fault(format!("internal fault: {unexpected}"));
                    continue;
                }
            };
            if let Err(error) = self.journal_step(&told, &step, machine.turns()).await {
                if step.stop.is_none() {
                    told = Told::plain(Input::Ended(self.record_failed(&error)));
                    continue;
                }
                return Stop::new(
                    StopReason::RecordFailed,
                    record_failed_text(&self.directory, &error),
                );
            }
            for effect in step.effects {
                hands.begin(effect);
            }
            if let Some(stop) = step.stop {
                return stop;
            }
            told = hands.next_input().await;
        }
    }

    /// Ends a conversation for which something could not be set up.
    pub(super) async fn fail_set_up(
        mut self,
        settings: Settings,
        message: String,
    ) -> ConversationEnd {
        let mut machine = Machine::new(settings);
        let told = Told::plain(Input::SetupFailed {
            message: message.clone(),
        });
        let mut stop = Stop::new(StopReason::SetupError, message);
        if let Ok(step) = machine.step(self.clock.now(), &told.input) {
            // The result says the same: a line that cannot be written changes nothing here.
            let _ = self.journal_step(&told, &step, 0).await;
            stop = step.stop.unwrap_or(stop);
        }
        self.finish(&machine, stop, None, Some(Usd::ZERO)).await
    }

    /// Writes what a step is about, before anything of it is acted on; a turn's end goes to the disk.
    async fn journal_step(&mut self, told: &Told, step: &Step, turn: u32) -> std::io::Result<()> {
        for body in record::events(told, step, turn, self.assistant) {
            let is_reply = matches!(body, EventBody::Assistant { .. });
            let id = self.write_event(body).await?;
            if is_reply {
                self.assistant = id;
            }
        }
        if step
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::Send { .. }))
        {
            self.journal.sync().await?;
        }
        Ok(())
    }

    async fn write(&mut self, body: EventBody) -> std::io::Result<()> {
        self.write_event(body).await.map(|_| ())
    }

    async fn write_event(&mut self, body: EventBody) -> std::io::Result<Uuid> {
        let event = Event {
            id: self.clock.event_id(),
            at: self.clock.utc(),
            elapsed: self.clock.now(),
            body,
        };
        self.journal.append(event).await.map(|event| event.id)
    }

    /// The last line, and the transcript as one document.
    async fn finish(
        mut self,
        machine: &Machine,
        mut stop: Stop,
        hands: Option<&Hands>,
        cost: Option<Usd>,
    ) -> ConversationEnd {
        // Before the last line, so that nobody is told of a success and then of its record's loss.
        if let Err(error) = self.journal.verify()
            && stop.reason != StopReason::RecordFailed
        {
            stop = record_lost(&self.directory, &error, &stop);
        }
        let tally = hands.map(Hands::tally).unwrap_or_default();
        let mut result = PromptResult {
            stop,
            text: machine.text().to_owned(),
            num_turns: machine.turns(),
            requests: tally.requests,
            cost,
            unsettled: hands.map_or(Usd::ZERO, |hands| hands.purse().unsettled()),
            usage: tally.usage,
            api_stop_reason: machine
                .api_stop_reason()
                .map(|reason| reason.name().to_owned()),
            duration: self.clock.now().saturating_sub(self.started),
            duration_api: tally.duration_api,
            denials: machine.denials().to_vec(),
        };
        let written = self.write(EventBody::Result(result.clone())).await;
        let written = written.and(self.journal.finish().await);
        let mut is_corrected = false;
        if let (Err(error), Outcome::Passed) = (&written, result.stop.outcome()) {
            // Nothing is green whose record is incomplete.
            result.stop = Stop::new(
                StopReason::RecordFailed,
                record_failed_text(&self.directory, error),
            );
            is_corrected = true;
        }
        ConversationEnd {
            result,
            is_corrected,
        }
    }

    fn record_failed(&self, error: &std::io::Error) -> End {
        End::RecordFailed(record_failed_text(&self.directory, error))
    }
}

fn record_failed_text(directory: &Path, error: &std::io::Error) -> String {
    format!(
        "cannot write the transcript in {}: {error}",
        directory.display()
    )
}

/// The end of a prompt whose record is not what was written, and what else there was to say.
fn record_lost(directory: &Path, error: &std::io::Error, stop: &Stop) -> Stop {
    let mut message = record_failed_text(directory, error);
    if stop.outcome() != Outcome::Passed {
        let (reason, earlier) = (stop.name(), &stop.message);
        let _ = write!(message, "; the prompt itself had ended as {reason}");
        if !earlier.is_empty() {
            let _ = write!(message, ": {earlier}");
        }
    }
    Stop::new(StopReason::RecordFailed, message)
}
