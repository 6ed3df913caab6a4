//! Numbers in words, the same in every place where a person reads them.

use std::fmt;
use std::time::Duration;

use crate::models::Usd;

use super::record::{Counts, PromptRecord};

/// What a prompt cost. What a cassette answered was paid for when it was recorded, if ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    /// `None` when the price is not known.
    amount: Option<Usd>,
    is_replayed: bool,
}

impl Cost {
    /// `model` as reports name it.
    pub(super) fn of(model: &str, amount: Option<Usd>) -> Self {
        Self {
            amount,
            is_replayed: model.starts_with("replay/"),
        }
    }

    pub(super) fn of_prompt(prompt: &PromptRecord) -> Self {
        Self::of(&prompt.model, prompt.cost)
    }

    /// What was spent, and apart from it what was replayed, as far as there is either: `$0.0210`,
    /// `$0.0210 replayed`, `$0.0210, $0.0042 replayed`.
    pub(super) fn sum_words(costs: impl IntoIterator<Item = Self>) -> String {
        let (replayed, spent): (Vec<Self>, Vec<Self>) =
            costs.into_iter().partition(|cost| cost.is_replayed);
        let sum = |costs: &[Self], is_replayed| Self {
            amount: costs.iter().map(|cost| cost.amount).sum(),
            is_replayed,
        };
        let mut words = Vec::new();
        if !spent.is_empty() || replayed.is_empty() {
            words.push(sum(&spent, false).to_string());
        }
        if !replayed.is_empty() {
            words.push(sum(&replayed, true).to_string());
        }
        words.join(", ")
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.amount, self.is_replayed) {
            (None, false) => f.write_str("cost unknown"),
            // Whatever it would have cost, nothing was spent.
            (None, true) => f.write_str("replayed"),
            (Some(amount), false) => amount.fmt(f),
            (Some(amount), true) => write!(f, "{amount} replayed"),
        }
    }
}

/// `3 passed, 1 failed`: only what there is.
pub(super) fn count_words(counts: Counts) -> String {
    let words: Vec<String> = [
        (counts.passed, "passed"),
        (counts.failed, "failed"),
        (counts.errored, "errored"),
        (counts.skipped, "not run"),
    ]
    .iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, word)| format!("{count} {word}"))
    .collect();
    if words.is_empty() {
        "nothing to run".to_owned()
    } else {
        words.join(", ")
    }
}

/// `1 turn`, `3 turns`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// `340ms`, `4.2s`, `1m05s`, `2h03m`.
pub(super) fn duration_words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds == 0 {
        return format!("{}ms", duration.as_millis());
    }
    if seconds < 60 {
        return format!("{}.{}s", seconds, duration.subsec_millis() / 100);
    }
    if seconds < 3600 {
        return format!("{}m{:02}s", seconds / 60, seconds % 60);
    }
    format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_replayed_is_told_from_what_was_spent() {
        let paid = |dollars| Cost::of("anthropic/claude-x", Usd::from_decimal(dollars));
        let replayed = |dollars| Cost::of("replay/claude.yaml", Usd::from_decimal(dollars));
        let unknown = Cost::of("anthropic/claude-x", None);
        for (costs, words) in [
            (vec![], "$0.0000"),
            (vec![paid(0.5), paid(0.25)], "$0.7500"),
            (vec![replayed(0.5), replayed(0.25)], "$0.7500 replayed"),
            (
                vec![replayed(0.5), paid(0.1), replayed(0.25)],
                "$0.1000, $0.7500 replayed",
            ),
            (vec![unknown, paid(0.1)], "cost unknown"),
            (vec![Cost::of("replay/claude.yaml", None)], "replayed"),
        ] {
            assert_eq!(Cost::sum_words(costs), words);
        }
    }

    #[test]
    fn durations_in_words() {
        for (millis, words) in [
            (0, "0ms"),
            (340, "340ms"),
            (1_000, "1.0s"),
            (4_290, "4.2s"),
            (65_000, "1m05s"),
            (7_400_000, "2h03m"),
        ] {
            assert_eq!(duration_words(Duration::from_millis(millis)), words);
        }
    }
}
