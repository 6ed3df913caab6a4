//! Bars on a terminal: one for the run, one for each of the prompts that fit.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::transcript::{Redactor, ScopedEvent};

use super::foreign::one_line;
use super::narrator::{Narrator, Reports, Verbosity};
use super::record::Counts;
use super::wording::{count_words, duration_words};

/// Rows that stay free: the bar of the run, the shell's next prompt, the last printed line.
const RESERVED_ROWS: usize = 3;

/// Bars on a terminal, and the lines of [`super::Lines`] above them.
///
/// Nothing here has a thread of its own: whoever owns it calls [`Progress::tick`].
#[derive(Debug)]
pub struct Progress<W> {
    narrator: Narrator,
    bars: MultiProgress,
    summary: ProgressBar,
    running: Vec<ProgressBar>,
    most_running: usize,
    columns: usize,
    writer: W,
}

impl Progress<io::Stderr> {
    /// Bars on standard error, a terminal of this size (rows, columns).
    pub fn on_stderr(verbosity: Verbosity, redactor: Arc<Redactor>, size: (u16, u16)) -> Self {
        Self::new(
            verbosity,
            redactor,
            ProgressDrawTarget::stderr(),
            size,
            io::stderr(),
        )
    }
}

impl<W: Write> Progress<W> {
    /// Bars on `target`; `writer` takes the lines when the target turns out not to be a terminal.
    ///
    /// `rows` and `columns` are the terminal's size. More bars than rows would only scroll.
    pub fn new(
        verbosity: Verbosity,
        redactor: Arc<Redactor>,
        target: ProgressDrawTarget,
        (rows, columns): (u16, u16),
        writer: W,
    ) -> Self {
        let bars = MultiProgress::with_draw_target(target);
        let summary = bars.add(bar());
        Self {
            narrator: Narrator::new(verbosity, redactor),
            bars,
            summary,
            running: Vec::new(),
            most_running: usize::from(rows).saturating_sub(RESERVED_ROWS).max(1),
            columns: usize::from(columns).max(20),
            writer,
        }
    }

    /// Prints what is to be said of an event above the bars.
    pub fn on_event(&mut self, scoped: &ScopedEvent) -> io::Result<()> {
        for line in self.narrator.on_event(scoped) {
            self.emit(&line)?;
        }
        Ok(())
    }

    /// Draws the bars anew; `elapsed` is the run's age. To be called a few times a second.
    pub fn tick(&mut self, elapsed: Duration) {
        let narrator = &self.narrator;
        let lines: Vec<String> = narrator
            .running()
            .take(self.most_running)
            .map(|(name, cost, running)| {
                let (turn, most, doing) = (running.turn, running.max_turns, &running.doing);
                format!("  {name}  turn {turn}/{most}  {cost}  {doing}")
            })
            .collect();
        while self.running.len() > lines.len() {
            if let Some(bar) = self.running.pop() {
                self.bars.remove(&bar);
            }
        }
        while self.running.len() < lines.len() {
            let bar = self.bars.insert_before(&self.summary, bar());
            self.running.push(bar);
        }
        for (bar, line) in self.running.iter().zip(&lines) {
            bar.set_message(self.shown(line));
        }
        let hidden = narrator.running().count() - lines.len();
        let summary = summary_line(narrator, hidden, elapsed);
        self.summary.set_message(self.shown(&summary));
    }

    /// Takes the bars away; lines stay.
    pub fn finish(&mut self) -> io::Result<()> {
        for bar in self.running.drain(..) {
            bar.finish_and_clear();
        }
        self.summary.finish_and_clear();
        self.bars.clear()
    }

    /// The last line, for whoever prints it behind the results; `None` when it would say nothing.
    pub fn closing_line(&self, reports: Reports) -> Option<String> {
        self.narrator.closing_line(reports)
    }

    /// A line above the bars. A hidden target draws nothing, and prints no lines either, without an
    /// error; then the writer takes them.
    fn emit(&mut self, line: &str) -> io::Result<()> {
        if self.bars.is_hidden() {
            return self.writer.write_all(format!("{line}\n").as_bytes());
        }
        self.bars.println(line)
    }

