//! The words of a command that are files, held against the path rules.
//!
//! What is known of a program says how its words are taken. Of a known reader or writer every word is
//! a file; of any other program only what looks like one (`npm run build` names no directory). A
//! program that opens files by itself, an interpreter above all, is not held by these rules.

use std::path::{Path, PathBuf};

use super::bash::{Hit, Lift, shown};
use super::decide::{Policy, ResolvePath, Resolved, denied_reason};
use super::programs::{base_name, is_reader, is_recursive, is_writer};
use super::protected::{forbidden, holds_protected};
use super::rule::Rule;
use super::shell::shortened;
use super::tool::ToolName;

/// In how many directories a command may find itself, as far as can be told; more are not followed.
const MAX_DIRECTORIES: usize = 8;

/// After how many `=`, `:` and `@` of a word, from each end, a path is looked for.
const MAX_SEPARATORS: usize = 8;

/// Resolves the words of a command line's parts, following `cd`.
pub(super) struct Operands<'a> {
    policy: &'a Policy,
    resolve: &'a dyn ResolvePath,
    /// Where the next part may find itself: `cd` may fail, or happen in a subshell of a pipeline.
    directories: Vec<PathBuf>,
}

/// How a program treats the files it is given.
#[derive(Clone, Copy)]
struct Manner {
    /// Every word is a file.
    is_known: bool,
    /// It may change them.
    changes: bool,
}

impl<'a> Operands<'a> {
    pub(super) fn new(policy: &'a Policy, resolve: &'a dyn ResolvePath, cwd: &Path) -> Self {
        Self {
            policy,
            resolve,
            directories: vec![cwd.to_path_buf()],
        }
    }

