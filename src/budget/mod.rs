//! Money: what a usage costs, and the ledger that reserves the worst case before a request is sent.
//!
//! A ledger is arithmetic: it knows no requests in flight and never waits; waiting is `run`'s. The
//! invariant: spent + unsettled + reserved never exceeds the cap.

mod ledger;
mod prices;

pub use ledger::{Ledger, Refused, Reservation};
pub use prices::{cost, worst_case};
