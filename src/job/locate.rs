//! Where things stand in a job file: lines, places, and the extent of a token.
//!
//! `serde_yaml` tells a place only in an error. [`position`] raises one on purpose, and of the one kind
//! that reads nothing: a newtype inside a newtype until the parser's recursion limit is met, which is
//! reported at the value that would have come next. So one walk gives every place, for keys, flow style
//! and aliases too, and the value is still there to be read. The version of `serde_yaml` is final; the
//! tests of `parse` hold what is relied on.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Visitor};

/// A place in the file; line and column count characters from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Position {
    pub(super) line: u32,
    pub(super) column: u32,
}

impl Position {
    /// Where a file begins.
    pub(super) const START: Self = Self { line: 1, column: 1 };
}

/// A place and how many characters belong to it, on its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    pub(super) at: Position,
    pub(super) width: u32,
}

impl Span {
    /// A single character.
    pub(super) fn point(at: Position) -> Self {
        Self { at, width: 1 }
    }
}

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Without quotes: YAML guesses a type.
    Plain,
    /// In single or double quotes.
    Quoted,
    /// `|` or `>`.
    Block,
}

/// What stands at a place, read from the text itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'t> {
    /// Where it starts, behind an anchor or tag.
    pub(super) at: Position,
    pub(super) style: Style,
    /// It bears a tag, such as `!!str`.
    pub(super) is_tagged: bool,
    /// The name of its anchor.
    pub(super) anchor: Option<&'t str>,
    /// The rest of its line, from where it starts.
    pub(super) rest: &'t str,
}

impl<'t> Token<'t> {
    /// The name an alias refers to; `None` when this is none.
    pub(super) fn alias(&self) -> Option<&'t str> {
        self.rest.strip_prefix('*').map(name)
    }

    /// The characters up to a blank or a sign of flow style: a number, `true`, `~`, as written.
    pub(super) fn word(&self) -> &'t str {
        let end = self
            .rest
            .char_indices()
            .find(|&(i, c)| {
                c.is_whitespace()
                    || matches!(c, ',' | '[' | ']' | '{' | '}')
                    || (c == ':' && self.rest[i + 1..].chars().next().is_none_or(is_after_key))
            })
            .map_or(self.rest.len(), |(i, _)| i);
        &self.rest[..end]
    }

    /// How many characters of the first line a scalar with this value takes, quotes included.
    pub(super) fn width(&self, value: &str) -> u32 {
        let characters = match self.style {
            Style::Block => name(self.rest).chars().count(),
            Style::Quoted => self.quoted_width(),
            // A plain scalar's first line is written as it is.
            Style::Plain => self
                .rest
                .chars()
                .zip(value.chars())
                .take_while(|(written, meant)| written == meant)
                .count(),
        };
        u32::try_from(characters.max(1)).unwrap_or(u32::MAX)
    }

    fn quoted_width(&self) -> usize {
        let mut characters = self.rest.chars().peekable();
        let Some(quote) = characters.next() else {
            return 0;
        };
        let mut width = 1;
        while let Some(c) = characters.next() {
            width += 1;
            let is_escape = c == '\\' && quote == '"';
            let is_doubled = c == '\'' && quote == c && characters.peek() == Some(&c);
            if is_escape || is_doubled {
                width += characters.next().map_or(0, |_| 1);
            } else if c == quote {
                return width;
            }
        }
        self.rest.trim_end().chars().count()
    }
}

fn is_after_key(c: char) -> bool {
    c.is_whitespace() || matches!(c, ',' | ']' | '}')
}

/// The characters up to the next blank or sign of flow style.
fn name(text: &str) -> &str {
    let end = text
        .find(|c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']' | '{' | '}'))
        .unwrap_or(text.len());
    &text[..end]
}

/// A file's text, cut into lines as the parser counts them.
#[derive(Debug)]
pub(super) struct Text<'t> {
    lines: Vec<Line<'t>>,
    /// Without a byte order mark.
    pub(super) whole: &'t str,
}

/// A line, and how to find a column in it without walking all of it: a file of one long line holds
/// many values.
#[derive(Clone, Debug)]
struct Line<'t> {
    text: &'t str,
    /// In characters.
    length: u32,
    /// The byte of every [`STRIDE`]th character; none where a character is a byte.
    strides: Vec<usize>,
}