    /// What speaks against the files that a command names.
    pub(super) fn objection(&self, words: &[String]) -> Option<Hit<'a>> {
        let manner = manner(words);
        if !manner.is_known && self.binding(manner).all(|rule| rule.path().is_none()) {
            return None;
        }
        let Some(directories) = self.directories_of(words) else {
            return Some(Hit {
                rule: None,
                reason: format!(
                    "`{}` names more directories to work in than can be followed",
                    shown(words)
                ),
                lifted_by: Lift::Spelled,
            });
        };
        for (at, word) in words.iter().enumerate() {
            if at == 0 && !word.contains('/') {
                continue;
            }
            for candidate in candidates(word, base_name(&words[0]) == "git") {
                for directory in &directories {
                    let path = self.resolve.resolve(Path::new(candidate), directory);
                    let hit = self.word_objection(words, candidate, &path, manner);
                    if hit.is_some() {
                        return hit;
                    }
                }
            }
        }
        self.recursion_objection(words, &directories, manner)
    }

    /// Adds the directories that a program's options name to those where the commands that it starts
    /// may find themselves, and returns those that were known before, for [`Operands::go_back`].
    ///
    /// Too many directories add none: [`Operands::objection`] has then spoken against the command.
    pub(super) fn go_into(&mut self, words: &[String]) -> Vec<PathBuf> {
        let wider = self.directories_of(words);
        let before = self.directories.clone();
        self.directories = wider.unwrap_or_else(|| before.clone());
        before
    }

    /// Takes back what [`Operands::go_into`] added.
    pub(super) fn go_back(&mut self, before: Vec<PathBuf>) {
        self.directories = before;
    }

    /// Moves along when the command is `cd`, and says what speaks against that.
    pub(super) fn follow_cd(&mut self, words: &[String]) -> Option<Hit<'a>> {
        if words[0] != "cd" {
            return None;
        }
        let shown = shown(words);
        let hit = |lifted_by, why: String| {
            Some(Hit {
                rule: None,
                reason: format!("`{shown}` {why}"),
                lifted_by,
            })
        };
        let operands: Vec<&str> = words[1..]
            .iter()
            .map(String::as_str)
            .filter(|word| !matches!(*word, "-P" | "-L" | "--"))
            .collect();
        let target = match operands.as_slice() {
            [] => self.policy.roots.home.clone(),
            [operand] if !operand.is_empty() && !operand.starts_with(['-', '+']) => {
                Some(PathBuf::from(operand))
            }
            _ => None,
        };
        let Some(target) = target else {
            return hit(
                Lift::Spelled,
                "leads to a place that is not known".to_owned(),
            );
        };
        if self.directories.len() > MAX_DIRECTORIES {
            return hit(
                Lift::Nothing,
                "changes the directory once too often".to_owned(),
            );
        }
        let mut outside = None;
        for directory in self.directories.clone() {
            let path = self.resolve.resolve(&target, &directory);
            for path in path.both() {
                if !path.starts_with(&self.policy.roots.workspace) {
                    outside = Some(path.to_path_buf());
                }
                if !self.directories.iter().any(|known| known == path) {
                    self.directories.push(path.to_path_buf());
                }
            }
        }
        if self.directories.len() > MAX_DIRECTORIES {
            return hit(
                Lift::Nothing,
                "changes the directory once too often".to_owned(),
            );
        }
        let outside = outside?;
        hit(
            Lift::SpelledOrBare,
            format!("leaves the workspace for `{}`", outside.display()),
        )
    }

    /// The directories in which the words of one command may be meant: `tar -C dir`, `env -C dir`.
    /// `None` when there are too many.
    fn directories_of(&self, words: &[String]) -> Option<Vec<PathBuf>> {
        const OPTIONS: [&str; 8] = [
            "-C",
            "-D",
            "--chdir",
            "--directory",
            "--cwd",
            "--prefix",
            "--dir",
            "--work-tree",
        ];
        let mut directories = self.directories.clone();
        for (at, word) in words.iter().enumerate().skip(1) {
            let named = OPTIONS.iter().find_map(|option| {
                let rest = word.strip_prefix(option)?;
                match rest.strip_prefix('=') {
                    Some(value) => Some(value),
                    None if rest.is_empty() => words.get(at + 1).map(String::as_str),
                    None => (option.len() == 2).then_some(rest),
                }
            });
            let Some(named) = named else {
                continue;
            };
            // Each may be meant from the one before it.
            for directory in directories.clone() {
                let reached = self.resolve.resolve(Path::new(named), &directory).real;
                if !directories.contains(&reached) {
                    directories.push(reached);
                }
            }
            if directories.len() > MAX_DIRECTORIES {
                return None;
            }
        }
        Some(directories)
    }

    fn word_objection(
        &self,
        words: &[String],
        word: &str,
        path: &Resolved,
        manner: Manner,
    ) -> Option<Hit<'a>> {
        if manner.is_known || looks_like_a_path(word) {
            let rule = self
                .binding(manner)
                .find(|rule| self.policy.rule_denies(rule, path, manner.is_known));
            if let Some(rule) = rule {
                return Some(denied(rule, words, word));
            }
        }
        if !manner.is_known {
            return None;
        }
        if manner.changes {
            let closed = path.both().into_iter().find_map(|path| {
                let whole = is_recursive(words).then(|| holds_protected(path)).flatten();
                whole.or_else(|| self.policy.closed_part(&ToolName::Write, path))
            });
            if let Some(part) = closed {
                return Some(Hit {
                    rule: None,
                    reason: format!(
                        "`{}` in `{}` is protected (`{}` decides what programs do later)",
                        shortened(word),
                        shown(words),
                        part.display()
                    ),
                    lifted_by: Lift::Spelled,
                });
            }
            if let Some(hit) = self.critical_objection(words, word, path) {
                return Some(hit);
            }
        }
        let why = path
            .both()
            .into_iter()
            .filter(|path| !is_harmless_device(path))
            .find_map(|path| forbidden(path, &self.policy.roots))?;
        Some(Hit {
            rule: None,
            reason: format!(
                "`{}` in `{}` cannot be opened: {why}",
                shortened(word),
                shown(words)
            ),
            lifted_by: Lift::SpelledOrBare,
        })
    }

    /// `rm` and `mv` on the workspace itself, home, or what lies above them.
    fn critical_objection(&self, words: &[String], word: &str, path: &Resolved) -> Option<Hit<'a>> {
        if !matches!(base_name(&words[0]), "rm" | "rmdir" | "mv") {
            return None;
        }
        let roots = &self.policy.roots;
        let is_critical = path.both().into_iter().any(|path| {
            roots.workspace.starts_with(path)
                || roots
                    .home
                    .as_deref()
                    .is_some_and(|home| home.starts_with(path))
                || path.components().count() <= 2
        });
        is_critical.then(|| Hit {
            rule: None,
            reason: format!(
                "`{}` in `{}` is the workspace, a home or a system directory",
                shortened(word),
                shown(words)
            ),
            lifted_by: Lift::Spelled,
        })
    }

    /// A command that works on whole directories, of which a rule denies a part.
    fn recursion_objection(
        &self,
        words: &[String],
        directories: &[PathBuf],
        manner: Manner,
    ) -> Option<Hit<'a>> {
        if !is_recursive(words) {
            return None;
        }
        let mut searched: Vec<PathBuf> = Vec::new();
        if searches_here(words) {
            searched.extend(directories.iter().cloned());
        }
        for word in searched_words(words) {
            for candidate in candidates(word, false) {
                for directory in directories {
                    let path = self.resolve.resolve(Path::new(candidate), directory);
                    if self.resolve.is_directory(&path.real) {
                        searched.extend([path.written, path.real]);
                    }
                }
            }
        }
        let rule = self.binding(manner).find(|rule| {
            rule.path().is_some_and(|pattern| {
                searched
                    .iter()
                    .any(|directory| pattern.may_deny_below(directory, &self.policy.roots))
            })
        })?;
        Some(Hit {
            rule: Some(rule),
            reason: format!(
                "`{}` works on whole directories, of which `{}` ({}) denies a part",
                shown(words),
                rule.text(),
                rule.place()
            ),
            lifted_by: Lift::Nothing,
        })
    }

    /// The deny rules that hold for a program's files.
    fn binding(&self, manner: Manner) -> impl Iterator<Item = &'a Rule> {
        self.policy.deny.iter().filter(move |rule| {
            *rule.tool() == ToolName::Read || (manner.changes && rule.tool().changes_files())
        })
    }
}

