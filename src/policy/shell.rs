//! A command line as the simple commands it would run.
//!
//! First form: lists and pipelines of simple commands with literal words. What else the syntax tree
//! holds is refused by name, never guessed at.

use std::fmt;
use std::ops::Range;

use tree_sitter::{Node, Parser};

use super::words::{Unread, Words, split};

/// The most characters that are judged. Source: Claude Code's permission rules.
const MAX_CHARS: usize = 10_000;

/// One simple command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SimpleCommand {
    /// Its words without quotes; at least one.
    pub(super) words: Vec<String>,
    /// As it is written.
    pub(super) text: String,
    /// Which pipeline of the list it is part of, from 0.
    pub(super) pipeline: usize,
}

/// Why a command is not judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A construct that rules cannot allow.
    Construct { text: String, what: &'static str },
    /// The command as a whole.
    Whole(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Construct { text, what } => {
                let text = shortened(text);
                let instead = instead(what, &text);
                write!(
                    f,
                    "`{text}` is {what}, which rules cannot allow in this version; {instead}"
                )
            }
            Self::Whole(why) => f.write_str(why),
        }
    }
}

/// What to do instead of a construct.
fn instead(what: &str, text: &str) -> &'static str {
    match what {
        "a redirection" => match text.trim_start_matches(|c: char| c.is_ascii_digit()) {
            copy if copy.starts_with(">&")
                || copy.starts_with("|&")
                || copy.contains("/dev/null") =>
            {
                "leave it out: both outputs are shown"
            }
            input if input.starts_with('<') => "give the file to the command as a word",
            _ => "use the Write tool instead",
        },
        "a heredoc" | "a here-string" => "use the Write tool for the text and give the file's name",
        "an expansion" | "arithmetic" => "write the value itself",
        "a home directory" => "write the path itself",
        "a command substitution" | "a process substitution" => {
            "run the inner command in a call of its own and write its result itself"
        }
        "a string with escapes" => "use ordinary quotes",
        "a brace expansion" => "write the words out, or put them in quotes",
        "a file name pattern outside quotes" => {
            "write the names out, or put it in quotes where the program reads it"
        }
        "an assignment" | "a declaration" => {
            "leave it out: variables are set by `env` in the job file"
        }
        "a test" => "use `test`",
        "a negation" => "leave the `!` out",
        "a command in the background" => "leave the `&` out",
        _ => "run its commands one after another, as a list or in calls of their own",
    }
}

/// One line of at most 80 characters.
pub(super) fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut shown: String = line.chars().take(80).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// The simple commands that a command line would run, in order.
pub(super) fn simple_commands(command: &str) -> Result<Vec<SimpleCommand>, Refusal> {
    if command.chars().count() > MAX_CHARS {
        return Err(Refusal::Whole(
            "the command is longer than 10,000 characters",
        ));
    }
    if command
        .chars()
        .any(|c| c.is_control() && !matches!(c, '\n' | '\t'))
    {
        return Err(Refusal::Whole("the command contains control characters"));
    }
    let mut parser = Parser::new();
    let tree = parser
        .set_language(&tree_sitter_bash::LANGUAGE.into())
        .ok()
        .and_then(|()| parser.parse(command, None))
        .ok_or(Refusal::Whole("the command cannot be parsed"))?;

    let in_tree = walk(tree.root_node(), command)?;
    let in_text =
        split(command).map_err(|Unread { text, what }| Refusal::Construct { text, what })?;
    if in_tree.is_empty() {
        return Err(Refusal::Whole("there is no command to run"));
    }
    let ranges: Vec<Vec<Range<usize>>> = in_text.iter().map(ranges_of).collect();
    if ranges != in_tree {
        return Err(Refusal::Whole("the command can be read in two ways"));
    }
    in_text
        .into_iter()
        .map(|words| simple_command(command, words))
        .collect()
}

fn ranges_of(command: &Words) -> Vec<Range<usize>> {
    command
        .words
        .iter()
        .map(|word| word.range.clone())
        .collect()
}