/// So many lines of comment between an anchor and its value are skipped: the lines are walked again
/// wherever an alias shows the anchor.
const FARTHEST: u32 = 200;

/// Few enough characters to walk for every value.
const STRIDE: usize = 64;

impl<'t> Line<'t> {
    fn new(text: &'t str) -> Self {
        let strides = if text.is_ascii() {
            Vec::new()
        } else {
            text.char_indices()
                .step_by(STRIDE)
                .map(|(i, _)| i)
                .collect()
        };
        Self {
            text,
            length: u32::try_from(text.chars().count()).unwrap_or(u32::MAX),
            strides,
        }
    }

    /// The line from a character on, counted from 0.
    fn skip(&self, characters: usize) -> &'t str {
        if self.strides.is_empty() {
            return self.text.get(characters..).unwrap_or_default();
        }
        let Some(&stride) = self.strides.get(characters / STRIDE) else {
            return "";
        };
        let near = &self.text[stride..];
        near.char_indices()
            .inspect(|_| steps::count())
            .nth(characters % STRIDE)
            .map_or("", |(i, _)| &near[i..])
    }
}

impl<'t> Text<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let whole = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = Vec::new();
        let mut rest = whole;
        // The breaks of YAML 1.1: what libyaml counts as the start of a line.
        while let Some(end) = rest.find(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']) {
            lines.push(Line::new(&rest[..end]));
            let line_break = if rest[end..].starts_with("\r\n") {
                2
            } else {
                rest[end..].chars().next().map_or(1, char::len_utf8)
            };
            rest = &rest[end + line_break..];
        }
        lines.push(Line::new(rest));
        Self { lines, whole }
    }

    fn get(&self, line: u32) -> Option<&Line<'t>> {
        self.lines.get((line as usize).checked_sub(1)?)
    }

    /// A line, from 1; empty when there is none.
    pub(super) fn line(&self, line: u32) -> &'t str {
        self.get(line).map_or("", |line| line.text)
    }

    /// `at` moved back into the text, should it lie behind its end.
    pub(super) fn clamp(&self, at: Position) -> Position {
        let last = u32::try_from(self.lines.len()).unwrap_or(u32::MAX);
        let line = at.line.clamp(1, last);
        let end = self
            .get(line)
            .map_or(1, |line| line.length.saturating_add(1));
        let column = if at.line > last { end } else { at.column };
        Position {
            line,
            column: column.clamp(1, end),
        }
    }

    /// The place of the byte at `offset` in [`Text::whole`].
    pub(super) fn at_byte(&self, offset: usize) -> Position {
        let offset = offset.min(self.whole.len());
        let start = |line: &Line<'_>| line.text.as_ptr() as usize - self.whole.as_ptr() as usize;
        let number = self
            .lines
            .partition_point(|line| start(line) <= offset)
            .max(1);
        let (before, line) = match self.lines.get(number - 1) {
            Some(line) => (offset - start(line), line.text),
            None => (0, ""),
        };
        let column = line.char_indices().take_while(|&(i, _)| i < before).count() + 1;
        Position {
            line: u32::try_from(number).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }

    /// The rest of the line at a place.
    fn from(&self, at: Position) -> &'t str {
        let skipped = at.column.saturating_sub(1) as usize;
        self.get(at.line).map_or("", |line| line.skip(skipped))
    }

    /// Where `wanted` stands, at or behind a place.
    pub(super) fn find(&self, wanted: &str, behind: Position) -> Option<Span> {
        let mut at = behind;
        while at.line as usize <= self.lines.len() {
            let rest = self.from(at);
            if let Some(i) = rest.find(wanted) {
                let column = at.column + u32::try_from(rest[..i].chars().count()).ok()?;
                return Some(Span {
                    at: Position { column, ..at },
                    width: u32::try_from(wanted.chars().count()).ok()?,
                });
            }
            at = Position {
                line: at.line + 1,
                column: 1,
            };
        }
        None
    }

    /// The place of a part of a scalar, given in bytes of its value; of all of it where the value is
    /// not written as it is, such as over several lines or with escapes.
    pub(super) fn within(&self, whole: Span, value: &str, offset: usize, width: usize) -> Span {
        let rest = self.from(whole.at);
        let quotes = match rest.strip_prefix(['"', '\'']) {
            Some(inner) if inner.starts_with(value) => 1,
            None if rest.starts_with(value) => 0,
            Some(_) | None => return whole,
        };
        let count = |text: Option<&str>| {
            let characters = text.map_or(0, |text| text.chars().count());
            u32::try_from(characters).unwrap_or(u32::MAX)
        };
        Span {
            at: Position {
                column: whole.at.column + quotes + count(value.get(..offset)),
                ..whole.at
            },
            width: count(
                value
                    .get(offset..)
                    .map(|rest| rest.get(..width).unwrap_or(rest)),
            )
            .max(1),
        }
    }

    /// What stands at a place, behind its anchor and tag.
    pub(super) fn token(&self, at: Position) -> Token<'t> {
        let mut at = at;
        let mut is_tagged = false;
        let mut anchor = None;
        let mut rest = self.from(at);
        while rest.starts_with(['&', '!']) {
            // A tag may hold signs of flow style, an anchor may not.
            let property = rest.split(char::is_whitespace).next().unwrap_or(rest);
            if let Some(after) = rest.strip_prefix('&') {
                anchor = Some(name(after));
            } else {
                is_tagged = true;
            }
            at.column += u32::try_from(property.chars().count()).unwrap_or(u32::MAX);
            (at, rest) = self.skip_blank(at);
        }
        Token {
            at,
            style: match rest.chars().next() {
                Some('"' | '\'') => Style::Quoted,
                Some('|' | '>') => Style::Block,
                _ => Style::Plain,
            },
            is_tagged,
            anchor,
            rest,
        }
    }

    /// Over blanks, comments and line ends to where the next thing stands.
    fn skip_blank(&self, from: Position) -> (Position, &'t str) {
        let mut at = from;
        loop {
            let rest = self.from(at);
            let trimmed = rest.trim_start();
            if !trimmed.is_empty() && !trimmed.starts_with('#') {
                let blanks = rest[..rest.len() - trimmed.len()].chars().count();
                at.column += u32::try_from(blanks).unwrap_or(u32::MAX);
                return (at, trimmed);
            }
            if at.line as usize >= self.lines.len() || at.line - from.line > FARTHEST {
                return (at, "");
            }
            at = Position {
                line: at.line + 1,
                column: 1,
            };
        }
    }
}

