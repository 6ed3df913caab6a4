//! Numbers in words, the same in every place where a person reads them.

use std::time::Duration;

use super::record::Counts;

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
