//! Whoever watches a run: the fold for the reports, and the terminal.
//!
//! The fold takes every event as it comes. What is shown is shown by a thread of its own, for a terminal
//! or a pipe may be slow, or never read at all: then lines are lost, and the run goes on.

use std::io::{self, IsTerminal as _, Stderr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::report::{Lines, Progress, Recorder, Reports, Verbosity};
use crate::run::Clock;
use crate::transcript::{Redactor, ScopedEvent};

/// Between two signs of life in a log. Source: SPEC 10.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// Between two frames of the bars.
const FRAME: Duration = Duration::from_millis(100);
/// Events that may wait to be shown before they are lost: more than a busy second brings.
const WAITING: usize = 16 * 1024;

/// Takes every event of a run.
pub(super) struct Watch {
    recorder: Recorder,
    waiting: SyncSender<ScopedEvent>,
    shows_text: bool,
}

/// The end of what is shown.
pub(super) struct Shown {
    done: oneshot::Receiver<Display>,
}

impl Shown {
    /// Waits until everything was shown; `None` when the display is gone.
    pub(super) async fn all(self) -> Option<Display> {
        self.done.await.ok()
    }
}

impl Watch {
    /// Bars where a person watches a terminal, plain lines everywhere else.
    pub(super) fn start(
        clock: Clock,
        verbosity: Verbosity,
        redactor: &Arc<Redactor>,
        is_ci: bool,
    ) -> io::Result<(Self, Shown)> {
        let shows_text = verbosity != Verbosity::Quiet && !is_ci && io::stderr().is_terminal();
        let display = if shows_text {
            let size = rustix::termios::tcgetwinsize(io::stderr())
                .map_or((24, 80), |size| (size.ws_row, size.ws_col));
            Display::Bars(Box::new(Progress::on_stderr(
                verbosity,
                Arc::clone(redactor),
                size,
            )))
        } else {
            Display::Lines(Box::new(Lines::new(
                verbosity,
                Arc::clone(redactor),
                io::stderr(),
            )))
        };
        let (waiting, events) = sync_channel(WAITING);
        let (finished, done) = oneshot::channel();
        thread::Builder::new()
            .name("display".into())
            .spawn(move || {
                // Whoever waited may have lost patience.
                let _ = finished.send(display.until_the_end(&clock, &events));
            })?;
        let watch = Self {
            recorder: Recorder::new(Arc::clone(redactor)),
            waiting,
            shows_text,
        };
        Ok((watch, Shown { done }))
    }

    /// Whether pieces of text are shown as they stream.
    pub(super) fn shows_text(&self) -> bool {
        self.shows_text
    }

    /// Watches until the run is over.
    pub(super) async fn until_the_end(
        mut self,
        mut events: mpsc::Receiver<ScopedEvent>,
    ) -> Recorder {
        while let Some(event) = events.recv().await {
            self.recorder.on_event(&event);
            // A line that cannot be shown loses nothing: the transcript has it.
            let _ = self.waiting.try_send(event);
        }
        self.recorder
    }
}

/// What writes to standard error.
pub(super) enum Display {
    Bars(Box<Progress<Stderr>>),
    Lines(Box<Lines<Stderr>>),
}

impl Display {
    /// The last line of the run; `None` when it would say nothing.
    pub(super) fn closing_line(&self, reports: Reports) -> Option<String> {
        match self {
            Self::Bars(bars) => bars.closing_line(reports),
            Self::Lines(lines) => lines.closing_line(reports),
        }
    }

    fn until_the_end(mut self, clock: &Clock, events: &Receiver<ScopedEvent>) -> Self {
        let interval = match self {
            Self::Bars(_) => FRAME,
            Self::Lines(_) => HEARTBEAT,
        };
        let mut next_tick = clock.now() + interval;
        loop {
            match events.recv_timeout(next_tick.saturating_sub(clock.now())) {
                Ok(event) => self.show(&event),
                Err(RecvTimeoutError::Timeout) => {
                    next_tick = clock.now() + interval;
                    self.tick(clock.now());
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if let Self::Bars(bars) = &mut self {
            // The terminal is gone, then; nobody is there to be told.
            let _ = bars.finish();
        }
        self
    }

    fn show(&mut self, event: &ScopedEvent) {
        let _ = match self {
            Self::Bars(bars) => bars.on_event(event),
            Self::Lines(lines) => lines.on_event(event),
        };
    }

    fn tick(&mut self, elapsed: Duration) {
        match self {
            Self::Bars(bars) => bars.tick(elapsed),
            Self::Lines(lines) => drop(lines.heartbeat(elapsed)),
        }
    }
}
