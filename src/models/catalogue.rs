//! The compiled-in list of models.

use std::sync::OnceLock;

use serde::Deserialize;

use super::money::{Price, PriceStep, TokenPrices, Usd};

/// What is known of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its id on the wire.
    pub id: String,
    /// Other names for it.
    pub aliases: Vec<String>,
    /// Input and output together, in tokens; `None` when not published.
    pub context_window: Option<u64>,
    /// The most tokens a reply may have; `None` when not published.
    pub max_output: Option<u64>,
    /// What it costs; `None` when not published.
    pub price: Option<Price>,
}

#[derive(Deserialize)]
struct Catalogue {
    anthropic: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    #[serde(default)]
    aliases: Vec<String>,
    context_window_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    usd_per_mtok: Option<PerMillion>,
    long_context: Option<LongContext>,
}

#[derive(Deserialize)]
struct PerMillion {
    input: f64,
    output: f64,
    cache_write_5m: f64,
    cache_write_1h: f64,
    cache_read: f64,
}

#[derive(Deserialize)]
struct LongContext {
    threshold_prompt_tokens: u64,
    usd_per_mtok: PerMillion,
}

impl PerMillion {
    /// `None` when a figure is not a price.
    fn per_token(&self) -> Option<TokenPrices> {
        let per_token = |per_million: f64| {
            Usd::from_decimal(per_million).map(|usd| Usd::from_picos(usd.picos() / 1_000_000))
        };
        Some(TokenPrices {
            input: per_token(self.input)?,
            output: per_token(self.output)?,
            cache_write_5m: per_token(self.cache_write_5m)?,
            cache_write_1h: per_token(self.cache_write_1h)?,
            cache_read: per_token(self.cache_read)?,
        })
    }
}

impl Entry {
    fn price(&self) -> Option<Price> {
        let prices = self.usd_per_mtok.as_ref()?.per_token()?;
        let step = match &self.long_context {
            None => None,
            Some(long) => Some(PriceStep {
                above_prompt_tokens: long.threshold_prompt_tokens,
                prices: long.usd_per_mtok.per_token()?,
            }),
        };
        Some(Price::PerToken { prices, step })
    }
}

fn anthropic() -> &'static [Model] {
    static MODELS: OnceLock<Vec<Model>> = OnceLock::new();
    MODELS.get_or_init(|| {
        let catalogue: Catalogue = serde_json::from_str(include_str!("models.json"))
            .expect("models.json is checked by a test");
        catalogue
            .anthropic
            .into_iter()
            .map(|entry| Model {
                price: entry.price(),
                id: entry.id,
                aliases: entry.aliases,
                context_window: entry.context_window_tokens,
                max_output: entry.max_output_tokens,
            })
            .collect()
    })
}

/// The Anthropic model with this id or alias.
pub fn find(id: &str) -> Option<&'static Model> {
    anthropic()
        .iter()
        .find(|model| model.id == id || model.aliases.iter().any(|alias| alias == id))
}

/// Ids and aliases of all known Anthropic models.
pub fn known_ids() -> impl Iterator<Item = &'static str> {
    anthropic()
        .iter()
        .flat_map(|model| std::iter::once(&model.id).chain(&model.aliases))
        .map(String::as_str)
}

/// The model that answered, for pricing: by exact id or alias, else by the longest known id of which
/// it is a dated form (`claude-x` for `claude-x-20261104`).
pub fn nearest(id: &str) -> Option<&'static Model> {
    find(id).or_else(|| {
        known_ids()
            .filter(|known| {
                id.strip_prefix(known).is_some_and(|rest| {
                    rest.strip_prefix('-')
                        .is_some_and(|date| date.bytes().all(|b| b.is_ascii_digit()))
                })
            })
            .max_by_key(|known| known.len())
            .and_then(find)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_whole_picodollars_a_token() {
        let Some(Price::PerToken { prices, step }) = find("claude-haiku-5-5").and_then(|m| m.price)
        else {
            panic!("claude-haiku-5-5 has a price");
        };
        assert_eq!(
            step.map(|s| (s.above_prompt_tokens, s.prices.input.picos())),
            Some((100_000, 500_000))
        );
        assert!(prices.cache_read.picos() > 0);
    }

    #[test]
    fn aliases_and_dated_forms_are_found_and_guesses_are_not() {
        assert_eq!(
            find("claude-haiku-4-5").unwrap().id,
            "claude-haiku-4-5-20251001"
        );
        assert_eq!(
            nearest("claude-opus-5-20260101").unwrap().id,
            "claude-opus-5"
        );
        assert_eq!(nearest("claude-opus-50"), None);
        assert_eq!(nearest("gpt-6-astra"), None);
    }

    #[test]
    fn a_model_without_a_published_price_has_none() {
        assert_eq!(find("claude-fable-5-2").unwrap().price, None);
    }
}
