//! Plain lines for CI logs: what happened, one line each, as it happens.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use crate::transcript::{Redactor, ScopedEvent};

use super::narrator::{Narrator, Reports, Verbosity};

/// Plain lines on a writer, for logs and pipes.
#[derive(Debug)]
pub struct Lines<W> {
    narrator: Narrator,
    writer: W,
}

impl<W: Write> Lines<W> {
    /// Lines on `writer`, usually standard error.
    pub fn new(verbosity: Verbosity, redactor: Arc<Redactor>, writer: W) -> Self {
        Self {
            narrator: Narrator::new(verbosity, redactor),
            writer,
        }
    }

    /// Says what is to be said of an event. The error is the writer's.
    pub fn on_event(&mut self, scoped: &ScopedEvent) -> io::Result<()> {
        for line in self.narrator.on_event(scoped) {
            self.emit(&line)?;
        }
        Ok(())
    }

    /// Says that the run is still alive; to be called each 30 s. `elapsed` is the run's age.
    pub fn heartbeat(&mut self, elapsed: Duration) -> io::Result<()> {
        match self.narrator.heartbeat(elapsed) {
            Some(line) => self.emit(&line),
            None => Ok(()),
        }
    }

    /// The last line, for whoever prints it behind the results; `None` when it would say nothing.
    pub fn closing_line(&self, reports: Reports) -> Option<String> {
        self.narrator.closing_line(reports)
    }

