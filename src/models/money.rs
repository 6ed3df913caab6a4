//! Money and prices as integers.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

/// US dollars in millionths of a millionth, so that the price of one token of the cheapest kind is whole.
///
/// A `u64` holds 18 million dollars; arithmetic saturates, which only ever refuses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(u64);

impl Usd {
    /// No money.
    pub const ZERO: Self = Self(0);
    const PER_DOLLAR: u64 = 1_000_000_000_000;

    /// From picodollars.
    pub const fn from_picos(picos: u64) -> Self {
        Self(picos)
    }

    /// In picodollars.
    pub const fn picos(self) -> u64 {
        self.0
    }

    /// From a decimal as people write it (`0.5`, `2`, `1e-3`); `None` unless it is finite, not
    /// negative, and at most 18 million.
    pub fn from_decimal(dollars: f64) -> Option<Self> {
        let picos = (dollars * Self::PER_DOLLAR as f64).round();
        #[expect(clippy::cast_sign_loss, reason = "checked to lie in the range of u64")]
        (picos.is_finite() && (0.0..1.8e19).contains(&picos)).then_some(Self(picos as u64))
    }

    /// For reports and JSON; exact to a picodollar below ten thousand dollars.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / Self::PER_DOLLAR as f64
    }

    /// `self` times a count of tokens.
    #[must_use]
    pub fn times(self, tokens: u64) -> Self {
        Self(self.0.saturating_mul(tokens))
    }

    /// What is left of `self` after `other`, not below nothing.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Usd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Usd {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Usd {
    /// `$0.0210`: four digits behind the point, rounded up so that something spent is never shown as nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = self.0.div_ceil(Self::PER_DOLLAR / 10_000);
        write!(f, "${}.{:04}", steps / 10_000, steps % 10_000)
    }
}

/// The price of one token of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenPrices {
    /// Input that is neither read from nor written to the cache.
    pub input: Usd,
    /// Output, thinking included.
    pub output: Usd,
    /// Input written to the cache for five minutes.
    pub cache_write_5m: Usd,
    /// Input written to the cache for an hour.
    pub cache_write_1h: Usd,
    /// Input read from the cache.
    pub cache_read: Usd,
}

/// Other prices for the whole request when its prompt is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriceStep {
    /// The prices hold when input, cache reads and cache writes together exceed this many tokens.
    pub above_prompt_tokens: u64,
    /// The prices then, of all tokens of the request.
    pub prices: TokenPrices,
}

/// What a model costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// Nothing: a local server, `price: none`.
    Free,
    /// By tokens.
    PerToken {
        /// The ordinary prices.
        prices: TokenPrices,
        /// Dearer (or cheaper) prices for long prompts.
        step: Option<PriceStep>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_is_exact_and_nonsense_is_refused() {
        assert_eq!(
            Usd::from_decimal(0.5),
            Some(Usd::from_picos(500_000_000_000))
        );
        assert_eq!(Usd::from_decimal(0.1).unwrap().as_f64().to_string(), "0.1");
        for bad in [f64::NAN, f64::INFINITY, -0.01, 1e9] {
            assert_eq!(Usd::from_decimal(bad), None, "{bad}");
        }
    }

    #[test]
    fn something_spent_is_never_shown_as_nothing() {
        assert_eq!(Usd::from_picos(1).to_string(), "$0.0001");
        assert_eq!(Usd::from_decimal(12.0345).unwrap().to_string(), "$12.0345");
        assert_eq!(Usd::ZERO.to_string(), "$0.0000");
    }
}
