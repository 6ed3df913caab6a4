//! GitHub Actions: commands of ours, and no commands of anybody else.
//!
//! A runner reads both output streams of a step: a line that begins with `::` is a command, and so is
//! `##[` anywhere in a line. Azure Pipelines has `##vso[`, TeamCity `##teamcity[`. Source: the runners'
//! sources and documentation.

use std::borrow::Cow;

use super::foreign::plain;

/// Invisible, and no blank to any runner: what it stands in is no command any more.
const BREAK: char = '\u{200b}';

/// Foreign text fit for a log: no terminal sequences, and nothing that a CI system takes for a command.
///
/// A zero-width space (U+200B) is put into what would be a command; other text stays as it is.
pub fn neutralise(text: &str) -> Cow<'_, str> {
    let text = plain(text);
    if !text.contains("::") && !text.contains("##") {
        return text;
    }
    let mut harmless = String::with_capacity(text.len() + 8);
    for line in text.split_inclusive('\n') {
        let command = line.trim_start();
        let blanks = line.len() - command.len();
        harmless.push_str(&line[..blanks]);
        let command = match command.strip_prefix("::") {
            Some(rest) => {
                harmless.extend([':', BREAK, ':']);
                rest
            }
            None => command,
        };
        let mut characters = command.chars().peekable();
        while let Some(c) = characters.next() {
            harmless.push(c);
            if c == '#' && characters.peek() == Some(&'#') {
                harmless.push(BREAK);
            }
        }
    }
    if harmless == text {
        return text;
    }
    Cow::Owned(harmless)
}

/// How an annotation is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Red.
    Error,
    /// Yellow.
    Warning,
    /// Grey.
    Notice,
}

/// The command that attaches `message` to a line of a file: `::error file=…,line=…,title=…::…`.
///
/// A runner shows ten of each level a step and drops the rest in the order printed.
pub fn annotation(level: Level, file: &str, line: u32, title: &str, message: &str) -> String {
    let name = match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Notice => "notice",
    };
    format!(
        "::{name} file={},line={line},title={}::{}",
        escape_property(&plain(file)),
        escape_property(&plain(title)),
        escape_message(&plain(message)),
    )
}

/// What stands behind the last `::` of a command.
fn escape_message(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn escape_property(text: &str) -> String {
    escape_message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_of_foreign_text_is_no_command() {
        for (text, right) in [
            ("::error::x", ":\u{200b}:error::x"),
            (
                "a\n  ::set-output name=x::y\n",
                "a\n  :\u{200b}:set-output name=x::y\n",
            ),
            ("a ##[add-mask]b", "a #\u{200b}#[add-mask]b"),
            (
                "##vso[task] ##teamcity[x]",
                "#\u{200b}#vso[task] #\u{200b}#teamcity[x]",
            ),
            ("\u{1b}[1m::debug::x", ":\u{200b}:debug::x"),
            ("std::fmt", "std::fmt"),
            ("\r::warning::x", "\n:\u{200b}:warning::x"),
        ] {
            assert_eq!(neutralise(text), right, "{text:?}");
        }
        assert!(matches!(neutralise("std::fmt # 1"), Cow::Borrowed(_)));
    }

    #[test]
    fn an_annotation_is_escaped_where_it_stands() {
        assert_eq!(
            annotation(Level::Error, "a,b:c.yaml", 3, "100%", "first\nsecond: 5%"),
            "::error file=a%2Cb%3Ac.yaml,line=3,title=100%25::first%0Asecond: 5%25"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_a_command(text in "[ \t\u{a0}\u{feff}:#\\[a\n\r\u{1b}]{0,30}") {
            let harmless = neutralise(&text).into_owned();
            prop_assert!(!harmless.contains("##"), "{harmless:?}");
            for line in harmless.lines() {
                prop_assert!(!line.trim_start().starts_with("::"), "{harmless:?}");
            }
        }
    }
}
