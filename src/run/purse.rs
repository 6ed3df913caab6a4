//! The money of one conversation: reserved before a request is sent, settled after.

use std::collections::HashMap;

use crate::budget::{self, Ledger, Reservation};
use crate::message::{Billing, Failure, Reply, Request, RequestNumber};
use crate::models::{self, Price, Usd};

/// Said of a reply that cannot be priced.
const NO_USAGE: &str = "the provider reported no usage; the whole reservation counts";

/// What may be spent, what was, and what is set aside for requests that are out.
pub(super) struct Purse {
    ledger: Ledger,
    reserved: HashMap<RequestNumber, Reservation>,
    price: Price,
    /// Whether the price is the job file's, so that it holds whatever model answers.
    price_is_given: bool,
    /// The price of a model that answered in place of the one that was asked: it may do so again.
    answered: Option<Price>,
}

/// What a reply cost, and what to say when that was more than there was.
pub(super) struct Settled {
    pub(super) cost: Usd,
    pub(super) overspent: Option<String>,
}

impl Purse {
    pub(super) fn new(cap: Option<Usd>, price: Price, price_is_given: bool) -> Self {
        Self {
            ledger: Ledger::new(cap),
            reserved: HashMap::new(),
            price,
            price_is_given,
            answered: None,
        }
    }

    /// What replies have cost.
    pub(super) fn spent(&self) -> Usd {
        self.ledger.spent()
    }

    /// What attempts without a final usage may have cost.
    pub(super) fn unsettled(&self) -> Usd {
        self.ledger.unsettled()
    }

    /// Sets the worst case of a request aside, its `max_tokens` lowered if that makes it fit, and returns
    /// the amount; the error says why it does not fit.
    pub(super) fn reserve(
        &mut self,
        request: &mut Request,
        input_bound: u64,
        max_tokens_floor: u64,
    ) -> Result<Usd, String> {
        let worst = |max_tokens| self.worst_case(input_bound, max_tokens);
        if let Some(left) = self.ledger.left() {
            request.max_tokens = fitting(&worst, left, request.max_tokens, max_tokens_floor);
        }
        match self.ledger.reserve(worst(request.max_tokens)) {
            Ok(reservation) => {
                let amount = reservation.amount();
                self.reserved.insert(request.number, reservation);
                Ok(amount)
            }
            Err(refused) => Err(self.refusal(&refused)),
        }
    }

    fn worst_case(&self, input_bound: u64, max_tokens: u64) -> Usd {
        let prices = std::iter::once(&self.price).chain(&self.answered);
        let worst = prices.map(|price| budget::worst_case(price, input_bound, max_tokens));
        worst.max().unwrap_or_default()
    }

    fn refusal(&self, refused: &budget::Refused) -> String {
        let (spent, cap) = (self.spent(), self.ledger.cap().unwrap_or_default());
        let maybe = match self.unsettled() {
            Usd::ZERO => String::new(),
            unsettled => format!(" and up to {unsettled} on attempts that broke off"),
        };
        format!(
            "spent {spent}{maybe} of {cap}; the next request could cost {}, and {} is left",
            refused.wanted, refused.left
        )
    }

    /// A whole reply came: what it cost. One that nobody can price counts with its whole reservation as
    /// unsettled, which a warning of the reply then says.
    pub(super) fn settle(&mut self, request: RequestNumber, reply: &mut Reply) -> Settled {
        let reservation = self.reserved.remove(&request);
        let price = self.price_of(reply);
        if !reply.usage_is_final && price != Price::Free {
            reply.warnings.push(NO_USAGE.to_owned());
            if let Some(reservation) = reservation {
                self.ledger.keep(reservation);
            }
            return Settled {
                cost: Usd::ZERO,
                overspent: None,
            };
        }
        let cost = budget::cost(&price, &reply.usage);
        if price != self.price {
            self.answered = Some(price);
        }
        if let Some(reservation) = reservation {
            self.ledger.settle(reservation, cost);
        }
        let cap = self
            .ledger
            .cap()
            .filter(|cap| self.spent() + self.unsettled() > *cap);
        let overspent = cap.map(|cap| {
            format!(
                "spent {} of {cap}: the last reply, by {}, cost {cost}, more than was asked for",
                self.spent(),
                reply.model
            )
        });
        Settled { cost, overspent }
    }