    /// One row: a bar that wraps is drawn over its neighbours.
    fn shown(&self, line: &str) -> String {
        let indent = line.len() - line.trim_start().len();
        let line = super::github::neutralise(line);
        let text = one_line(&line, self.columns - indent - 1);
        format!("{}{text}", " ".repeat(indent))
    }
}

/// `5/8 done, 1 failed, 3 running (1 not shown), $0.0100, 1m01s`.
fn summary_line(narrator: &Narrator, hidden: usize, elapsed: Duration) -> String {
    let counts = narrator.counts();
    let mut parts = vec![format!("{}/{} done", counts.all(), narrator.planned())];
    let trouble = Counts {
        passed: 0,
        ..counts
    };
    if trouble.all() > 0 {
        parts.push(count_words(trouble));
    }
    let running = narrator.running().count();
    if hidden > 0 {
        parts.push(format!("{running} running ({hidden} not shown)"));
    } else if running > 0 {
        parts.push(format!("{running} running"));
    }
    parts.push(narrator.cost_words());
    parts.push(duration_words(elapsed));
    parts.join(", ")
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg}").expect("the template is well-formed");
    ProgressBar::new_spinner().with_style(style)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use indicatif::TermLike;

    use super::super::sample::{Sample, redactor};
    use super::*;
    use crate::stop::{Stop, StopReason};

    /// A terminal that keeps what is written.
    #[derive(Clone, Debug, Default)]
    struct Terminal(Arc<Mutex<String>>);

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            60
        }
        fn height(&self) -> u16 {
            5
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, line: &str) -> io::Result<()> {
            self.write_str(&format!("{line}\n"))
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_hidden_target_still_prints_its_lines() {
        let target = ProgressDrawTarget::hidden();
        let mut progress =
            Progress::new(Verbosity::Normal, redactor(), target, (24, 80), Vec::new());
        let mut sample = Sample::of(&[("job", &["a"])]);
        sample.passed((0, 0), "yes");
        for event in &sample.events {
            progress.on_event(event).unwrap();
        }
        progress.tick(Duration::from_secs(1));
        progress.finish().unwrap();
        assert_eq!(
            String::from_utf8(progress.writer).unwrap(),
            "PASS job/a  2 turns  $0.0420  4.2s\n"
        );
    }

    #[test]
    fn a_terminal_shows_what_fits_and_the_sum() {
        let terminal = Terminal::default();
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let mut progress =
            Progress::new(Verbosity::Normal, redactor(), target, (5, 60), Vec::new());
        let mut sample = Sample::of(&[("job", &["a", "b", "c", "d"])]);
        sample.passed((0, 0), "yes");
        for prompt in 1..4 {
            sample.init((0, prompt));
        }
        for event in &sample.events {
            progress.on_event(event).unwrap();
        }
        progress.tick(Duration::from_secs(61));
        assert_eq!(progress.running.len(), 2);
        assert_eq!(
            progress.running[0].message(),
            "  job/b  turn 0/5  $0.0000  starting"
        );
        assert_eq!(
            progress.summary.message(),
            "1/4 done, 3 running (1 not shown), $0.0210, 1m01s"
        );
        progress.finish().unwrap();
        assert!(terminal.0.lock().unwrap().contains("PASS job/a"));
        assert_eq!(progress.writer, b"");
    }

    #[test]
    fn the_sum_says_what_runs_and_what_went_wrong() {
        let target = ProgressDrawTarget::hidden();
        let mut progress =
            Progress::new(Verbosity::Normal, redactor(), target, (24, 80), Vec::new());
        let mut sample = Sample::of(&[("job", &["a", "b", "c"])]);
        let mut seen = 0;
        let mut sum = |sample: &Sample| {
            for event in &sample.events[seen..] {
                progress.on_event(event).unwrap();
            }
            seen = sample.events.len();
            progress.tick(Duration::from_millis(340));
            progress.summary.message()
        };
        assert_eq!(sum(&sample), "0/3 done, $0.0000, 340ms");
        sample.init((0, 0)).init((0, 1));
        assert_eq!(sum(&sample), "0/3 done, 2 running, $0.0000, 340ms");
        sample.result((0, 0), Stop::new(StopReason::MaxTurns, ""), "");
        assert_eq!(
            sum(&sample),
            "1/3 done, 1 failed, 1 running, $0.0000, 340ms"
        );
    }
}
