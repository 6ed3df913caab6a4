//! Typed values out of nodes: each accessor gives the value, or notes the fault and gives `None`.

use std::time::Duration;

use crate::models::Usd;

use super::fault::{Faults, nearest};
use super::locate::{Span, Style};
use super::node::{Content, Entry, Kind, Node, Scalar};

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Span,
}

impl Node {
    fn scalar(&self) -> Option<&Scalar> {
        match &self.content {
            Content::Scalar(scalar) => Some(scalar),
            Content::List(_) | Content::Map(_) => None,
        }
    }

    /// A list or mapping without entries.
    pub(super) fn has_no_entries(&self) -> bool {
        match &self.content {
            Content::List(list) => list.is_empty(),
            Content::Map(map) => map.is_empty(),
            Content::Scalar(_) => false,
        }
    }
}

/// Names of YAML 1.1 for true and false, which other readers take a plain word for.
fn is_old_bool(word: &str) -> bool {
    matches!(
        word.to_ascii_lowercase().as_str(),
        "y" | "n" | "yes" | "no" | "on" | "off"
    )
}

/// A text that is not blank. An unquoted word that YAML takes, or once took, for something else is
/// refused: it would mean different things to different readers.
pub(super) fn text(faults: &mut Faults, key: &str, node: &Node) -> Option<At<String>> {
    let Some(scalar) = node.scalar() else {
        faults.wrong(key, "text", node, "one text, in quotes where in doubt");
        return None;
    };
    let surprise = match scalar.kind {
        Kind::Text if scalar.style != Style::Plain || !is_old_bool(&scalar.text) => {
            if scalar.text.trim().is_empty() {
                faults.error(
                    node.span,
                    format!("`{key}` is blank"),
                    "write the text, or leave the key out where it may be left out",
                );
                return None;
            }
            return Some(At {
                value: scalar.text.clone(),
                span: node.span,
            });
        }
        Kind::Text => "which some YAML readers take for true or false",
        Kind::Null if scalar.text.is_empty() => {
            faults.error(
                node.span,
                format!("`{key}` must be text, found nothing"),
                "an empty value is no text: write one, or leave the key out where it may be left out",
            );
            return None;
        }
        Kind::Null => "which YAML takes for nothing",
        Kind::Bool(_) => "which YAML takes for true or false",
        Kind::Whole(_) | Kind::Float(_) => "which YAML takes for a number",
    };
    faults.error(
        node.span,
        format!(
            "`{key}` must be text, found {} without quotes, {surprise}",
            scalar.text
        ),
        format!("to mean the text, put it in quotes: \"{}\"", scalar.text),
    );
    None
}

/// As [`text`], for the value of an environment variable: plain numbers and `true` and `false` are
/// taken as they are written, and nothing is a value.
pub(super) fn env_value(faults: &mut Faults, key: &str, node: &Node) -> Option<String> {
    let scalar = node.scalar();
    if let Some(Scalar { text, kind, style }) = scalar {
        let is_decimal = text
            .trim_start_matches('-')
            .chars()
            .all(|c| c.is_ascii_digit() || c == '.');
        match kind {
            Kind::Text if *style != Style::Plain => return Some(text.clone()),
            Kind::Bool(_) => return Some(text.clone()),
            Kind::Whole(_) | Kind::Float(_) if is_decimal => return Some(text.clone()),
            Kind::Text | Kind::Null | Kind::Whole(_) | Kind::Float(_) => {}
        }
    }
    self::text(faults, key, node).map(|text| text.value)
}

/// One of some words.
pub(super) fn choice<T: Copy>(
    faults: &mut Faults,
    key: &str,
    node: &Node,
    choices: &[(&str, T)],
) -> Option<T> {
    let words = || {
        let words: Vec<_> = choices
            .iter()
            .map(|(word, _)| format!("`{word}`"))
            .collect();
        words.join(" or ")
    };
    let Some(scalar) = node.scalar().filter(|scalar| !scalar.text.is_empty()) else {
        let all = words();
        faults.wrong(key, &all, node, "write the one word");
        return None;
    };
    if let Some((_, value)) = choices.iter().find(|(word, _)| *word == scalar.text) {
        return Some(*value);
    }
    let help = match nearest(&scalar.text, choices.iter().map(|(word, _)| *word)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "write one of these words".to_owned(),
    };
    let all = words();
    faults.wrong(key, &all, node, &help);
    None
}

/// `true` or `false`.
pub(super) fn boolean(faults: &mut Faults, key: &str, node: &Node) -> Option<bool> {
    if let Some(Kind::Bool(value)) = node.scalar().map(|scalar| scalar.kind) {
        return Some(value);
    }
    faults.wrong(
        key,
        "true or false",
        node,
        "write `true` or `false`, without quotes",
    );
    None
}

/// A whole number from `least` to `most`; `help` says what it counts.
pub(super) fn whole(
    faults: &mut Faults,
    key: &str,
    node: &Node,
    (least, most): (u64, u64),
    help: &str,
) -> Option<u64> {
    let Some(Kind::Whole(number)) = node.scalar().map(|scalar| scalar.kind) else {
        faults.wrong(key, "a whole number", node, unquoted(node).unwrap_or(help));
        return None;
    };
    let number = u64::try_from(number).unwrap_or(if number < 0 { 0 } else { u64::MAX });
    let wanted = if number < least || node.scalar().is_some_and(|s| s.text.starts_with('-')) {
        format!("at least {least}")
    } else if number > most {
        format!("at most {most}")
    } else {
        return Some(number);
    };
    faults.wrong(key, &wanted, node, help);
    None
}

