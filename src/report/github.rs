//! GitHub Actions: commands of ours, and no commands of anybody else.
//!
//! A runner reads both output streams of a step: a line that begins with `::` is a command, and so is
//! `##[` anywhere in a line. Azure Pipelines has `##vso[`, `TeamCity` `##teamcity[`. Source: the runners'
//! sources and documentation.

use std::borrow::Cow;

use crate::stop::Outcome;

use super::foreign::plain;
use super::record::RunRecord;

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

/// A runner keeps ten annotations of a level and step, in the order printed, and drops the rest silently.
const MOST_ANNOTATIONS: usize = 10;

/// An error at its line for each prompt that did not pass; when there are more than GitHub shows, a
/// notice says how many.
pub fn annotations(record: &RunRecord) -> Vec<String> {
    let troubled = record
        .prompts()
        .filter(|(_, prompt)| prompt.outcome != Outcome::Passed);
    let mut lines: Vec<String> = troubled
        .map(|(job, prompt)| {
            let title = format!("{} / {}: {}", job.name, prompt.id, prompt.reason);
            annotation(
                Level::Error,
                &job.file,
                prompt.line,
                &title,
                &prompt.message,
            )
        })
        .collect();
    if lines.len() > MOST_ANNOTATIONS {
        let more = lines.split_off(MOST_ANNOTATIONS).len();
        lines.push(format!(
            "::notice title=lightsout::{more} more prompts did not pass; see the summary"
        ));
    }
    lines
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

    use super::super::sample::{Sample, mixed};
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

    #[test]
    fn what_did_not_pass_is_annotated_at_its_line_as_far_as_github_shows_it() {
        let lines = annotations(&mixed().record());
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines[0],
            "::error file=jobs/nightly.yaml,line=11,title=nightly / fix%3A checks_failed::\
             check-2: exit status 101%0Asee its output"
        );
        let ids = ["a"; 12];
        let lines = annotations(&Sample::of(&[("job", &ids)]).record());
        assert_eq!(lines.len(), 11);
        assert_eq!(
            lines[10],
            "::notice title=lightsout::2 more prompts did not pass; see the summary"
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
