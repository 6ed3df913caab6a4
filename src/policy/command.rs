//! The specifier of a Bash rule, matched against the words of one simple command.

/// `git log *`: words, `*` for anything, blanks included, and a last ` *` also for nothing.
///
/// The words of a rule are read as the shell reads them: `'*'` and `\*` are no wildcards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandPattern {
    pieces: Vec<Piece>,
    /// Ends in ` *` (or `:*`): more words may follow, or none.
    is_prefix: bool,
    /// Leading words without a wildcard.
    literal_words: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Char(char),
    Star,
}

/// Stands between words; commands with control characters are refused, so no word contains it.
const SEPARATOR: char = '\0';

/// What is wrong with a specifier, and where, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) message: String,
    pub(super) help: Option<String>,
    pub(super) offset: usize,
    pub(super) width: usize,
}

impl Fault {
    pub(super) fn new(message: impl Into<String>, offset: usize, width: usize) -> Self {
        Self {
            message: message.into(),
            help: None,
            offset,
            width,
        }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl CommandPattern {
    /// Reads a specifier that is neither empty nor `*` and has no blanks around it.
    pub(super) fn parse(specifier: &str) -> Result<Self, Fault> {
        let (body, colon) = match specifier.strip_suffix(":*") {
            Some(body) => (body, true),
            None => (specifier, false),
        };
        let mut words = read_words(body)?;
        if words.is_empty() {
            return Err(Fault::new("`:*` needs a command before it", 0, 2));
        }
        let star_word = words.len() > 1 && words.last().is_some_and(|word| *word == [Piece::Star]);
        if star_word {
            words.pop();
        }
        let literal_words = words
            .iter()
            .take_while(|word| !word.contains(&Piece::Star))
            .count();
        Ok(Self {
            pieces: words.join(&Piece::Char(SEPARATOR)),
            is_prefix: colon || star_word,
            literal_words,
        })
    }

    /// Whether the words of a command match.
    pub(super) fn matches(&self, words: &[impl AsRef<str>]) -> bool {
        let mut text: Vec<char> = Vec::new();
        for (index, word) in words.iter().enumerate() {
            if index > 0 {
                text.push(SEPARATOR);
            }
            text.extend(word.as_ref().chars());
        }
        if wildcard(&self.pieces, &text) {
            return true;
        }
        if !self.is_prefix {
            return false;
        }
        let mut longer = self.pieces.clone();
        longer.extend([Piece::Char(SEPARATOR), Piece::Star]);
        wildcard(&longer, &text)
    }

    /// Whether it has no wildcard at all: the author spelled the whole command.
    pub(super) fn is_exact(&self) -> bool {
        !self.is_prefix && !self.pieces.contains(&Piece::Star)
    }

    /// How many leading words the author spelled.
    pub(super) fn literal_words(&self) -> usize {
        self.literal_words
    }

    /// The same pattern with its first word stripped of directories: `/bin/rm *` as `rm *`.
    ///
    /// `None` when the first word has no directory.
    pub(super) fn without_directory(&self) -> Option<Self> {
        let end = self
            .pieces
            .iter()
            .position(|piece| *piece == Piece::Char(SEPARATOR))
            .unwrap_or(self.pieces.len());
        let slash = self.pieces[..end]
            .iter()
            .rposition(|piece| *piece == Piece::Char('/'))?;
        Some(Self {
            pieces: self.pieces[slash + 1..].to_vec(),
            ..self.clone()
        })
    }
}

fn read_words(body: &str) -> Result<Vec<Vec<Piece>>, Fault> {
    let mut words: Vec<Vec<Piece>> = Vec::new();
    let mut word: Option<Vec<Piece>> = None;
    let mut chars = body.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        None => {
                            return Err(Fault::new("a quote has no end", at, 1)
                                .help("a quote that is meant itself is written `\\'` or `\\\"`"));
                        }
                        Some((_, quote)) if quote == c => break,
                        Some((_, '\\')) if c == '"' => match chars.next() {
                            None => return Err(Fault::new("a quote has no end", at, 1)),
                            Some((_, escaped @ ('$' | '`' | '"' | '\\'))) => {
                                word.push(Piece::Char(escaped));
                            }
                            Some((_, other)) => {
                                word.extend([Piece::Char('\\'), Piece::Char(other)]);
                            }
                        },
                        Some((_, quoted)) => word.push(Piece::Char(quoted)),
                    }
                }
            }
            '\\' => match chars.next() {
                None => return Err(Fault::new("a backslash has nothing after it", at, 1)),
                Some((_, escaped)) => word.get_or_insert_default().push(Piece::Char(escaped)),
            },
            '*' => {
                let word = word.get_or_insert_default();
                if word.ends_with(&[Piece::Char(':')]) {
                    return Err(
                        Fault::new("`:*` can only stand at the end of a rule", at - 1, 2)
                            .help("in the middle, `*` alone stands for anything"),
                    );
                }
                if word.last() != Some(&Piece::Star) {
                    word.push(Piece::Star);
                }
            }
            ';' | '&' | '|' | '<' | '>' | '(' | ')' | '`' | '$' | '\n' => {
                return Err(Fault::new(
                    format!(
                        "`{}` cannot stand in a rule outside quotes",
                        c.escape_default()
                    ),
                    at,
                    c.len_utf8(),
                )
                .help(
                    "a rule matches one simple command with literal words; write a rule for each \
                     command of a list",
                ));
            }
            c if c.is_control() => {
                return Err(Fault::new("a control character", at, c.len_utf8()));
            }
            c => word.get_or_insert_default().push(Piece::Char(c)),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Whether `text` matches, `Star` standing for any run of characters.
