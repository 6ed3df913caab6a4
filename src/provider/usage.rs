//! Usage as a stream reports it: figures that come piece by piece, or not at all, or wrong.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::message::Usage;

/// Larger figures are a server's mistake: no window holds a million million tokens, and sums of many
/// replies must not overflow.
const MAX_FIGURE: f64 = 1e12;

/// One figure of one event.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Figure {
    /// Absent or null.
    #[default]
    NotGiven,
    /// Given, and no count of tokens: negative, broken, absurd.
    Unreadable,
    Tokens(u64),
}

/// The `usage` of one event.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct WireUsage {
    pub(super) input: Figure,
    pub(super) output: Figure,
    pub(super) cache_creation: Figure,
    pub(super) cache_creation_1h: Figure,
    pub(super) cache_read: Figure,
}

#[derive(Deserialize)]
struct Members<'a> {
    #[serde(borrow)]
    input_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    output_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_creation_input_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_read_input_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_creation: Option<&'a RawValue>,
}

/// The split of what was written to the cache.
#[derive(Deserialize)]
struct CacheCreation<'a> {
    #[serde(borrow)]
    ephemeral_1h_input_tokens: Option<&'a RawValue>,
}

impl WireUsage {
    /// From a `usage` member as it stands in an event. A figure is read by itself, so that one that is
    /// wrong costs neither the others nor the reply; what is no object gives none.
    pub(super) fn of(raw: Option<&RawValue>) -> Self {
        let members = raw
            .map(RawValue::get)
            .filter(|json| json.starts_with('{'))
            .and_then(|json| serde_json::from_str::<Members<'_>>(json).ok());
        let Some(members) = members else {
            return Self::default();
        };
        let split = members
            .cache_creation
            .and_then(|raw| serde_json::from_str::<CacheCreation<'_>>(raw.get()).ok());
        Self {
            input: figure(members.input_tokens),
            output: figure(members.output_tokens),
            cache_creation: figure(members.cache_creation_input_tokens),
            cache_creation_1h: figure(split.and_then(|split| split.ephemeral_1h_input_tokens)),
            cache_read: figure(members.cache_read_input_tokens),
        }
    }
}

/// A count of tokens. Servers write `10` as `10.0` and `"10"` too.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number from 0 to a million million is exact in both types"
)]
fn figure(raw: Option<&RawValue>) -> Figure {
    let Some(raw) = raw else {
        return Figure::NotGiven;
    };
    match raw.get().trim_matches(['"', ' ']).parse::<f64>() {
        Ok(tokens) if (0.0..=MAX_FIGURE).contains(&tokens) && tokens.fract() == 0.0 => {
            Figure::Tokens(tokens as u64)
        }
        _ => Figure::Unreadable,
    }
}

/// What a reply's events have reported until now.
#[derive(Debug)]
pub(super) struct Reported {
    input: Count,
    output: Count,
    cache_creation: Count,
    cache_creation_1h: Count,
    cache_read: Count,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    tokens: u64,
    is_known: bool,
}

impl Count {
    /// A later figure replaces an earlier one, for they are cumulative. One that cannot be read leaves
    /// the earlier one standing, which then is not the last word.
    fn update(&mut self, figure: Figure) {
        match figure {
            Figure::NotGiven => {}
            Figure::Unreadable => self.is_known = false,
            Figure::Tokens(tokens) => {
                *self = Self {
                    tokens,
                    is_known: true,
                };
            }
        }
    }
}

impl Reported {
    /// Nothing yet. Servers without a cache do not speak of one.
    pub(super) fn nothing() -> Self {
        let count = |is_known| Count {
            tokens: 0,
            is_known,
        };
        Self {
            input: count(false),
            output: count(false),
            cache_creation: count(true),
            cache_creation_1h: count(true),
            cache_read: count(true),
        }
    }

    /// A message begins. Its output is a first estimate.
    pub(super) fn begin(&mut self, given: WireUsage) {
        *self = Self::nothing();
        self.update(given);
        self.output.is_known = false;
    }

    /// More is known of the message.
    pub(super) fn update(&mut self, given: WireUsage) {
        self.input.update(given.input);
        self.output.update(given.output);
        self.cache_creation.update(given.cache_creation);
        self.cache_creation_1h.update(given.cache_creation_1h);
        self.cache_read.update(given.cache_read);
    }

