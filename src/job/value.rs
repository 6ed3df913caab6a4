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
    fit_text(faults, key, node, unfit)
}

/// As [`text`], for what is only shown: there a NUL does no harm.
pub(super) fn shown_text(faults: &mut Faults, key: &str, node: &Node) -> Option<At<String>> {
    fit_text(faults, key, node, blank)
}

fn fit_text(
    faults: &mut Faults,
    key: &str,
    node: &Node,
    unfit: fn(&str) -> Option<Unfit>,
) -> Option<At<String>> {
    let Some(scalar) = node.scalar() else {
        faults.wrong(key, "text", node, "one text, in quotes where in doubt");
        return None;
    };
    let surprise = match scalar.kind {
        Kind::Text if scalar.style != Style::Plain || !is_old_bool(&scalar.text) => {
            return match unfit(&scalar.text) {
                Some(Unfit { what, help }) => {
                    faults.error(node.span, format!("`{key}` {what}"), help);
                    None
                }
                None => Some(At {
                    value: scalar.text.clone(),
                    span: node.span,
                }),
            };
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

/// What no text may be, as the end of a sentence, and what to do about it.
pub(super) struct Unfit {
    pub(super) what: &'static str,
    pub(super) help: &'static str,
}

/// Why a text cannot be what somebody meant; `None` where it can.
pub(super) fn unfit(text: &str) -> Option<Unfit> {
    if text.contains('\0') {
        return Some(Unfit {
            what: "holds a NUL character",
            help: "leave it out: no program and no file name can take one",
        });
    }
    blank(text)
}

fn blank(text: &str) -> Option<Unfit> {
    text.chars()
        .all(|c| c.is_whitespace() || c.is_control() || is_invisible(c))
        .then_some(Unfit {
            what: "is blank",
            help: "write the text, or leave the key out where it may be left out",
        })
}

/// Characters that are no blanks and show nothing by themselves. Source: Unicode Character Database,
/// property `Default_Ignorable_Code_Point`, and the blank pattern of Braille.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
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
            // A variable may hold blanks, or nothing.
            Kind::Text if *style != Style::Plain && !text.contains('\0') => {
                return Some(text.clone());
            }
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
    let Some(Kind::Whole(number)) = number(node) else {
        faults.wrong(key, "a whole number", node, rewritten(node).unwrap_or(help));
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

/// A number as people write it. `0x10` and `0o17` are numbers to YAML, and `010` is one to some readers
/// and another to others.
fn number(node: &Node) -> Option<Kind> {
    let scalar = node.scalar()?;
    match scalar.kind {
        Kind::Whole(_) if is_decimal(&scalar.text) => Some(scalar.kind),
        Kind::Float(_) => Some(scalar.kind),
        Kind::Whole(_) | Kind::Null | Kind::Bool(_) | Kind::Text => None,
    }
}

fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    digits.bytes().all(|b| b.is_ascii_digit()) && (digits.len() == 1 || !digits.starts_with('0'))
}

/// The help where a number is written otherwise than it must be.
fn rewritten(node: &Node) -> Option<&'static str> {
    let scalar = node.scalar()?;
    match scalar.kind {
        Kind::Text if scalar.style != Style::Plain && scalar.text.parse::<f64>().is_ok() => {
            Some("write the number without quotes")
        }
        Kind::Text if scalar.text.parse::<f64>().is_ok() => Some(DECIMAL),
        Kind::Whole(_) if !is_decimal(&scalar.text) => Some(DECIMAL),
        Kind::Whole(_) | Kind::Float(_) | Kind::Null | Kind::Bool(_) | Kind::Text => None,
    }
}

const DECIMAL: &str = "write it in decimal digits, without a zero in front";

/// An amount of dollars, not negative.
fn dollars(faults: &mut Faults, key: &str, node: &Node, help: &str) -> Option<Usd> {
    let number = match number(node) {
        Some(Kind::Whole(number)) => number as f64,
        Some(Kind::Float(number)) => number,
        Some(Kind::Null | Kind::Bool(_) | Kind::Text) | None => {
            let help = rewritten(node).unwrap_or(help);
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
    let help = "write whole seconds, minutes or hours, such as 90s, 10m or 1h30m";
    let duration = node
        .scalar()
        .filter(|scalar| scalar.kind == Kind::Text)
        .and_then(|scalar| parse_duration(&scalar.text));
    if duration.is_none() {
        faults.wrong(key, "a time from 1s to 8760h", node, help);
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
    fn a_text_shows_something_and_holds_no_nul() {
        for (text, what) in [
            ("x", None),
            ("\u{200b}x", None),
            ("é", None),
            ("", Some("is blank")),
            (" \n\t", Some("is blank")),
            ("\u{200b}\u{2060} \u{feff}", Some("is blank")),
            ("\u{e0041}\u{ad}", Some("is blank")),
            ("\u{1b}", Some("is blank")),
            ("a\0b", Some("holds a NUL character")),
        ] {
            assert_eq!(unfit(text).map(|unfit| unfit.what), what, "{text:?}");
        }
    }

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
