//! The rules of `allowed_tools` and `denied_tools`: the only file of the room that calls `policy`.

use std::path::PathBuf;
use std::sync::Arc;

use crate::policy::{Place, Policy, Roots, Rule, ToolName};

use super::file::Reader;
use super::keys::{self, Known};
use super::locate::Span;
use super::node::{Content, Node};
use super::value::{self, At, unsupported};

/// A rule and where it stands.
#[derive(Clone, Debug)]
pub(super) struct ListedRule {
    pub(super) rule: Rule,
    /// The rule names Bash.
    pub(super) is_bash: bool,
    /// What it allows may change something: Write, Edit, and every command but known readers.
    pub(super) may_change: bool,
    pub(super) span: Span,
}

/// Programs that read and print, whatever their options.
const READERS: &[&str] = &["cat", "grep", "head", "ls", "tail", "wc"];

/// Commands of git that read and print, but for the options below.
const GIT_READERS: &[&str] = &[
    "blame",
    "cat-file",
    "describe",
    "diff",
    "log",
    "ls-files",
    "ls-tree",
    "merge-base",
    "rev-list",
    "rev-parse",
    "shortlog",
    "show",
    "status",
];

/// Options by which these write a file or run a program.
const GIT_EXCEPT: &[&str] = &["--output", "--ext-diff", "--textconv", "--filters"];

/// A list of rules, each a text or `{rule, note}`.
pub(super) fn read(
    reader: &mut Reader<'_>,
    key: &str,
    node: &Node,
    is_allow: bool,
) -> Option<Vec<ListedRule>> {
    let help = "a list of rules, such as [Read, \"Bash(git log *)\"]";
    let nodes = value::list(&mut reader.faults, key, node, help)?;
    Some(
        nodes
            .iter()
            .filter_map(|node| read_one(reader, key, node, is_allow))
            .collect(),
    )
}

fn read_one(reader: &mut Reader<'_>, key: &str, node: &Node, is_allow: bool) -> Option<ListedRule> {
    let Content::Map(entries) = &node.content else {
        let text = value::text(&mut reader.faults, key, node)?;
        return parse(reader, &text, None, is_allow);
    };
    let mut text = None;
    let mut said = None;
    let mut has_rule = false;
    for entry in entries {
        let (key, node) = (entry.key.text.as_str(), &entry.value);
        match key {
            "rule" => {
                has_rule = true;
                text = value::text(&mut reader.faults, key, node);
            }
            "note" => said = value::text(&mut reader.faults, key, node).map(|at| at.value),
            "tests" if node.has_no_entries() => {}
            "tests" => unsupported(
                &mut reader.faults,
                entry.key.span,
                "tests",
                "leave it out, and try the rule by `lightsout explain`",
            ),
            _ => {
                let known = Known {
                    built: &["rule", "note"],
                    later: &["tests"],
                };
                let meant = keys::unknown_key(&mut reader.faults, entry, "in a rule", known);
                has_rule |= meant == Some("rule");
            }
        }
    }
    if !has_rule {
        let help = "write `{rule: \"Bash(git log *)\", note: \"…\"}`";
        reader
            .faults
            .error(node.span, "a rule without `rule`", help);
    }
    parse(reader, &text?, said, is_allow)
}

fn parse(
    reader: &mut Reader<'_>,
    text: &At<String>,
    note: Option<String>,
    is_allow: bool,
) -> Option<ListedRule> {
    let place = Place {
        file: Arc::clone(&reader.name),
        line: text.span.at.line,
        column: text.span.at.column,
    };
    match Rule::parse(&text.value, place, note) {
        // A deny rule may name a tool that is not built: there is nothing to deny. An allow rule that
        // names one would promise what does not happen.
        Ok(rule) if is_allow && !rule.tool().is_built() => {
            let help = format!("leave the rule out: this version has {}", built_tools());
            unsupported(&mut reader.faults, text.span, rule.tool().as_str(), &help);
            None
        }
        Ok(rule) => Some(ListedRule {
            is_bash: *rule.tool() == ToolName::Bash,
            may_change: match rule.tool() {
                ToolName::Write | ToolName::Edit => true,
                ToolName::Bash => !only_reads(rule.text()),
                ToolName::Read | ToolName::Glob | ToolName::Grep | ToolName::Unbuilt(_) => false,
            },
            rule,
            span: text.span,
        }),
        Err(error) => {
            let span = reader
                .text
                .within(text.span, &text.value, error.offset, error.width);
            let help = error.help.unwrap_or_else(|| {
                let built = built_tools();
                format!("a rule is `Tool` or `Tool(specifier)`, such as `Read` or `Bash(git log *)`; the tools are {built}")
            });
            reader.faults.error(span, error.message, help);
            None
        }
    }
}

fn built_tools() -> String {
    ToolName::BUILT.map(|tool| tool.to_string()).join(", ")
}

/// Whether a rule spells a command that is known to read and print alone: `Bash(git log *)`.
fn only_reads(rule: &str) -> bool {
    let Some(command) = rule
        .strip_prefix("Bash(")
        .and_then(|rest| rest.strip_suffix(')'))
    else {
        return false;
    };
    let command = command.strip_suffix(":*").unwrap_or(command);
    let mut words = command.split_ascii_whitespace();
    match words.next() {
        Some("git") => {
            words.next().is_some_and(|word| GIT_READERS.contains(&word))
                && !words.any(|word| GIT_EXCEPT.iter().any(|except| word.starts_with(except)))
        }
        Some(program) => READERS.contains(&program),
        None => false,
    }
}

/// The policy of one prompt: its own allow list or else the job's, and the deny rules of both.
pub(super) fn policy(
    allow: &[ListedRule],
    deny: &[&[ListedRule]],
    workspace: PathBuf,
    home: Option<PathBuf>,
    protected_files: Vec<PathBuf>,
) -> Policy {
    let rules = |listed: &[ListedRule]| -> Vec<Rule> {
        listed.iter().map(|listed| listed.rule.clone()).collect()
    };
    Policy::new(
        rules(allow),
        deny.iter().flat_map(|listed| rules(listed)).collect(),
        Roots {
            workspace,
            home,
            protected_files,
            ..Roots::default()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_spelled_as_a_reader_is_one() {
        for (rule, reads) in [
            ("Bash(git log *)", true),
            ("Bash(git log:*)", true),
            ("Bash(git diff --stat)", true),
            ("Bash(ls)", true),
            ("Bash(cat *)", true),
            ("Bash(git log --output=x)", false),
            ("Bash(git diff --ext-diff *)", false),
            ("Bash(git *)", false),
            ("Bash(git l*)", false),
            ("Bash(git commit *)", false),
            ("Bash(git:*)", false),
            ("Bash(cat* x)", false),
            ("Bash(make test)", false),
            ("Bash(*)", false),
            ("Bash", false),
        ] {
            assert_eq!(only_reads(rule), reads, "{rule}");
        }
    }
}
