//! From usage to money.

use crate::message::Usage;
use crate::models::{Price, TokenPrices, Usd};

/// What a reply costs, each kind of token by its own price and price steps included.
pub fn cost(price: &Price, usage: &Usage) -> Usd {
    let Price::PerToken { prices, step } = price else {
        return Usd::ZERO;
    };
    let prices = match step {
        Some(step) if usage.prompt_tokens() > step.above_prompt_tokens => &step.prices,
        _ => prices,
    };
    let written_5m = usage
        .cache_creation_input_tokens
        .saturating_sub(usage.cache_creation_1h_input_tokens);
    prices.input.times(usage.input_tokens)
        + prices.output.times(usage.output_tokens)
        + prices.cache_write_5m.times(written_5m)
        + prices
            .cache_write_1h
            .times(usage.cache_creation_1h_input_tokens)
        + prices.cache_read.times(usage.cache_read_input_tokens)
}

/// The most a request can cost: `input_bound` tokens at the dearest input price that can apply, plus
/// `max_tokens` of output.
///
/// The runner asks for five-minute cache entries only, so the one-hour price never applies.
pub fn worst_case(price: &Price, input_bound: u64, max_tokens: u64) -> Usd {
    let Price::PerToken { prices, step } = price else {
        return Usd::ZERO;
    };
    let under = |prices: &TokenPrices| {
        let input = prices
            .input
            .max(prices.cache_write_5m)
            .max(prices.cache_read);
        input.times(input_bound) + prices.output.times(max_tokens)
    };
    match step {
        Some(step) if input_bound > step.above_prompt_tokens => {
            under(prices).max(under(&step.prices))
        }
        _ => under(prices),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::PriceStep;

    fn per_million(input: f64, output: f64, write: f64, read: f64) -> TokenPrices {
        let picos = |usd: f64| Usd::from_picos(Usd::from_decimal(usd).unwrap().picos() / 1_000_000);
        TokenPrices {
            input: picos(input),
            output: picos(output),
            cache_write_5m: picos(write),
            cache_write_1h: picos(2.0 * input),
            cache_read: picos(read),
        }
    }

    #[test]
    fn g14_cache_tokens_have_their_own_price() {
        let price = Price::PerToken {
            prices: per_million(3.0, 15.0, 3.75, 0.3),
            step: None,
        };
        let usage = Usage {
            input_tokens: 1000,
            output_tokens: 500,
            cache_creation_input_tokens: 2000,
            cache_read_input_tokens: 10_000,
            ..Usage::default()
        };
        assert_eq!(cost(&price, &usage), Usd::from_decimal(0.021).unwrap());
    }

    #[test]
    fn a_price_step_bills_the_whole_request() {
        let step = PriceStep {
            above_prompt_tokens: 100,
            prices: per_million(6.0, 30.0, 7.5, 0.6),
        };
        let price = Price::PerToken {
            prices: per_million(3.0, 15.0, 3.75, 0.3),
            step: Some(step),
        };
        let usage = |input_tokens| Usage {
            input_tokens,
            output_tokens: 1,
            ..Usage::default()
        };
        assert_eq!(
            cost(&price, &usage(100)).picos(),
            100 * 3_000_000 + 15_000_000
        );
        assert_eq!(
            cost(&price, &usage(101)).picos(),
            101 * 6_000_000 + 30_000_000
        );
    }

    #[test]
    fn the_worst_case_bounds_every_split_of_the_input() {
        let price = Price::PerToken {
            prices: per_million(3.0, 15.0, 3.75, 0.3),
            step: None,
        };
        let bound = worst_case(&price, 1000, 10);
        for written in [0, 400, 1000] {
            let usage = Usage {
                input_tokens: 1000 - written,
                cache_creation_input_tokens: written,
                output_tokens: 10,
                ..Usage::default()
            };
            assert!(cost(&price, &usage) <= bound);
        }
    }
}
