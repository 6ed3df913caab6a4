//! Whoever watches a run: the fold for the reports, and the terminal.

use std::io::{self, IsTerminal as _, Stderr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::report::{Lines, Progress, Recorder, Reports, RunRecord, Verbosity};
use crate::run::Clock;
use crate::transcript::{Redactor, ScopedEvent};

/// Between two signs of life in a log. Source: SPEC 10.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// Between two frames of the bars.
const FRAME: Duration = Duration::from_millis(100);

/// The terminal's half.
enum Shown {
    Bars(Box<Progress<Stderr>>),
    Lines(Box<Lines<Stderr>>),
}

/// Takes every event of a run.
pub(super) struct Watch {
    clock: Clock,
    recorder: Recorder,
    shown: Shown,
}

impl Watch {
    /// Bars where a person watches a terminal, plain lines everywhere else.
    pub(super) fn new(
        clock: Clock,
        verbosity: Verbosity,
        redactor: &Arc<Redactor>,
        is_ci: bool,
    ) -> Self {
        let wants_bars = verbosity != Verbosity::Quiet && !is_ci && io::stderr().is_terminal();
        let shown = if wants_bars {
            let size = rustix::termios::tcgetwinsize(io::stderr())
                .map_or((24, 80), |size| (size.ws_row, size.ws_col));
            Shown::Bars(Box::new(Progress::on_stderr(
                verbosity,
                Arc::clone(redactor),
                size,
            )))
        } else {
            Shown::Lines(Box::new(Lines::new(
                verbosity,
                Arc::clone(redactor),
                io::stderr(),
            )))
        };
        Self {
            clock,
            recorder: Recorder::new(Arc::clone(redactor)),
            shown,
        }
    }

    /// Whether pieces of text are shown as they stream.
    pub(super) fn shows_text(&self) -> bool {
        matches!(self.shown, Shown::Bars(_))
    }

    /// The run as far as it was seen; `None` before its first event.
    pub(super) fn record(&self) -> Option<RunRecord> {
        self.recorder.record()
    }

    /// The last line of the run; `None` when it would say nothing.
    pub(super) fn closing_line(&self, reports: Reports) -> Option<String> {
        match &self.shown {
            Shown::Bars(bars) => bars.closing_line(reports),
            Shown::Lines(lines) => lines.closing_line(reports),
        }
    }

    /// Watches until the run is over.
    pub(super) async fn until_the_end(mut self, mut events: mpsc::Receiver<ScopedEvent>) -> Self {
        let mut tick = tokio::time::interval(match self.shown {
            Shown::Bars(_) => FRAME,
            Shown::Lines(_) => HEARTBEAT,
        });
        tick.tick().await;
        loop {
            tokio::select! {
                biased;
                event = events.recv() => match event {
                    Some(event) => self.take(&event),
                    None => break,
                },
                _ = tick.tick() => self.tick(),
            }
        }
        if let Shown::Bars(bars) = &mut self.shown {
            let _ = bars.finish();
        }
        self
    }

    /// A line that cannot be shown loses nothing: the transcript has it.
    fn take(&mut self, event: &ScopedEvent) {
        self.recorder.on_event(event);
        let _ = match &mut self.shown {
            Shown::Bars(bars) => bars.on_event(event),
            Shown::Lines(lines) => lines.on_event(event),
        };
    }

    fn tick(&mut self) {
        let elapsed = self.clock.now();
        match &mut self.shown {
            Shown::Bars(bars) => bars.tick(elapsed),
            Shown::Lines(lines) => drop(lines.heartbeat(elapsed)),
        }
    }
}