fn simple_command(
    command: &str,
    Words { words, pipeline }: Words,
) -> Result<SimpleCommand, Refusal> {
    // Reserved words that the grammar takes for commands (`coproc X { cat; }` is one of its misses).
    const RESERVED: [&str; 24] = [
        "!", "{", "}", "[[", "]]", "case", "coproc", "do", "done", "elif", "else", "esac", "fi",
        "for", "function", "if", "in", "select", "then", "until", "while", "[", "", "]",
    ];
    let (Some(first), Some(last)) = (words.first(), words.last()) else {
        return Err(Refusal::Whole("there is no command to run"));
    };
    let text = command[first.range.start..last.range.end].to_owned();
    if RESERVED.contains(&first.text.as_str()) {
        return Err(Refusal::Construct {
            text,
            what: "a shell keyword",
        });
    }
    Ok(SimpleCommand {
        words: words.into_iter().map(|word| word.text).collect(),
        text,
        pipeline,
    })
}

/// The ranges of the words of every simple command, if the tree holds nothing but lists, pipelines
/// and simple commands.
fn walk(root: Node<'_>, command: &str) -> Result<Vec<Vec<Range<usize>>>, Refusal> {
    let mut commands = Vec::new();
    let mut broken = root.has_error();
    // Depth first, in the order of the text. Not recursive: nesting is the model's choice.
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        match node.kind() {
            "program" | "list" | "pipeline" => {
                open.extend(children(node).into_iter().rev());
            }
            "command" => commands.push(words_of(node, command)?),
            "&&" | "||" | ";" | "|" | "\n" | "comment" => {}
            "ERROR" => broken = true,
            kind => return Err(construct(node, kind, command)),
        }
    }
    if broken {
        return Err(Refusal::Whole(
            "the command cannot be parsed, or not without doubt",
        ));
    }
    Ok(commands)
}

