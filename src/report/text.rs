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