    /// No whole reply came: what that may have cost.
    pub(super) fn settle_failure(&mut self, request: RequestNumber, failure: &Failure) -> Usd {
        let Some(reservation) = self.reserved.remove(&request) else {
            return Usd::ZERO;
        };
        match failure.billing {
            Billing::Nothing => {
                self.ledger.settle(reservation, Usd::ZERO);
                Usd::ZERO
            }
            Billing::Unknown(_) => {
                let amount = reservation.amount();
                self.ledger.keep(reservation);
                amount
            }
        }
    }

    /// Nobody will say any more what the requests that are still out have cost.
    pub(super) fn give_up(&mut self) {
        for (_, reservation) in self.reserved.drain() {
            self.ledger.keep(reservation);
        }
    }

    /// The price of the model that answered where it is known, else of the one that was asked.
    fn price_of(&self, reply: &Reply) -> Price {
        match self.price {
            asked @ Price::PerToken { .. } if !self.price_is_given => models::nearest(&reply.model)
                .and_then(|model| model.price)
                .unwrap_or(asked),
            asked => asked,
        }
    }
}

/// The most output tokens, up to `wished`, whose worst case fits `left`; `floor` at least, which may
/// then not fit.
fn fitting(worst: &dyn Fn(u64) -> Usd, left: Usd, wished: u64, floor: u64) -> u64 {
    if worst(wished) <= left {
        return wished;
    }
    let (mut fits, mut too_many) = (floor.min(wished), wished);
    while too_many - fits > 1 {
        let middle = fits + (too_many - fits) / 2;
        if worst(middle) <= left {
            fits = middle;
        } else {
            too_many = middle;
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::message::{Head, Usage};

    fn reply(usage_is_final: bool) -> Reply {
        Reply {
            id: None,
            request_id: None,
            model: "m".into(),
            blocks: vec![],
            calls: vec![],
            text: String::new(),
            stop_reason: None,
            stop_details: Value::Null,
            usage: Usage {
                input_tokens: 10,
                output_tokens: 5,
                ..Usage::default()
            },
            usage_is_final,
            warnings: vec![],
            duration: Duration::ZERO,
        }
    }

    #[test]
    fn a_reply_that_cannot_be_priced_keeps_its_whole_reservation() {
        let price = models::find("claude-haiku-4-5").unwrap().price.unwrap();
        let cap = Usd::from_picos(1_000_000_000_000);
        let mut purse = Purse::new(Some(cap), price, true);
        let mut settle = |usage_is_final| {
            let head = Head {
                model: "m".into(),
                system: String::new(),
                tools: vec![],
            };
            let mut request = Request {
                number: RequestNumber(1),
                head: Arc::new(head),
                max_tokens: 1000,
                messages: vec![],
                breakpoints: vec![],
            };
            let reserved = purse.reserve(&mut request, 1000, 1).unwrap();
            let mut reply = reply(usage_is_final);
            let cost = purse.settle(request.number, &mut reply).cost;
            (
                reserved,
                cost,
                purse.spent(),
                purse.unsettled(),
                reply.warnings,
            )
        };
        let (reserved, cost, spent, unsettled, warnings) = settle(false);
        assert!(reserved > Usd::ZERO);
        assert_eq!((cost, spent, unsettled), (Usd::ZERO, Usd::ZERO, reserved));
        assert_eq!(warnings, [NO_USAGE]);
        let (_, cost, spent, still_unsettled, warnings) = settle(true);
        assert!(Usd::ZERO < cost && cost < reserved);
        assert_eq!((spent, still_unsettled), (cost, unsettled));
        assert_eq!(warnings, [""; 0]);
    }

    #[test]
    fn the_output_limit_is_lowered_to_what_fits_and_not_below_the_floor() {
        let worst = |max_tokens: u64| Usd::from_picos(100 + max_tokens);
        let fit = |left, wished, floor| fitting(&worst, Usd::from_picos(left), wished, floor);
        assert_eq!(fit(1000, 500, 50), 500);
        assert_eq!(fit(400, 500, 50), 300);
        assert_eq!(fit(600, 500, 50), 500);
        assert_eq!(fit(120, 500, 50), 50, "which the ledger then refuses");
    }
}