    /// In one write, so that lines of several writers do not mix.
    fn emit(&mut self, line: &str) -> io::Result<()> {
        self.writer.write_all(format!("{line}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Sample, mixed, redactor};
    use super::*;
    use uuid::Uuid;

    use crate::message::{Failure, FailureKind, ToolResult};
    use crate::query::Notice;
    use crate::stop::{Finding, Stop, StopReason};
    use crate::transcript::{CheckResult, EventBody};

    fn said(verbosity: Verbosity, sample: &Sample) -> String {
        let mut lines = Lines::new(verbosity, redactor(), Vec::new());
        for event in &sample.events {
            lines.on_event(event).unwrap();
        }
        let mut said = String::from_utf8(lines.writer).unwrap();
        if let Some(EventBody::RunEnded { .. }) = sample.events.last().map(|last| &last.event.body)
        {
            let closing = lines.narrator.closing_line(Reports::Written);
            said.extend(closing.map(|line| line + "\n"));
        }
        said
    }

    #[test]
    fn a_line_a_finished_prompt() {
        insta::assert_snapshot!(said(Verbosity::Normal, &mixed()), @r###"
PASS nightly/summary  2 turns  $0.0420  4.2s
denied: nightly/fix: Bash {"command":"rm -rf x"}: no rule allows it (would be allowed by Bash(rm -rf x))
nightly/fix: check-2 failed: exit status 101: test a ... FAILED
FAIL nightly/fix checks_failed  2 turns  $0.0420  4.2s: check-2: exit status 101
SKIP nightly/rest not_run: the provider refuses all requests
warning: gate/review: the reply named an unknown stop reason
ERROR gate/review model_error  2 turns  $0.0420  4.2s: asking the model: 500, server error
1 passed, 1 failed, 1 errored, 1 not run, $0.0420; reports in out
"###);
    }

    #[test]
    fn quiet_says_nothing_of_what_passed() {
        insta::assert_snapshot!(said(Verbosity::Quiet, &mixed()), @r###"
denied: nightly/fix: Bash {"command":"rm -rf x"}: no rule allows it (would be allowed by Bash(rm -rf x))
nightly/fix: check-2 failed: exit status 101: test a ... FAILED
FAIL nightly/fix checks_failed  2 turns  $0.0420  4.2s: check-2: exit status 101
SKIP nightly/rest not_run: the provider refuses all requests
warning: gate/review: the reply named an unknown stop reason
ERROR gate/review model_error  2 turns  $0.0420  4.2s: asking the model: 500, server error
1 passed, 1 failed, 1 errored, 1 not run, $0.0420; reports in out
"###);
        let mut sample = Sample::of(&[("job", &["a"])]);
        sample.run(EventBody::Warning {
            message: "old prices".into(),
        });
        sample.denied((0, 0)).passed((0, 0), "yes").ended(0, None);
        assert_eq!(said(Verbosity::Quiet, &sample), "");
        assert_eq!(
            said(Verbosity::Normal, &sample).lines().next(),
            Some("warning: old prices")
        );
    }

    #[test]
    fn a_warning_of_the_run_is_quiet_whatever_fails() {
        let mut sample = Sample::of(&[("job", &["a"])]);
        let message = "job.yaml:3:5: look at this".to_owned();
        sample.run(EventBody::Warning { message });
        sample.result((0, 0), Stop::new(StopReason::MaxTurns, "too many"), "");
        let quiet = said(Verbosity::Quiet, &sample);
        assert!(quiet.starts_with("FAIL job/a"), "{quiet}");
    }

    #[test]
    fn the_last_line_does_not_name_reports_that_are_not_there() {
        let mut sample = Sample::of(&[("job", &["a"])]);
        sample.passed((0, 0), "yes").ended(0, None);
        let mut lines = Lines::new(Verbosity::Quiet, redactor(), Vec::new());
        for event in &sample.events {
            lines.on_event(event).unwrap();
        }
        assert_eq!(lines.closing_line(Reports::Written), None);
        assert_eq!(
            lines.closing_line(Reports::Incomplete).as_deref(),
            Some("1 passed, $0.0210; not all reports could be written in out")
        );
    }

    #[test]
    fn verbose_logs_each_turn_and_each_result() {
        let mut sample = Sample::of(&[("job", &["a"])]);
        sample.init((0, 0)).turn((0, 0), 1, "step 1", true);
        sample.passed((0, 0), "done").ended(0, None);
        insta::assert_snapshot!(said(Verbosity::Verbose, &sample), @r###"
job/a: turn 1: 1 message, 1 tool_use, follow-up
job/a:   Read a: ok, 7 chars
job/a: turn 1: 1 message, 0 tool_use, no follow-up
PASS job/a  2 turns  $0.0420  4.2s
1 passed, $0.0420; reports in out
"###);
    }

    #[test]
    fn a_retry_is_said_and_foreign_text_issues_no_command() {
        let mut sample = Sample::of(&[("job", &["a"])]);
        let failure = Failure::new(
            FailureKind::Overloaded,
            "asking: 529 ##[add-mask]y hunter2-hunter2 \u{1b}[31m\n::error::x",
        );
        sample.notice(
            (0, 0),
            Notice::Retry {
                attempt: 1,
                max_retries: 3,
                delay: Duration::from_millis(500),
                failure,
            },
        );
        assert_eq!(
            said(Verbosity::Normal, &sample),
            "retry: job/a: attempt 1 of 4 failed, again in 500ms: asking: 529 \
             #\u{200b}#[add-mask]y ***\n"
        );
    }

    #[test]
    fn of_a_message_of_several_lines_the_first_is_said() {
        let mut sample = Sample::of(&[("job", &["a", "b"])]);
        let mut stop = Stop::new(
            StopReason::Completed,
            "2 calls denied\nBash: no rule allows it\nRead: `.env` is denied",
        );
        stop.finding = Some(Finding::PermissionDenied);
        sample.init((0, 0)).result((0, 0), stop, "");
        let message = "\nslow\nvery slow".to_owned();
        sample.prompt((0, 1), EventBody::Warning { message });
        let stop = Stop::new(StopReason::NotRun, "the provider refuses\nall requests");
        sample.result((0, 1), stop, "");
        insta::assert_snapshot!(said(Verbosity::Normal, &sample), @r###"
FAIL job/a permission_denied  2 turns  $0.0420  4.2s: 2 calls denied
warning: job/b: slow
SKIP job/b not_run: the provider refuses
"###);
    }

    #[test]
    fn a_check_without_output_ends_without_a_colon() {
        let mut sample = Sample::of(&[("job", &["a"])]);
        for output in ["", "\n \n", "\u{1b}[0m\n"] {
            let check = CheckResult {
                id: "check-1".to_owned(),
                line: 3,
                command: "false".to_owned(),
                passed: false,
                message: "`false` exited with 1".to_owned(),
                output: output.to_owned(),
                duration: Duration::ZERO,
            };
            sample.prompt((0, 0), EventBody::Check(check));
        }
        assert_eq!(
            said(Verbosity::Normal, &sample),
            "job/a: check-1 failed: `false` exited with 1\n".repeat(3)
        );
    }

    #[test]
    fn what_a_cassette_answered_is_not_said_to_be_spent() {
        let mut sample = Sample::replaying(&[("job", &["a", "b"])]);
        sample.passed((0, 0), "yes").ended(1, None);
        insta::assert_snapshot!(said(Verbosity::Normal, &sample), @r###"
PASS job/a  2 turns  $0.0420 replayed  4.2s
1 passed, $0.0210 replayed, 1 without a result; reports in out
"###);
    }

    #[test]
    fn an_error_of_a_tool_is_told_with_the_call_it_answers() {
        let mut sample = Sample::of(&[("job", &["a"])]);
        sample.init((0, 0)).turn((0, 0), 1, "", true);
        for (id, text, is_error) in [
            ("t1", "a has not been read yet\nRead it first.", true),
            ("t1", "\n", true),
            ("t2", "of no call: hunter2-hunter2", true),
            ("t2", "not said", false),
        ] {
            let result = EventBody::ToolResult {
                result: ToolResult::text(id, text, is_error),
                tool_name: "Edit".to_owned(),
                notes: vec![],
                assistant: Uuid::nil(),
                duration: Duration::ZERO,
            };
            sample.prompt((0, 0), result);
        }
        let said = said(Verbosity::Verbose, &sample);
        let (_, said) = said.split_once("7 chars\n").unwrap();
        insta::assert_snapshot!(said, @r###"
job/a:   Edit a: error, 38 chars: a has not been read yet
job/a:   Edit a: error, 1 char
job/a:   Edit: error, 27 chars: of no call: ***
job/a:   Edit: ok, 8 chars
"###);
    }

    #[test]
    fn a_secret_of_several_lines_is_masked_before_its_first_is_taken() {
        let secret = "first-half-of-it\nsecond-half-of-it";
        let redactor = Arc::new(Redactor::new([secret]));
        let mut lines = Lines::new(Verbosity::Normal, redactor, Vec::new());
        let mut sample = Sample::of(&[("job", &["a"])]);
        let message = format!("found {secret}");
        sample.prompt((0, 0), EventBody::Warning { message });
        for event in &sample.events {
            lines.on_event(event).unwrap();
        }
        assert_eq!(lines.writer, b"warning: job/a: found ***\n");
    }

    #[test]
    fn a_secret_is_masked_before_the_line_is_cut() {
        let mut sample = Sample::of(&[("job", &["a"])]);
        for padding in [480, 490, 495] {
            let message = format!("{}hunter2-hunter2 tail", "x".repeat(padding));
            sample.prompt((0, 0), EventBody::Warning { message });
        }
        assert!(!said(Verbosity::Normal, &sample).contains("hunt"));
    }

    #[test]
    fn a_heartbeat_says_what_is_running() {
        let mut sample = Sample::of(&[("job", &["a", "b", "c", "d", "e", "f"])]);
        sample.passed((0, 0), "yes");
        for prompt in 1..6 {
            sample.init((0, prompt));
        }
        sample.turn((0, 1), 1, "", true);
        let mut lines = Lines::new(Verbosity::Normal, redactor(), Vec::new());
        lines.heartbeat(Duration::from_secs(30)).unwrap();
        for event in &sample.events {
            lines.on_event(event).unwrap();
        }
        lines.writer.clear();
        lines.heartbeat(Duration::from_secs(90)).unwrap();
        insta::assert_snapshot!(String::from_utf8(lines.writer).unwrap(), @r###"
running for 1m30s: 1/6 done, $0.0420; job/b turn 1/5 running Read; job/c turn 0/5 starting; job/d turn 0/5 starting; 2 more
"###);
    }

    #[test]
    fn an_aborted_run_says_so() {
        let mut sample = Sample::of(&[("job", &["a", "b"])]);
        sample.init((0, 0));
        sample.result(
            (0, 0),
            Stop::new(StopReason::Aborted, "ended by SIGTERM"),
            "",
        );
        sample.ended(143, Some("SIGTERM"));
        insta::assert_snapshot!(said(Verbosity::Quiet, &sample), @r###"
ERROR job/a aborted  2 turns  $0.0420  4.2s: ended by SIGTERM
1 errored, $0.0000, 1 without a result, ended by SIGTERM; reports in out
"###);
    }
}
