//! How much of a result may be shown, so that all results of a turn together stay within bounds.

use crate::message::RequestNumber;

/// The most characters that the results of one turn may have together. Source: SPEC 5.4.
const TURN: usize = 200_000;

/// What every call may say, however much the others of its turn have said: the end of its result, and
/// where all of it is.
const LEAST: usize = 1_000;

/// What is left for the results of a turn.
#[derive(Debug)]
pub(super) struct TurnRoom {
    turn: RequestNumber,
    left: usize,
}

impl TurnRoom {
    pub(super) fn new() -> Self {
        Self {
            turn: RequestNumber(0),
            left: 0,
        }
    }

    /// A reply with this many calls has come: its turn begins.
    pub(super) fn begin(&mut self, turn: RequestNumber, calls: usize) {
        *self = Self {
            turn,
            left: TURN.saturating_sub(calls.saturating_mul(LEAST)),
        };
    }

    /// How many characters may be shown of a result of `chars`, of a tool that may show `most`.
    pub(super) fn take(&mut self, turn: RequestNumber, chars: usize, most: usize) -> usize {
        // A late result of an earlier turn goes nowhere.
        let left = if turn == self.turn {
            &mut self.left
        } else {
            &mut 0
        };
        let allowed = most.min(*left + LEAST);
        *left -= chars.min(allowed).saturating_sub(LEAST);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN_1: RequestNumber = RequestNumber(1);

    fn shown(calls: usize, chars: usize, most: usize) -> usize {
        let mut room = TurnRoom::new();
        room.begin(TURN_1, calls);
        (0..calls)
            .map(|_| chars.min(room.take(TURN_1, chars, most)))
            .sum()
    }

    #[test]
    fn all_results_of_a_turn_stay_within_its_bound() {
        assert_eq!(
            shown(3, 47_000, 50_000),
            141_000,
            "what fits is shown whole"
        );
        for calls in [5, 6, 8, 60, 200] {
            let shown = shown(calls, 47_000, 50_000);
            assert!((150_000..=TURN).contains(&shown), "{calls}: {shown}");
        }
        assert_eq!(
            shown(60, 100, 50_000),
            6_000,
            "small ones take nothing from each other"
        );
    }

    #[test]
    fn a_tool_has_its_own_bound_and_every_call_its_least() {
        let mut room = TurnRoom::new();
        room.begin(TURN_1, 2);
        assert_eq!(room.take(TURN_1, 500_000, 30_000), 30_000);
        assert_eq!(room.take(RequestNumber(7), 500_000, 30_000), LEAST);
    }
}
