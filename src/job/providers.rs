//! `providers`: prices and limits that the compiled-in list does not know, or knows otherwise.

use crate::models::{Price, TokenPrices, Usd};

use super::fault::Faults;
use super::keys::{self, Known};
use super::locate::Span;
use super::node::{Content, Entry, Node};
use super::value;

/// What the job file says of a provider (`anthropic`) or a model (`anthropic/ID` or its bare id).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProviderEntry {
    pub(super) name: String,
    /// Of its key.
    pub(super) span: Span,
    pub(super) price: Option<Price>,
    pub(super) context_window: Option<u64>,
    pub(super) max_output: Option<u64>,
}

/// The mapping `providers`.
pub(super) fn read(faults: &mut Faults, node: &Node) -> Vec<ProviderEntry> {
    let help = "write `providers: {MODEL: {price: {input: 3, output: 15}}}`";
    value::map(faults, "providers", node, help)
        .unwrap_or_default()
        .iter()
        .filter_map(|entry| provider(faults, entry))
        .collect()
}

fn provider(faults: &mut Faults, entry: &Entry) -> Option<ProviderEntry> {
    let known = ["price", "context_window", "max_output"];
    let help = "write `{price: none}` or `{price: {input: 3, output: 15}}`, in US dollars per million tokens";
    let mut provider = ProviderEntry {
        name: entry.key.text.clone(),
        span: entry.key.span,
        price: None,
        context_window: None,
        max_output: None,
    };
    let key = format!("providers.{}", provider.name);
    for entry in value::map(faults, &key, &entry.value, help)? {
        let (key, node) = (entry.key.text.as_str(), &entry.value);
        let tokens = (1, 1_000_000_000);
        match key {
            "price" => provider.price = price(faults, node),
            "context_window" => {
                let help = "input and output together, in tokens";
                provider.context_window = value::whole(faults, key, node, tokens, help);
            }
            "max_output" => {
                let help = "the most tokens a reply may have";
                provider.max_output = value::whole(faults, key, node, tokens, help);
            }
            "base_url" | "api_key" | "key" | "key_helper" | "api_key_helper" => faults.error(
                entry.key.span,
                format!("`{key}` cannot be set in a job file"),
                "addresses and keys come from the environment or the command line alone: who can edit the job file must not redirect the key",
            ),
            _ => {
                keys::unknown_key(faults, entry, "in `providers`", Known::all(&known));
            }
        }
    }
    Some(provider)
}

/// `none`, or the prices of the four kinds of tokens. Cache reads cost as much as input, and cache
/// writes a quarter more, unless the file says otherwise: never less than what may be billed.
fn price(faults: &mut Faults, node: &Node) -> Option<Price> {
    let help = "write `none`, or `{input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75}`, in US dollars per million tokens";
    let entries = match &node.content {
        Content::Scalar(scalar) if scalar.text == "none" => return Some(Price::Free),
        Content::Map(entries) => entries,
        Content::Scalar(_) | Content::List(_) => {
            faults.wrong("price", "`none` or a mapping", node, help);
            return None;
        }
    };
    let known = ["input", "output", "cache_read", "cache_write_5m"];
    let mut prices: [Option<Usd>; 4] = [None; 4];
    let mut is_faulty = false;
    for entry in entries {
        let key = entry.key.text.as_str();
        if let Some(kind) = known.iter().position(|name| *name == key) {
            prices[kind] = value::price(faults, &format!("price.{key}"), &entry.value);
            is_faulty |= prices[kind].is_none();
        } else {
            let meant = keys::unknown_key(faults, entry, "in `price`", Known::all(&known));
            is_faulty |= meant.is_some();
        }
    }
    let [Some(input), Some(output), cache_read, cache_write_5m] = prices else {
        if !is_faulty {
            faults.error(node.span, "a price needs `input` and `output`", help);
        }
        return None;
    };
    Some(Price::PerToken {
        prices: TokenPrices {
            input,
            output,
            cache_write_5m: cache_write_5m
                .unwrap_or_else(|| input + Usd::from_picos(input.picos().div_ceil(4))),
            cache_write_1h: input + input,
            cache_read: cache_read.unwrap_or(input),
        },
        step: None,
    })
}