fn denied<'a>(rule: &'a Rule, words: &[String], word: &str) -> Hit<'a> {
    Hit {
        rule: Some(rule),
        reason: denied_reason(rule, format!("`{}` in `{}`", shortened(word), shown(words))),
        lifted_by: Lift::Nothing,
    }
}

fn manner(words: &[String]) -> Manner {
    /// Subcommands of git that change files of the working tree.
    const CHANGING: [&str; 14] = [
        "checkout",
        "restore",
        "reset",
        "apply",
        "am",
        "mv",
        "rm",
        "stash",
        "merge",
        "pull",
        "rebase",
        "cherry-pick",
        "revert",
        "clean",
    ];
    let program = &words[0];
    let is_git = base_name(program) == "git";
    let is_known = is_reader(program) || is_writer(program);
    Manner {
        is_known,
        // Of an unknown program it cannot be told.
        changes: is_writer(program)
            || (is_git && words.iter().any(|word| CHANGING.contains(&word.as_str())))
            || !(is_known || is_git),
    }
}

/// What of a word may be a path: the word, and what follows `=`, `:`, `@` or an option's letter.
fn candidates(word: &str, is_git: bool) -> Vec<&str> {
    let mut candidates = Vec::new();
    if !word.starts_with('-') {
        candidates.push(word);
    } else if !word.starts_with("--")
        && let Some((at, _)) = word.char_indices().nth(2)
    {
        candidates.push(&word[at..]);
    }
    let separators: Vec<usize> = word
        .char_indices()
        .filter(|(_, c)| matches!(c, '=' | ':' | '@'))
        .map(|(at, _)| at)
        .collect();
    // A commit message may hold any number of these; a word that names a file holds few.
    let first = separators.iter().take(MAX_SEPARATORS);
    let last = separators
        .iter()
        .skip(MAX_SEPARATORS)
        .rev()
        .take(MAX_SEPARATORS);
    candidates.extend(first.chain(last).map(|at| &word[at + 1..]));
    if is_git {
        // `:/x`, `:!x`, `:(top)x`: a path from the top of the repository.
        for at in 0..candidates.len() {
            let rest = candidates[at];
            let rest = rest.rsplit_once(')').map_or(rest, |(_, rest)| rest);
            candidates.push(rest.trim_start_matches(['/', '!', '^']));
        }
    }
    candidates.retain(|candidate| !candidate.is_empty() && *candidate != "-");
    candidates
}

/// Whether a word of an unknown program is meant as a file: it has a directory or a dot in it.
fn looks_like_a_path(word: &str) -> bool {
    word.contains(['/', '.'])
}

/// Whether a program searches for its first operand in the others.
fn is_searcher(words: &[String]) -> bool {
    matches!(
        base_name(&words[0]),
        "grep" | "egrep" | "fgrep" | "zgrep" | "rg" | "ag" | "ack"
    )
}

/// Whether a searching program has its pattern in an option, so that no operand is one.
fn has_pattern_option(words: &[String]) -> bool {
    words[1..].iter().any(|word| {
        word.starts_with("--reg")
            || word.starts_with("--fi")
            || (word.starts_with('-') && !word.starts_with("--") && word.contains(['e', 'f']))
    })
}

/// The words of a recursive program that may be directories: all but its name and pattern.
fn searched_words(words: &[String]) -> impl Iterator<Item = &String> {
    let pattern = if is_searcher(words) && !has_pattern_option(words) {
        (1..words.len()).find(|at| !words[*at].starts_with('-'))
    } else {
        None
    };
    words
        .iter()
        .enumerate()
        .skip(1)
        .filter(move |(at, _)| Some(*at) != pattern)
        .map(|(_, word)| word)
}

/// Whether a searching program may have been given no directory, so that it searches where it stands.
fn searches_here(words: &[String]) -> bool {
    let operands = words[1..]
        .iter()
        .filter(|word| !word.starts_with('-'))
        .count();
    base_name(&words[0]) == "git"
        || (is_searcher(words) && (operands <= 1 || has_pattern_option(words)))
}

fn is_harmless_device(path: &Path) -> bool {
    [
        "/dev/null",
        "/dev/zero",
        "/dev/stdin",
        "/dev/stdout",
        "/dev/stderr",
    ]
    .iter()
    .any(|device| path == Path::new(device))
}
