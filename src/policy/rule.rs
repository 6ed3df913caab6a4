//! `Tool` or `Tool(specifier)`, read from its text.

use std::fmt;

use super::command::{CommandPattern, Fault};
use super::decide::Place;
use super::path::PathPattern;
use super::tool::ToolName;

/// One rule of a job file.
#[derive(Clone, Debug)]
pub struct Rule {
    text: String,
    place: Place,
    note: Option<String>,
    tool: ToolName,
    specifier: Specifier,
}

/// What a rule says of the calls of its tool.
#[derive(Clone, Debug)]
pub(super) enum Specifier {
    /// Nothing: it speaks of all of them. For tools on paths, of all paths in the workspace.
    Any,
    /// `Bash(…)`.
    Command(CommandPattern),
    /// `Read(…)`, `Write(…)`, `Edit(…)`, `Glob(…)`, `Grep(…)`.
    Path(Box<PathPattern>),
    /// Of a tool that is not built.
    Unread,
}

/// What is wrong with the text of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// Where in the rule's text, in bytes, on a character boundary.
    pub offset: usize,
    /// How many bytes; at least 1 and not past the text unless that is empty.
    pub width: usize,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RuleError {}

impl Rule {
    /// Reads a rule. `place` is where its text begins; `note` goes to the model with each allowed call.
    ///
    /// A rule that could never match, or not as its author meant, is an error.
    pub fn parse(text: &str, place: Place, note: Option<String>) -> Result<Self, RuleError> {
        let (tool, specifier) = read(text).map_err(|fault| RuleError {
            message: fault.message,
            help: fault.help,
            offset: fault.offset.min(text.len()),
            width: fault.width.max(1),
        })?;
        Ok(Self {
            text: text.to_owned(),
            place,
            note,
            tool,
            specifier,
        })
    }

    /// As it is written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where it stands.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What the model is told with each call it allows.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// The tool it speaks of.
    pub fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// Whether it speaks of all calls of its tool: `Tool` or `Tool(*)`.
    pub fn is_bare(&self) -> bool {
        matches!(self.specifier, Specifier::Any)
    }

    pub(super) fn specifier(&self) -> &Specifier {
        &self.specifier
    }

    pub(super) fn command(&self) -> Option<&CommandPattern> {
        match &self.specifier {
            Specifier::Command(pattern) => Some(pattern),
            Specifier::Any | Specifier::Path(_) | Specifier::Unread => None,
        }
    }

    pub(super) fn path(&self) -> Option<&PathPattern> {
        match &self.specifier {
            Specifier::Path(pattern) => Some(pattern),
            Specifier::Any | Specifier::Command(_) | Specifier::Unread => None,
        }
    }
}

fn read(text: &str) -> Result<(ToolName, Specifier), Fault> {
    if text.is_empty() {
        return Err(Fault::new("the rule is empty", 0, 1));
    }
    if text.trim() != text {
        let start = text.len() - text.trim_start().len();
        let (offset, width) = if start > 0 {
            (0, start)
        } else {
            (text.trim_end().len(), text.len() - text.trim_end().len())
        };
        return Err(Fault::new("blanks around a rule", offset, width));
    }
    let (name, specifier) = match text.find('(') {
        None => (text, None),
        Some(open) => (&text[..open], Some(open + 1)),
    };
    let tool = find_tool(name)?;
    let Some(start) = specifier else {
        return Ok((tool, Specifier::Any));
    };
    check_parentheses(text, start - 1)?;
    let specifier = &text[start..text.len() - 1];
    if specifier.trim().is_empty() {
        return Err(Fault::new(
            "the parentheses are empty",
            start - 1,
            text.len() - start + 1,
        )
        .help(format!("every call is allowed or denied by `{name}` alone")));
    }
    if specifier.trim() != specifier {
        return Err(Fault::new(
            "blanks around a specifier",
            start,
            specifier.len(),
        ));
    }
    if specifier == "*" {
        return Ok((tool, Specifier::Any));
    }
    let specifier = match &tool {
        ToolName::Bash => CommandPattern::parse(specifier).map(Specifier::Command),
        ToolName::Read | ToolName::Write | ToolName::Edit | ToolName::Glob | ToolName::Grep => {
            PathPattern::parse(specifier).map(|pattern| Specifier::Path(Box::new(pattern)))
        }
        ToolName::Unbuilt(_) => Ok(Specifier::Unread),
    };
    let specifier = specifier.map_err(|mut fault| {
        fault.offset += start;
        fault
    })?;
    Ok((tool, specifier))
}

