//! Splits the plain part of the shell language into words, as bash reads it.
//!
//! Plain means: simple commands of literal words, joined by `&&`, `||`, `;`, `|` and newlines. All
//! else is refused by name. The tree of [`super::shell`] is held against this second reading, so
//! that a difference between a grammar and bash cannot let something through.

use std::ops::Range;

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// Without its quotes.
    pub(super) text: String,
    /// Where it stands in the command, in bytes.
    pub(super) range: Range<usize>,
}

/// One simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) words: Vec<Word>,
    /// Which pipeline of the list it is part of, from 0.
    pub(super) pipeline: usize,
}

/// What stands in a command and is not judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unread {
    /// The piece of the command.
    pub(super) text: String,
    /// What it is.
    pub(super) what: &'static str,
}

/// The simple commands of a plain command.
pub(super) fn split(command: &str) -> Result<Vec<Words>, Unread> {
    let mut reader = Reader {
        command,
        at: 0,
        commands: Vec::new(),
        last: Words::default(),
    };
    reader.read()?;
    reader.end_command();
    for command_words in &reader.commands {
        if let Some(first) = command_words.words.first()
            && is_assignment(&command[first.range.clone()])
        {
            return Err(unread(first.text.clone(), "an assignment"));
        }
    }
    Ok(reader.commands)
}

fn unread(text: impl Into<String>, what: &'static str) -> Unread {
    Unread {
        text: text.into(),
        what,
    }
}