/// By a cursor: asking a node for one child after another takes time quadratic in their number.
fn children(node: Node<'_>) -> Vec<Node<'_>> {
    node.children(&mut node.walk()).collect()
}

fn words_of(node: Node<'_>, command: &str) -> Result<Vec<Range<usize>>, Refusal> {
    let mut words = Vec::new();
    for child in children(node) {
        refuse_nested(child, command)?;
        words.push(child.byte_range());
    }
    Ok(words)
}

/// Refuses a word that is not made of literal pieces.
fn refuse_nested(word: Node<'_>, command: &str) -> Result<(), Refusal> {
    let mut open = vec![word];
    while let Some(node) = open.pop() {
        match node.kind() {
            "command_name" | "concatenation" | "string" | "word" | "number" | "raw_string"
            | "string_content" => {
                open.extend(children(node).into_iter().rev());
            }
            // The quotes of a string, and a dollar sign that stands for itself.
            "\"" | "$" => {}
            kind => return Err(construct(node, kind, command)),
        }
    }
    Ok(())
}

fn construct(node: Node<'_>, kind: &str, command: &str) -> Refusal {
    let what = match kind {
        "command_substitution" => "a command substitution",
        "process_substitution" => "a process substitution",
        "simple_expansion" | "expansion" | "$" => "an expansion",
        "arithmetic_expansion" => "arithmetic",
        "ansi_c_string" | "translated_string" => "a string with escapes",
        "brace_expression" => "a brace expansion",
        "variable_assignment" | "variable_assignments" => "an assignment",
        "declaration_command" | "unset_command" => "a declaration",
        "redirected_statement" | "file_redirect" | "|&" => "a redirection",
        "heredoc_redirect" | "heredoc_body" => "a heredoc",
        "herestring_redirect" => "a here-string",
        "subshell" => "a subshell",
        "compound_statement" => "a group",
        "for_statement" | "c_style_for_statement" | "while_statement" => "a loop",
        "if_statement" | "case_statement" => "a condition",
        "test_command" => "a test",
        "negated_command" => "a negation",
        "function_definition" => "a function",
        "&" => "a command in the background",
        _ => "shell syntax",
    };
    // Of a redirection the file is what a reader looks for, and it stands after the command.
    let shown = if kind == "redirected_statement" {
        node.child_by_field_name("redirect").unwrap_or(node)
    } else {
        node
    };
    Refusal::Construct {
        text: command[shown.byte_range()].to_owned(),
        what: match shown.kind() {
            "heredoc_redirect" => "a heredoc",
            "herestring_redirect" => "a here-string",
            _ => what,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(command: &str) -> Result<Vec<String>, String> {
        match simple_commands(command) {
            Ok(commands) => Ok(commands
                .into_iter()
                .map(|command| command.words.join("·"))
                .collect()),
            Err(refusal) => Err(refusal.to_string()),
        }
    }

    #[test]
    fn lists_and_pipelines_become_their_simple_commands() {
        for (command, commands) in [
            ("git log -3", vec!["git·log·-3"]),
            (
                "a x && b || c; d | e -f\ng",
                vec!["a·x", "b", "c", "d", "e·-f", "g"],
            ),
            (
                "git commit -m \"fix; rm -rf is only text\"",
                vec!["git·commit·-m·fix; rm -rf is only text"],
            ),
            ("'r'm \"-r\"f x", vec!["rm·-rf·x"]),
            ("r\\m x", vec!["rm·x"]),
            ("ls \\\n  -l # list\n# more\nwc", vec!["ls·-l", "wc"]),
            ("find . -name '*.rs' {} \\;", vec!["find·.·-name·*.rs·{}·;"]),
            ("a;", vec!["a"]),
            ("grep \"x$\" 5", vec!["grep·x$·5"]),
            ("git show HEAD~1 a^ a:b%c", vec!["git·show·HEAD~1·a^·a:b%c"]),
        ] {
            let commands = commands.into_iter().map(str::to_owned).collect();
            assert_eq!(shown(command), Ok(commands), "{command}");
        }
    }

    #[test]
    fn what_rules_cannot_allow_is_named_with_what_to_do_instead() {
        for (command, part) in [
            (
                "git log \"$(touch marker)\"",
                "`$(touch marker)` is a command substitution,",
            ),
            ("a `b`", "` is a command substitution,"),
            ("a <(b)", "` is a process substitution,"),
            ("a $HOME", "`$HOME` is an expansion,"),
            ("a ${HOME}", "` is an expansion,"),
            ("a $((1+1))", "` is arithmetic,"),
            ("a $'b'", "` is a string with escapes,"),
            ("FOO=1 a", "` is an assignment,"),
            ("FOO=1", "` is an assignment,"),
            ("export A=b", "` is a declaration,"),
            ("a > b", "`> b` is a redirection,"),
            (
                "a 2>&1",
                "`2>&1` is a redirection, which rules cannot allow in this version; leave it out: \
                 both outputs are shown",
            ),
            ("a 2>/dev/null", "leave it out: both outputs are shown"),
            ("a 2> b", "use the Write tool instead"),
            ("a < b", "give the file to the command as a word"),
            ("a | b < c", "`< c` is a redirection,"),
            ("a <<'E'\nrm\nE", "` is a heredoc,"),
            ("a <<< b", "` is a here-string,"),
            ("(a)", "`(a)` is a subshell,"),
            ("{ a; }", "` is a group,"),
            ("for i in a; do b; done", "` is a loop,"),
            ("while a; do b; done", "` is a loop,"),
            ("if a; then b; fi", "` is a condition,"),
            ("case a in b) c;; esac", "` is a condition,"),
            ("[ -f a ]", "` is a test,"),
            ("[[ -f a ]]", "` is a test,"),
            ("! a", "` is a negation,"),
            ("f() { a; }", "` is a function,"),
            ("a & b", "`&` is a command in the background,"),
            ("a |& b", "`|&` is a redirection,"),
            ("a *.rs", "` is a file name pattern outside quotes,"),
            ("a {b,c}", "` is a brace expansion,"),
            ("a ~/b", "` is a home directory,"),
            ("coproc X { cat; }", "` is a shell keyword,"),
            ("a \"b", "cannot be parsed"),
            ("a && && b", "cannot be parsed"),
            ("a\r", "control characters"),
            ("a\u{0}b", "control characters"),
            ("", "no command"),
            ("# only a comment", "no command"),
        ] {
            let refused = shown(command).expect_err(command);
            assert!(refused.contains(part), "{command}: {refused}");
        }
        let long = "a ".repeat(5_001);
        assert!(shown(&long).expect_err("too long").contains("10,000"));
    }
}