fn find_tool(name: &str) -> Result<ToolName, Fault> {
    if name.trim_end() != name {
        return Err(Fault::new(
            "blanks before the parenthesis",
            name.trim_end().len(),
            1,
        ));
    }
    if let Some(at) = name.find(')') {
        return Err(Fault::new("`)` without `(`", at, 1));
    }
    if name.is_empty() {
        return Err(Fault::new("the rule names no tool", 0, 1));
    }
    if name.contains('*') && !name.starts_with("mcp__") {
        return Err(Fault::new(
            "patterns of tool names are not supported yet",
            0,
            name.len(),
        ));
    }
    ToolName::find(name).map_err(|unknown| {
        let fault = Fault::new(format!("unknown tool `{name}`"), 0, name.len());
        match unknown.nearest {
            Some(nearest) => fault.help(format!("did you mean `{nearest}`?")),
            None => fault.help("the tools are Read, Write, Edit, Glob, Grep and Bash"),
        }
    })
}

/// The parenthesis at `open` must be closed by the last character and by no other.
fn check_parentheses(text: &str, open: usize) -> Result<(), Fault> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut chars = text[open..].char_indices();
    // Quotes hide parentheses in commands; in paths they are ordinary characters.
    let has_quotes = text.starts_with("Bash(");
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (Some('\''), '\\') => {}
            (_, '\\') => {
                chars.next();
            }
            (Some(open), c) => {
                if c == open {
                    quote = None;
                }
            }
            (None, '\'' | '"') if has_quotes => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => {
                depth -= 1;
                if depth == 0 {
                    let end = open + at + 1;
                    return if end == text.len() {
                        Ok(())
                    } else {
                        Err(Fault::new(
                            "the rule goes on after `)`",
                            end,
                            text.len() - end,
                        ))
                    };
                }
            }
            (None, _) => {}
        }
    }
    Err(match quote {
        Some(_) => Fault::new("a quote has no end", open, text.len() - open),
        None => Fault::new("`(` is not closed", open, 1)
            .help("a rule is `Tool` or `Tool(specifier)`; `\\(` is a parenthesis itself"),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn place() -> Place {
        Place {
            file: Arc::from("job.yaml"),
            line: 1,
            column: 1,
        }
    }

    #[test]
    fn good_rules_are_read() {
        for (text, tool, is_bare) in [
            ("Read", ToolName::Read, true),
            ("Read(*)", ToolName::Read, true),
            ("Bash(*)", ToolName::Bash, true),
            ("Bash(git log *)", ToolName::Bash, false),
            ("Bash(git log:*)", ToolName::Bash, false),
            ("Bash(git * main)", ToolName::Bash, false),
            ("Bash(echo '(')", ToolName::Bash, false),
            ("Read(app/(group)/**)", ToolName::Read, false),
            ("Read(it's/**)", ToolName::Read, false),
            ("Edit(//etc/hosts)", ToolName::Edit, false),
            (
                "WebFetch(domain:example.com)",
                ToolName::Unbuilt("WebFetch".into()),
                false,
            ),
            (
                "mcp__github__get_*",
                ToolName::Unbuilt("mcp__github__get_*".into()),
                true,
            ),
        ] {
            let rule = Rule::parse(text, place(), None).expect(text);
            assert_eq!((rule.tool(), rule.is_bare()), (&tool, is_bare), "{text}");
        }
    }

    #[test]
    fn typos_are_errors_with_their_place() {
        for (text, message, offset, width) in [
            ("", "the rule is empty", 0, 1),
            (" Read", "blanks around a rule", 0, 1),
            ("Read  ", "blanks around a rule", 4, 2),
            ("Bsh(ls:*)", "unknown tool `Bsh`", 0, 3),
            ("*", "patterns of tool names are not supported yet", 0, 1),
            ("(ls)", "the rule names no tool", 0, 1),
            ("Read(src/**", "`(` is not closed", 4, 1),
            ("Read)", "`)` without `(`", 4, 1),
            ("Read(a)b", "the rule goes on after `)`", 7, 1),
            ("Read(a))", "the rule goes on after `)`", 7, 1),
            ("Read((a)", "`(` is not closed", 4, 1),
            ("Read()", "the parentheses are empty", 4, 2),
            ("Read( )", "the parentheses are empty", 4, 3),
            ("Read (a)", "blanks before the parenthesis", 4, 1),
            ("Read( a)", "blanks around a specifier", 5, 2),
            ("Bash(ls )", "blanks around a specifier", 5, 3),
            (
                "Bash(git:* push)",
                "`:*` can only stand at the end of a rule",
                8,
                2,
            ),
            ("Bash(echo 'a)", "a quote has no end", 4, 9),
            (
                "Read(src/[a)",
                "a bracket or brace is open at the end of a name",
                9,
                2,
            ),
            ("Read(a//b)", "an empty path component", 7, 1),
        ] {
            let error = Rule::parse(text, place(), None).expect_err(text);
            assert_eq!(
                (error.message.as_str(), error.offset, error.width),
                (message, offset, width),
                "{text}"
            );
        }
        let error = Rule::parse("Bsh(ls:*)", place(), None).expect_err("a typo");
        assert_eq!(error.help.as_deref(), Some("did you mean `Bash`?"));
    }
}