/// `NAME=`, `NAME+=`, `NAME[…]=`, unquoted.
fn is_assignment(source: &str) -> bool {
    let Some((name, _)) = source.split_once('=') else {
        return false;
    };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

struct Reader<'a> {
    command: &'a str,
    at: usize,
    commands: Vec<Words>,
    /// The command that is being read.
    last: Words,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.command[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn read(&mut self) -> Result<(), Unread> {
        loop {
            if self.rest().starts_with("\\\n") {
                self.at += 2;
                continue;
            }
            let Some(c) = self.peek() else {
                return Ok(());
            };
            match c {
                ' ' | '\t' => self.at += 1,
                '#' => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                '\n' | ';' | '&' | '|' => self.operator()?,
                '<' | '>' => return Err(unread(c, "a redirection")),
                '(' | ')' => return Err(unread(c, "a subshell or a function")),
                _ => {
                    let word = self.word()?;
                    self.last.words.push(word);
                }
            }
        }
    }

    /// Ends the command that is being read, if it has begun, and says whether it had.
    fn end_command(&mut self) -> bool {
        if self.last.words.is_empty() {
            return false;
        }
        let pipeline = self.last.pipeline;
        self.commands.push(std::mem::take(&mut self.last));
        self.last.pipeline = pipeline;
        true
    }

    fn operator(&mut self) -> Result<(), Unread> {
        const JOINING: [&str; 5] = ["&&", "||", ";", "|", "\n"];
        const REFUSED: [(&str, &str); 3] = [
            ("|&", "a redirection"),
            (";;", "the end of a `case` branch"),
            ("&>", "a redirection"),
        ];
        for (operator, what) in REFUSED {
            if self.rest().starts_with(operator) {
                return Err(unread(operator, what));
            }
        }
        for operator in JOINING {
            if self.rest().starts_with(operator) {
                self.at += operator.len();
                // After `|` a line may end and the pipeline go on.
                if self.end_command() && operator != "|" {
                    self.last.pipeline += 1;
                }
                return Ok(());
            }
        }
        Err(unread("&", "a command in the background"))
    }

    fn word(&mut self) -> Result<Word, Unread> {
        let start = self.at;
        let mut text = String::new();
        let mut has_brace = false;
        // A line continuation inside a word would make its range differ between readers; it is rare.
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' => break,
                '<' | '>' => return Err(unread(c, "a redirection")),
                '(' | ')' => return Err(unread(c, "a subshell or a function")),
                '\'' => self.single_quoted(&mut text)?,
                '"' => self.double_quoted(&mut text)?,
                '\\' => {
                    self.at += 1;
                    match self.next() {
                        Some('\n') | None => {
                            return Err(unread("\\", "a line continued inside a word"));
                        }
                        Some(escaped) => text.push(escaped),
                    }
                }
                _ => {
                    self.refuse_expansion(c, start)?;
                    has_brace |= c == '{';
                    self.at += c.len_utf8();
                    text.push(c);
                }
            }
        }
        let source = &self.command[start..self.at];
        if has_brace && (source.contains(',') || source.contains("..")) {
            return Err(unread(source, "a brace expansion"));
        }
        Ok(Word {
            text,
            range: start..self.at,
        })
    }

    fn single_quoted(&mut self, text: &mut String) -> Result<(), Unread> {
        self.at += 1;
        let Some(length) = self.rest().find('\'') else {
            return Err(unread("'", "a quote without its end"));
        };
        text.push_str(&self.command[self.at..self.at + length]);
        self.at += length + 1;
        Ok(())
    }

    fn double_quoted(&mut self, text: &mut String) -> Result<(), Unread> {
        self.at += 1;
        loop {
            match self.next() {
                None => return Err(unread("\"", "a quote without its end")),
                Some('"') => return Ok(()),
                Some('`') => return Err(unread("`", "a command substitution")),
                // Before these a `$` is a dollar sign.
                Some('$') if self.rest().starts_with(['"', '|', ')']) => text.push('$'),
                Some('$') => {
                    let shown: String = self.rest().chars().take(20).collect();
                    return Err(unread(format!("${shown}"), "an expansion"));
                }
                Some('\\') => match self.next() {
                    None => return Err(unread("\"", "a quote without its end")),
                    Some('\n') => {}
                    Some(c @ ('$' | '`' | '"' | '\\')) => text.push(c),
                    Some(c) => text.extend(['\\', c]),
                },
                Some(c) => text.push(c),
            }
        }
    }

    /// Refuses what bash would expand at this place of an unquoted word.
    fn refuse_expansion(&self, c: char, start: usize) -> Result<(), Unread> {
        if !matches!(c, '$' | '`' | '*' | '?' | '[' | '~') {
            return Ok(());
        }
        let rest = self.rest();
        let word: &str = rest
            .split([' ', '\t', '\n', ';', '&', '|'])
            .next()
            .unwrap_or(rest);
        match c {
            '$' => Err(unread(word, "an expansion")),
            '`' => Err(unread(word, "a command substitution")),
            '*' | '?' | '[' => Err(unread(
                format!("{}{word}", &self.command[start..self.at]),
                "a file name pattern outside quotes",
            )),
            // At the start of a word, and after `=` and `:` in what looks like an assignment.
            '~' if self.at == start || self.command[..self.at].ends_with(['=', ':']) => {
                Err(unread(word, "a home directory"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(command: &str) -> Result<Vec<Vec<String>>, &'static str> {
        match split(command) {
            Ok(commands) => Ok(commands
                .into_iter()
                .map(|command| command.words.into_iter().map(|word| word.text).collect())
                .collect()),
            Err(unread) => Err(unread.what),
        }
    }

    #[test]
    fn words_lose_their_quotes_as_in_bash() {
        for (command, words) in [
            (r"git log -3", vec![vec!["git", "log", "-3"]]),
            (r#"a "b c"'d'e\ f"#, vec![vec!["a", "b cde f"]]),
            (r#"a "" ''"#, vec![vec!["a", "", ""]]),
            (r#"a "x\"y\n\$z""#, vec![vec!["a", r#"x"y\n$z"#]]),
            (r#"grep "x$" f"#, vec![vec!["grep", "x$", "f"]]),
            ("a # b; c\nd", vec![vec!["a"], vec!["d"]]),
            ("a b#c", vec![vec!["a", "b#c"]]),
            ("a \\\n b", vec![vec!["a", "b"]]),
            (
                "a && b || c; d | e",
                vec![vec!["a"], vec!["b"], vec!["c"], vec!["d"], vec!["e"]],
            ),
            (r"find {} \;", vec![vec!["find", "{}", ";"]]),
            ("git show HEAD~1", vec![vec!["git", "show", "HEAD~1"]]),
            ("", vec![]),
        ] {
            let words: Vec<Vec<String>> = words
                .into_iter()
                .map(|words| words.into_iter().map(str::to_owned).collect())
                .collect();
            assert_eq!(texts(command), Ok(words), "{command}");
        }
    }

    #[test]
    fn what_is_not_plain_is_refused_by_name() {
        for (command, what) in [
            ("a $b", "an expansion"),
            (r#"a "$b""#, "an expansion"),
            ("a `b`", "a command substitution"),
            ("a \"`b`\"", "a command substitution"),
            ("a *.rs", "a file name pattern outside quotes"),
            ("a b?", "a file name pattern outside quotes"),
            ("a [b]", "a file name pattern outside quotes"),
            ("a {b,c}", "a brace expansion"),
            ("a {1..3}", "a brace expansion"),
            ("a ~/b", "a home directory"),
            ("a x=~/b", "a home directory"),
            ("a > b", "a redirection"),
            ("a 2>&1", "a redirection"),
            ("a < b", "a redirection"),
            ("a &> b", "a redirection"),
            ("a |& b", "a redirection"),
            ("a &", "a command in the background"),
            ("(a)", "a subshell or a function"),
            ("X=1 a", "an assignment"),
            ("X+=1", "an assignment"),
            ("X[0]=1", "a file name pattern outside quotes"),
            ("a 'b", "a quote without its end"),
            ("a \"b", "a quote without its end"),
            ("a b\\", "a line continued inside a word"),
        ] {
            assert_eq!(texts(command), Err(what), "{command}");
        }
    }
}
