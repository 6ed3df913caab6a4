//! The words of a command that are files, held against the path rules.
//!
//! What is known of a program says how its words are taken. Of a known reader or writer every word is
//! a file; of any other program only what looks like one (`npm run build` names no directory). A
//! program that opens files by itself, an interpreter above all, is not held by these rules.

use std::path::{Path, PathBuf};

use super::bash::{Hit, Lift, shown};
use super::decide::{Policy, ResolvePath, Resolved, denied_reason};
use super::files::sealed_reason;
use super::options::excess;
use super::order::{Doubt, files};
use super::programs::{base_name, is_cluster_with, is_reader, is_recursive, is_writer, lists};
use super::protected::{forbidden, forbidden_below, holds_protected};
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
    /// What parts that run before or beside this one may have done to its paths.
    doubt: Doubt,
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
            doubt: Doubt::None,
        }
    }

    /// Adds the doubt in which the paths of the next command are; returns what there was before, for
    /// [`Operands::set_doubt`].
    pub(super) fn add_doubt(&mut self, doubt: Doubt) -> Doubt {
        let before = self.doubt;
        self.doubt = before.max(doubt);
        before
    }

    /// Takes back what [`Operands::add_doubt`] added.
    pub(super) fn set_doubt(&mut self, before: Doubt) {
        self.doubt = before;
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
                    let hit = self
                        .word_objection(words, at, candidate, &path, manner)
                        .or_else(|| self.sealed_objection(words, at, &path, manner));
                    if hit.is_some() {
                        return hit;
                    }
                }
            }
        }
        self.recursion_objection(words, &directories, manner)
            .or_else(|| self.order_objection(words, manner))
    }

    /// A file whose path may lead elsewhere by the time it is opened.
    fn order_objection(&self, words: &[String], manner: Manner) -> Option<Hit<'a>> {
        if !manner.is_known {
            return None;
        }
        let is_bound = self.binding(manner).any(|rule| rule.path().is_some());
        let enough = if is_bound { Doubt::Code } else { Doubt::Links };
        if self.doubt < enough {
            return None;
        }
        let file = files(words).into_iter().next()?;
        Some(Hit {
            rule: None,
            reason: format!(
                "`{}` in `{}` was resolved before another part of the call runs, which may lead it \
                 elsewhere; put it into a call of its own",
                shortened(file),
                shown(words),
            ),
            lifted_by: match (is_bound, manner.changes) {
                (true, _) => Lift::Nothing,
                (false, true) => Lift::Spelled,
                (false, false) => Lift::SpelledOrBare,
            },
        })
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
    ///
    /// Only the first command of a call may be one: of later ones it cannot be told where they lead,
    /// nor whether they are reached.
    pub(super) fn follow_cd(&mut self, words: &[String], is_first: bool) -> Option<Hit<'a>> {
        if words[0] != "cd" {
            return None;
        }
        let hit = |lifted_by, why: &str| {
            Some(Hit {
                rule: None,
                reason: format!("`{}` {why}", shown(words)),
                lifted_by,
            })
        };
        if !is_first {
            let why = "is not the first command: put it first, or into a call of its own";
            return hit(Lift::Nothing, why);
        }
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
            return hit(Lift::Spelled, "leads to a place that is not known");
        };
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
        let outside = outside?;
        let why = format!("leaves the workspace for `{}`", outside.display());
        hit(Lift::SpelledOrBare, &why)
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
        at: usize,
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
                let whole = (moves_whole(words) && is_written(words, at))
                    .then(|| holds_protected(path, &self.policy.roots))
                    .flatten();
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

    /// What would be written to a sealed place, or to a directory that holds one and is moved or
    /// replaced whole. Nothing lifts it.
    fn sealed_objection(
        &self,
        words: &[String],
        at: usize,
        path: &Resolved,
        manner: Manner,
    ) -> Option<Hit<'a>> {
        if !(manner.is_known && manner.changes && is_written(words, at)) {
            return None;
        }
        let place = path.both().into_iter().find_map(|path| {
            self.policy.sealed(path).or_else(|| {
                let mut sealed = self.policy.roots.sealed.iter().map(PathBuf::as_path);
                sealed.find(|sealed| moves_whole(words) && sealed.starts_with(path))
            })
        })?;
        Some(Hit {
            rule: None,
            reason: format!(
                "`{}` in `{}` cannot be written: {}",
                shortened(&words[at]),
                shown(words),
                sealed_reason(place)
            ),
            lifted_by: Lift::Nothing,
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
        });
        let Some(rule) = rule else {
            let never_opened = searched
                .iter()
                .find_map(|directory| forbidden_below(directory, &self.policy.roots))?;
            return Some(Hit {
                rule: None,
                reason: format!(
                    "`{}` works on whole directories, of which a part is never opened (`{}`)",
                    shown(words),
                    never_opened.display()
                ),
                lifted_by: Lift::Spelled,
            });
        };
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
    // `sed`, `sort` and others only read unless an option says more.
    let only_reads = is_reader(program) && excess(words, 1).is_none();
    Manner {
        is_known,
        // Of an unknown program it cannot be told.
        changes: (is_writer(program) && !only_reads)
            || deletes_what_it_finds(words)
            || (is_git && words.iter().any(|word| CHANGING.contains(&word.as_str())))
            || !(is_known || is_git),
    }
}

/// `find` with an action of its own that changes files.
fn deletes_what_it_finds(words: &[String]) -> bool {
    base_name(&words[0]) == "find"
        && words
            .iter()
            .any(|word| word == "-delete" || word.starts_with("-fprint") || word == "-fls")
}

/// Whether what lies in a directory goes along when the command names the directory: it is moved,
/// removed or replaced. An archive of it leaves it alone.
fn moves_whole(words: &[String]) -> bool {
    is_recursive(words) && !lists("tar bsdtar zip cpio diff", base_name(&words[0]))
}

/// Whether a writing program may change what a word names. Of the words of a copying program only the
/// last is written, unless an option names the target or removes the source.
fn is_written(words: &[String], at: usize) -> bool {
    let says_otherwise = |word: &String| {
        word.starts_with("--t") || word.starts_with("--rem") || is_cluster_with(word, &['t'])
    };
    !lists("cp rsync", base_name(&words[0]))
        || at + 1 == words.len()
        || words.iter().any(says_otherwise)
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
    let is_find = base_name(&words[0]) == "find";
    base_name(&words[0]) == "git"
        || (is_find && words.get(1).is_none_or(|word| word.starts_with('-')))
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