/// The help where a number stands in quotes.
fn unquoted(node: &Node) -> Option<&'static str> {
    let scalar = node.scalar()?;
    let is_number = scalar.kind == Kind::Text && scalar.text.parse::<f64>().is_ok();
    is_number.then_some("write the number without quotes")
}

/// An amount of dollars, not negative.
fn dollars(faults: &mut Faults, key: &str, node: &Node, help: &str) -> Option<Usd> {
    let number = match node.scalar().map(|scalar| scalar.kind) {
        Some(Kind::Whole(number)) => number as f64,
        Some(Kind::Float(number)) => number,
        Some(Kind::Null | Kind::Bool(_) | Kind::Text) | None => {
            let help = unquoted(node).unwrap_or(help);
            faults.wrong(key, "a number of US dollars", node, help);
            return None;
        }
    };
    let usd = Usd::from_decimal(number);
    if usd.is_none() {
        let wanted = if number < 0.0 {
            "at least 0"
        } else {
            "an amount of US dollars below 18 million"
        };
        faults.wrong(key, wanted, node, help);
    }
    usd
}

/// A price in US dollars per million tokens, as the price of one token.
pub(super) fn price(faults: &mut Faults, key: &str, node: &Node) -> Option<Usd> {
    let help = "US dollars per million tokens, such as 3 or 0.25";
    let per_million = dollars(faults, key, node, help)?;
    // Rounded up: what a budget covers is never counted too low.
    Some(Usd::from_picos(per_million.picos().div_ceil(1_000_000)))
}

/// A budget: more than nothing.
pub(super) fn budget(faults: &mut Faults, key: &str, node: &Node) -> Option<Usd> {
    let help = "a hard cap in US dollars for each prompt, such as 0.50, without quotes or a sign";
    let usd = dollars(faults, key, node, help)?;
    if usd == Usd::ZERO {
        faults.wrong(key, "more than 0", node, help);
        return None;
    }
    Some(usd)
}

/// A time such as `90s`, `10m`, `1h30m`.
pub(super) fn duration(faults: &mut Faults, key: &str, node: &Node) -> Option<Duration> {
    let help = "write it with units, such as 90s, 10m or 1h30m; at most 8760h";
    let duration = node
        .scalar()
        .filter(|scalar| scalar.kind == Kind::Text)
        .and_then(|scalar| parse_duration(&scalar.text));
    if duration.is_none() {
        faults.wrong(key, "a time above 0", node, help);
    }
    duration
}

/// Hours, minutes and seconds in this order, each at most once, at least one, a year at most.
fn parse_duration(text: &str) -> Option<Duration> {
    const YEAR_SECONDS: u64 = 8760 * 3600;
    let mut rest = text;
    let mut seconds = 0_u64;
    for (unit, factor) in [('h', 3600), ('m', 60), ('s', 1)] {
        if let Some((number, behind)) = rest.split_once(unit)
            && !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit())
        {
            let number: u64 = number.parse().ok()?;
            seconds = seconds.checked_add(number.checked_mul(factor)?)?;
            rest = behind;
        }
    }
    (rest.is_empty() && (1..=YEAR_SECONDS).contains(&seconds)).then(|| Duration::from_secs(seconds))
}

/// The entries of a list.
pub(super) fn list<'n>(
    faults: &mut Faults,
    key: &str,
    node: &'n Node,
    help: &str,
) -> Option<&'n [Node]> {
    if let Content::List(nodes) = &node.content {
        return Some(nodes);
    }
    faults.wrong(key, "a list", node, help);
    None
}

/// The entries of a mapping.
pub(super) fn map<'n>(
    faults: &mut Faults,
    key: &str,
    node: &'n Node,
    help: &str,
) -> Option<&'n [Entry]> {
    if let Content::Map(entries) = &node.content {
        return Some(entries);
    }
    faults.wrong(key, "a mapping", node, help);
    None
}

/// Notes a key or value whose feature is not built yet. `help` says what to do instead.
pub(super) fn unsupported(faults: &mut Faults, span: Span, what: &str, help: &str) {
    faults.error(span, format!("`{what}` is not supported yet"), help);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_units_in_their_order() {
        for (text, seconds) in [
            ("90s", Some(90)),
            ("10m", Some(600)),
            ("1h30m", Some(5400)),
            ("1h1m1s", Some(3661)),
            ("1h1s", Some(3601)),
            ("90", None),
            ("", None),
            ("0s", None),
            ("s", None),
            ("1m1h", None),
            ("1h1h", None),
            ("1.5h", None),
            ("-1h", None),
            ("1 h", None),
            ("1d", None),
            ("9999999999999999999h", None),
            ("8760h", Some(31_536_000)),
            ("8760h1s", None),
        ] {
            assert_eq!(
                parse_duration(text),
                seconds.map(Duration::from_secs),
                "{text}"
            );
        }
    }
}
