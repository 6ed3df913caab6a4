//! What is known of models: limits and prices, compiled in from `models.json`.
//!
//! Pure data. A price that is not known is `None`, never a guess; what a usage costs is `budget`'s.

mod catalogue;
mod money;

pub use catalogue::{Model, find, known_ids, nearest};
pub use money::{Price, PriceStep, TokenPrices, Usd};
