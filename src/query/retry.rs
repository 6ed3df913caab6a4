//! How long to wait before the next attempt.

use std::time::Duration;

use crate::message::{Failure, FailureKind};

const FIRST: Duration = Duration::from_millis(500);
const LONGEST_AFTER_STATUS: Duration = Duration::from_secs(32);
const LONGEST_AFTER_CONNECTION_FAULT: Duration = Duration::from_mins(5);

/// Time to wait after the failed attempt `attempt` (from 1).
///
/// Doubles from 500 ms, ±25 % drawn from `seed`; at most 32 s after an HTTP status, 5 min after a
/// connection fault. What the server asks for (`retry-after`) wins. Source: SPEC 5.6 after the retry
/// policy of Anthropic's SDKs.
pub fn delay(failure: &Failure, attempt: u32, seed: u64) -> Duration {
    if let Some(asked) = failure.retry_after {
        return asked;
    }
    let longest = match failure.kind {
        FailureKind::Connection | FailureKind::IdleTimeout | FailureKind::Truncated => {
            LONGEST_AFTER_CONNECTION_FAULT
        }
        FailureKind::Server
        | FailureKind::RateLimit
        | FailureKind::Overloaded
        | FailureKind::SpendLimit
        | FailureKind::Authentication
        | FailureKind::PromptTooLong
        | FailureKind::MaxTokensTooHigh
        | FailureKind::ThinkingSignature
        | FailureKind::Invalid
        | FailureKind::Protocol
        | FailureKind::Cassette
        | FailureKind::Cancelled => LONGEST_AFTER_STATUS,
    };
    let doubled = FIRST
        .saturating_mul(1 << attempt.saturating_sub(1).min(16))
        .min(longest);
    // 0.75 to 1.25 in steps of a thousandth.
    let jitter = 750 + splitmix(seed ^ u64::from(attempt)) % 501;
    (doubled * jitter as u32 / 1000).min(longest)
}

/// One output of the `SplitMix64` generator: spreads close seeds far apart.
fn splitmix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_within_a_quarter_up_to_the_longest() {
        for (kind, attempt, middle_ms) in [
            (FailureKind::Server, 1, 500),
            (FailureKind::Server, 3, 2000),
            (FailureKind::Connection, 9, 128_000),
        ] {
            for seed in 0..200 {
                let ms = delay(&Failure::new(kind, ""), attempt, seed).as_millis();
                assert!(
                    (middle_ms * 3 / 4..=middle_ms * 5 / 4).contains(&ms),
                    "{kind:?} {attempt}: {ms}"
                );
            }
        }
        assert!(delay(&Failure::new(FailureKind::Server, ""), 40, 1) <= LONGEST_AFTER_STATUS);
        assert!(
            delay(&Failure::new(FailureKind::Connection, ""), 40, 1)
                <= LONGEST_AFTER_CONNECTION_FAULT
        );
    }

    #[test]
    fn what_the_server_asks_for_wins_and_equal_seeds_give_equal_delays() {
        let mut failure = Failure::new(FailureKind::RateLimit, "");
        assert_eq!(delay(&failure, 2, 5), delay(&failure, 2, 5));
        failure.retry_after = Some(Duration::from_secs(70));
        assert_eq!(delay(&failure, 1, 5), Duration::from_secs(70));
    }
}