/// How far lines are walked, for the test that a long line is not walked for each of its values.
mod steps {
    #[cfg(test)]
    thread_local! {
        pub(super) static TAKEN: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    pub(super) fn count() {
        #[cfg(test)]
        TAKEN.set(TAKEN.get() + 1);
    }
}

/// Tells where the value to be read next stands, and reads nothing.
pub(super) struct Here;

impl<'de> DeserializeSeed<'de> for Here {
    type Value = Position;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Position, D::Error> {
        match deserializer.deserialize_newtype_struct("", Down) {
            Ok(never) => match never {},
            // The error's type is the deserializer's own here, so that its text is all there is.
            Err(error) => position(&error.to_string()).ok_or(error),
        }
    }
}

enum Never {}

struct Down;

impl<'de> Visitor<'de> for Down {
    type Value = Never;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deeper: D) -> Result<Never, D::Error> {
        deeper.deserialize_newtype_struct("", Down)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Never, E> {
        Err(E::custom("no value"))
    }
}

/// The place named by a recursion error's text; it names none for the very first.
fn position(error: &str) -> Option<Position> {
    let place = error.strip_prefix("recursion limit exceeded")?;
    let Some(place) = place.strip_prefix(" at line ") else {
        return Some(Position::START);
    };
    let (line, column) = place.split_once(" column ")?;
    Some(Position {
        line: line.parse().ok()?,
        column: column.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    /// Characters walked in a line of so many keys and values, which are no ASCII.
    fn steps_for(keys: usize) -> usize {
        let pairs: Vec<String> = (0..keys).map(|i| format!("k{i}: é")).collect();
        let yaml = format!("{{{}}}", pairs.join(", "));
        steps::TAKEN.set(0);
        parse::tree(&Text::new(&yaml)).expect("a tree");
        steps::TAKEN.get()
    }

    #[test]
    fn a_line_of_many_values_is_not_walked_for_each_of_them() {
        let few = steps_for(1_000);
        let many = steps_for(10_000);
        assert!(few > 1_000, "{few}");
        assert!(many < 11 * few, "{few}, then {many}");
    }
}
