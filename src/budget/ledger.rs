//! One cap and what is set against it.

use crate::models::Usd;

/// Money set aside for one request. Must be given back to the ledger it came from.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a reservation that is dropped stays set aside for ever"]
pub struct Reservation {
    amount: Usd,
}

impl Reservation {
    /// How much is set aside.
    pub fn amount(&self) -> Usd {
        self.amount
    }
}

/// A request does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What it could have cost.
    pub wanted: Usd,
    /// What is left under the cap.
    pub left: Usd,
}

/// A cap with what was spent, what may have been spent, and what is set aside.
#[derive(Debug, Default)]
pub struct Ledger {
    cap: Option<Usd>,
    spent: Usd,
    unsettled: Usd,
    reserved: Usd,
}

impl Ledger {
    /// A ledger with a cap; without one everything fits.
    pub fn new(cap: Option<Usd>) -> Self {
        Self {
            cap,
            ..Self::default()
        }
    }

    /// The cap.
    pub fn cap(&self) -> Option<Usd> {
        self.cap
    }

    /// What replies have cost, by their final usage.
    pub fn spent(&self) -> Usd {
        self.spent
    }

    /// What attempts without a final usage may have cost, at most.
    pub fn unsettled(&self) -> Usd {
        self.unsettled
    }

    /// What may still be set aside; `None` without a cap.
    pub fn left(&self) -> Option<Usd> {
        self.cap
            .map(|cap| cap.saturating_sub(self.spent + self.unsettled + self.reserved))
    }

    /// Sets `amount` aside, if it fits.
    pub fn reserve(&mut self, amount: Usd) -> Result<Reservation, Refused> {
        match self.left() {
            Some(left) if amount > left => Err(Refused {
                wanted: amount,
                left,
            }),
            _ => {
                self.reserved += amount;
                Ok(Reservation { amount })
            }
        }
    }

    /// The request is over and cost this much, which its reservation covers.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "giving a reservation back uses it up"
    )]
    pub fn settle(&mut self, reservation: Reservation, cost: Usd) {
        let Reservation { amount } = reservation;
        self.reserved = self.reserved - amount;
        self.spent += cost;
    }

    /// The request is over and nobody knows what it cost: all of its reservation counts.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "giving a reservation back uses it up"
    )]
    pub fn keep(&mut self, reservation: Reservation) {
        let Reservation { amount } = reservation;
        self.reserved = self.reserved - amount;
        self.unsettled += amount;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_does_not_fit_is_refused_with_both_figures() {
        let mut ledger = Ledger::new(Some(Usd::from_picos(10)));
        let held = ledger.reserve(Usd::from_picos(7)).unwrap();
        assert_eq!(
            ledger.reserve(Usd::from_picos(4)),
            Err(Refused {
                wanted: Usd::from_picos(4),
                left: Usd::from_picos(3)
            })
        );
        ledger.settle(held, Usd::from_picos(1));
        assert_eq!(ledger.left(), Some(Usd::from_picos(9)));
    }

    proptest! {
        #[test]
        fn nothing_ever_exceeds_the_cap(cap in 0u64..1000, wishes in prop::collection::vec((0u64..300, 0u64..300, 0u8..3), 0..50)) {
            let mut ledger = Ledger::new(Some(Usd::from_picos(cap)));
            let mut held = Vec::new();
            for (wish, cost, action) in wishes {
                if let Ok(reservation) = ledger.reserve(Usd::from_picos(wish)) {
                    held.push((reservation, cost.min(wish)));
                }
                match action {
                    0 => if let Some((reservation, cost)) = held.pop() { ledger.settle(reservation, Usd::from_picos(cost)) },
                    1 => if let Some((reservation, _)) = held.pop() { ledger.keep(reservation) },
                    _ => {}
                }
                prop_assert!(ledger.spent() + ledger.unsettled() + ledger.reserved <= Usd::from_picos(cap));
            }
        }
    }
}