    /// The figures so far.
    pub(super) fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.input.tokens,
            output_tokens: self.output.tokens,
            cache_creation_input_tokens: self.cache_creation.tokens,
            // A part is not more than the whole, whatever a server says.
            cache_creation_1h_input_tokens: self
                .cache_creation_1h
                .tokens
                .min(self.cache_creation.tokens),
            cache_read_input_tokens: self.cache_read.tokens,
        }
    }

    /// Whether a whole message can be priced: input was reported, output was after the message had
    /// begun, and no figure's last word was unreadable.
    pub(super) fn is_final(&self) -> bool {
        [
            self.input,
            self.output,
            self.cache_creation,
            self.cache_creation_1h,
            self.cache_read,
        ]
        .iter()
        .all(|count| count.is_known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(json: &str) -> WireUsage {
        WireUsage::of(Some(serde_json::from_str(json).unwrap()))
    }

    fn reported(start: &str, delta: &str) -> (Usage, bool) {
        let mut reported = Reported::nothing();
        reported.begin(wire(start));
        reported.update(wire(delta));
        (reported.usage(), reported.is_final())
    }

    #[test]
    fn a_figure_is_read_in_every_spelling_of_a_count_and_in_no_other() {
        for (json, expected) in [
            ("10", Figure::Tokens(10)),
            ("10.0", Figure::Tokens(10)),
            ("1e1", Figure::Tokens(10)),
            (r#""10""#, Figure::Tokens(10)),
            (r#"" 10 ""#, Figure::Tokens(10)),
            ("0", Figure::Tokens(0)),
            ("-0.0", Figure::Tokens(0)),
            ("1000000000000", Figure::Tokens(1_000_000_000_000)),
            ("1000000000001", Figure::Unreadable),
            ("1e400", Figure::Unreadable),
            ("99999999999999999999999999", Figure::Unreadable),
            ("-5", Figure::Unreadable),
            ("10.5", Figure::Unreadable),
            (r#""""#, Figure::Unreadable),
            (r#""ten""#, Figure::Unreadable),
            (r#""NaN""#, Figure::Unreadable),
            (r#""inf""#, Figure::Unreadable),
            ("true", Figure::Unreadable),
            ("[10]", Figure::Unreadable),
            ("null", Figure::NotGiven),
        ] {
            let expected = WireUsage {
                input: expected,
                output: Figure::Tokens(7),
                ..WireUsage::default()
            };
            let given = wire(&format!(r#"{{"input_tokens":{json},"output_tokens":7}}"#));
            assert_eq!(given, expected, "{json}");
        }
    }

    #[test]
    fn usage_of_another_shape_gives_nothing() {
        for json in [
            "[]",
            "[1,2,3,4,5]",
            "7",
            r#""x""#,
            "{}",
            r#"{"cache_creation":1}"#,
        ] {
            assert_eq!(wire(json), WireUsage::default(), "{json}");
        }
        assert_eq!(WireUsage::of(None), WireUsage::default());
    }

    #[test]
    fn usage_is_final_when_input_and_the_last_output_are_known() {
        for (start, delta, input, output, is_final) in [
            (
                r#"{"input_tokens":10,"output_tokens":1}"#,
                r#"{"output_tokens":5}"#,
                10,
                5,
                true,
            ),
            (
                "{}",
                r#"{"input_tokens":10,"output_tokens":5}"#,
                10,
                5,
                true,
            ),
            (
                r#"{"input_tokens":10,"output_tokens":1}"#,
                "{}",
                10,
                1,
                false,
            ),
            ("{}", r#"{"output_tokens":5}"#, 0, 5, false),
            (
                r#"{"input_tokens":10}"#,
                r#"{"output_tokens":-5}"#,
                10,
                0,
                false,
            ),
            (
                r#"{"input_tokens":-1}"#,
                r#"{"input_tokens":10,"output_tokens":5}"#,
                10,
                5,
                true,
            ),
            (
                r#"{"input_tokens":10}"#,
                r#"{"input_tokens":-1,"output_tokens":5}"#,
                10,
                5,
                false,
            ),
            (
                r#"{"input_tokens":10,"cache_read_input_tokens":-1}"#,
                r#"{"output_tokens":5}"#,
                10,
                5,
                false,
            ),
        ] {
            let usage = Usage {
                input_tokens: input,
                output_tokens: output,
                ..Usage::default()
            };
            assert_eq!(reported(start, delta), (usage, is_final), "{start} {delta}");
        }
    }
}