fn wildcard(pieces: &[Piece], text: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go back to: after the last star, and where its run ends at present.
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        match pieces.get(p) {
            Some(Piece::Star) => {
                p += 1;
                back = Some((p, t));
            }
            Some(Piece::Char(c)) if *c == text[t] => {
                p += 1;
                t += 1;
            }
            Some(Piece::Char(_)) | None => match back {
                None => return false,
                Some((after_star, end)) => {
                    p = after_star;
                    t = end + 1;
                    back = Some((after_star, end + 1));
                }
            },
        }
    }
    pieces[p..].iter().all(|piece| *piece == Piece::Star)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(rule: &str, words: &[&str]) -> bool {
        CommandPattern::parse(rule).expect(rule).matches(words)
    }

    #[test]
    fn words_have_boundaries() {
        for (rule, words, expected) in [
            ("npm run build", vec!["npm", "run", "build"], true),
            ("npm run build", vec!["npm", "run", "build", "x"], false),
            ("npm run build", vec!["npm", "run build"], false),
            ("npm run test *", vec!["npm", "run", "test"], true),
            (
                "npm run test *",
                vec!["npm", "run", "test", "--", "x y"],
                true,
            ),
            ("npm run test *", vec!["npm", "run", "test:evil"], false),
            ("npm run test *", vec!["npm", "run", "tester"], false),
            ("ls:*", vec!["ls"], true),
            ("ls:*", vec!["ls", "-l"], true),
            ("ls:*", vec!["lsof"], false),
            ("ls*", vec!["lsof", "-i"], true),
            ("git * main", vec!["git", "push", "origin", "main"], true),
            ("git * main", vec!["git", "main"], false),
            ("git * main", vec!["git", "push", "main", "x"], false),
            ("* --version", vec!["node", "--version"], true),
            (
                "find . -name '*.rs'",
                vec!["find", ".", "-name", "*.rs"],
                true,
            ),
            (
                "find . -name '*.rs'",
                vec!["find", ".", "-name", "a.rs"],
                false,
            ),
            ("find \\*", vec!["find", "*"], true),
            ("find \\*", vec!["find", "x"], false),
            ("git  log  *", vec!["git", "log", "-3"], true),
            (
                "git commit -m \"a b\"",
                vec!["git", "commit", "-m", "a b"],
                true,
            ),
        ] {
            assert_eq!(matches(rule, &words), expected, "{rule} {words:?}");
        }
    }

    #[test]
    fn what_the_author_spelled_is_known() {
        for (rule, is_exact, literal_words) in [
            ("git log", true, 2),
            ("git log *", false, 2),
            ("git log:*", false, 2),
            ("git * main", false, 1),
            ("* --version", false, 0),
            ("ls*", false, 0),
            ("echo '*'", true, 2),
        ] {
            let pattern = CommandPattern::parse(rule).expect(rule);
            assert_eq!(
                (pattern.is_exact(), pattern.literal_words()),
                (is_exact, literal_words),
                "{rule}"
            );
        }
    }

    #[test]
    fn faults_are_placed() {
        for (rule, message, offset, width) in [
            (
                "git:* push",
                "`:*` can only stand at the end of a rule",
                3,
                2,
            ),
            ("echo 'a", "a quote has no end", 5, 1),
            ("echo a\\", "a backslash has nothing after it", 6, 1),
            ("a && b", "`&` cannot stand in a rule outside quotes", 2, 1),
            ("a $B", "`$` cannot stand in a rule outside quotes", 2, 1),
            (":*", "`:*` needs a command before it", 0, 2),
        ] {
            let fault = CommandPattern::parse(rule).expect_err(rule);
            assert_eq!(
                (fault.message.as_str(), fault.offset, fault.width),
                (message, offset, width),
                "{rule}"
            );
        }
    }
}
