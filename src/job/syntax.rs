//! What is no YAML: the parser's words told in the job file's.

use super::fault::{Fault, quote};
use super::locate::{Position, Span, Text};

/// The parser's words, told apart into what, where and, as help, in the middle of what.
pub(super) fn syntax(text: &Text<'_>, error: &serde_yaml::Error) -> Fault {
    let at = error
        .location()
        .map_or(Position::START, |location| Position {
            line: u32::try_from(location.line()).unwrap_or(u32::MAX),
            column: u32::try_from(location.column()).unwrap_or(u32::MAX),
        });
    let at = text.clamp(at);
    let words = error.to_string();
    // The reader refuses a character before any line is counted.
    if let Some((_, offset)) = words.split_once(" at position ") {
        let offset = offset.parse().unwrap_or(0);
        return Fault::error(
            Span::point(text.at_byte(offset)),
            "control characters are not allowed in YAML",
        )
        .help("write it in double quotes as an escape, such as \"\\e\"");
    }
    let (what, middle) = words.split_once(", while ").unwrap_or((&words, ""));
    let what = what.split(" at line ").next().unwrap_or(what);
    if middle.starts_with("scanning a quoted scalar")
        && let Some(opened) = place_in(middle)
    {
        return Fault::error(
            Span::point(text.clamp(opened)),
            "a quote is opened here and never closed",
        )
        .help("close it; inside double quotes write \\\" and inside single quotes '' for a quote");
    }
    if what == "unknown anchor" {
        let token = text.token(at);
        let span = Span {
            at,
            width: token.width(token.word()),
        };
        let message = format!("no anchor comes before the alias {}", quote(token.word()));
        return Fault::error(span, message)
            .help("a text that begins with `*` must stand in quotes");
    }
    let fault = Fault::error(Span::point(at), format!("not valid YAML: {what}"));
    if text.line(at.line).trim_start_matches(' ').starts_with('\t') {
        return fault.help("YAML is indented with spaces, never with tabs");
    }
    if what.starts_with("mapping values are not allowed") {
        return fault.help("a text with a colon in it must stand in quotes");
    }
    if middle.is_empty() {
        return fault;
    }
    fault.help(format!("the parser was {middle}"))
}

/// The place at the end of the parser's words: `… at line 3 column 7`.
fn place_in(words: &str) -> Option<Position> {
    let (line, column) = words.rsplit_once(" at line ")?.1.split_once(" column ")?;
    Some(Position {
        line: line.parse().ok()?,
        column: column.parse().ok()?,
    })
}
