//! Standard output of `--format text`: the answers, and nothing else.

use crate::stop::{Outcome, StopReason};

use super::github::neutralise;
use super::record::{PromptRecord, RunRecord};

/// The final text of every prompt that passed. In a run of one prompt it stands alone, else below a line
/// with job and prompt.
///
/// A prompt whose transcript could not be written is shown too: nowhere else is its work kept.
pub fn text(record: &RunRecord) -> String {
    let is_alone = record.prompts().count() == 1;
    let mut text = String::new();
    for (job, prompt) in record.prompts().filter(|(_, prompt)| is_shown(prompt)) {
        if !is_alone {
            if !text.is_empty() {
                text.push('\n');
            }
            let header = format!("== {} / {} ==\n", job.name, prompt.id);
            text.push_str(&neutralise(&header));
        }
        text.push_str(&neutralise(&prompt.result));
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

fn is_shown(prompt: &PromptRecord) -> bool {
    let is_kept =
        prompt.outcome == Outcome::Passed || prompt.stop_reason == StopReason::RecordFailed;
    is_kept && !prompt.result.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Sample, mixed};
    use super::*;
    use crate::stop::Stop;

    #[test]
    fn a_single_answer_stands_alone() {
        let mut sample = Sample::of(&[("job", &["a"])]);
        sample.passed((0, 0), "4\n::error::x");
        assert_eq!(text(&sample.record()), "4\n:\u{200b}:error::x\n");
    }

    #[test]
    fn several_answers_are_named_and_failures_leave_none() {
        assert_eq!(
            text(&mixed().record()),
            "== nightly / summary ==\nNothing broke.\nAll is well.\n"
        );
    }

    #[test]
    fn work_that_could_not_be_recorded_is_shown() {
        let mut sample = Sample::of(&[("job", &["a"])]);
        sample.init((0, 0));
        let stop = Stop::new(
            StopReason::RecordFailed,
            "writing the transcript: disk full",
        );
        sample.result((0, 0), stop, "the answer");
        assert_eq!(text(&sample.record()), "the answer\n");
    }
}
