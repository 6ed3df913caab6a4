//! Judging a shell command, part by part.

use std::path::Path;

use super::decide::{
    ExplainedCommand, Policy, ResolvePath, Verdict, allowed_reason, denied_reason,
};
use super::operands::Operands;
use super::options::{Excess, excess, hidden};
use super::order::doubts;
use super::programs::{Kind, ShellUse, base_name, is_builtin, kind, lists, shell_use};
use super::rule::Rule;
use super::shell::{SimpleCommand, shortened, simple_commands};
use super::tool::ToolName;

/// How many command lines inside a command line are looked into; more are not judged.
const MAX_NESTED: usize = 32;

/// How many words of a program that starts others are looked into, one start after another.
const MAX_WORDS: usize = 64;

/// How many options before a subcommand are seen through.
const MAX_LEADING: usize = 16;

/// Why a part may not run.
pub(super) struct Hit<'a> {
    /// The deny rule, if it is one.
    pub(super) rule: Option<&'a Rule>,
    /// Why.
    pub(super) reason: String,
    /// What lifts it.
    pub(super) lifted_by: Lift,
}

/// What lifts an objection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lift {
    /// Nothing: a deny rule.
    Nothing,
    /// An allow rule without `*`: its author spelled the whole command.
    Spelled,
    /// That, or bare `Bash`.
    SpelledOrBare,
}

/// Judges a command line that would run in `cwd`.
pub(super) fn judge(
    policy: &Policy,
    command: &str,
    cwd: &Path,
    resolve: &dyn ResolvePath,
) -> (Verdict, Vec<ExplainedCommand>) {
    let rules: Vec<&Rule> = policy.rules_allowing(&ToolName::Bash).collect();
    let bare = rules.iter().copied().find(|rule| rule.is_bare());
    if let Some(bare) = bare
        && !has_denials(policy)
    {
        return (Verdict::allowed_by(bare), Vec::new());
    }
    let commands = match simple_commands(command) {
        Ok(commands) => commands,
        Err(refusal) => return (Verdict::denied(refusal.to_string(), None), Vec::new()),
    };
    let mut judge = Judge {
        policy,
        rules,
        is_bare: bare.is_some(),
        operands: Operands::new(policy, resolve, cwd),
        nested: 0,
    };
    judge.commands(&commands)
}

/// Whether a deny rule concerns commands or paths, so that even bare `Bash` must be looked into.
fn has_denials(policy: &Policy) -> bool {
    policy
        .deny
        .iter()
        .any(|rule| rule.command().is_some() || rule.path().is_some())
}

struct Judge<'a> {
    policy: &'a Policy,
    /// The allow rules on Bash.
    rules: Vec<&'a Rule>,
    is_bare: bool,
    operands: Operands<'a>,
    nested: usize,
}

/// What was found for one simple command.
enum Part<'a> {
    Allowed(&'a Rule),
    Denied(Hit<'a>),
    /// No rule allows it.
    Missing {
        reason: String,
        /// A rule that would; `None` where none should.
        would_allow: Option<String>,
    },
}

impl<'a> Judge<'a> {
    fn commands(&mut self, commands: &[SimpleCommand]) -> (Verdict, Vec<ExplainedCommand>) {
        let parts: Vec<(&SimpleCommand, Part<'a>)> = commands
            .iter()
            .zip(doubts(commands))
            .enumerate()
            .map(|(at, (command, doubt))| {
                let before = self.operands.add_doubt(doubt);
                let part = self.part(command, at == 0);
                self.operands.set_doubt(before);
                (command, part)
            })
            .collect();
        let explained = parts
            .iter()
            .map(|(command, part)| ExplainedCommand {
                text: command.text.clone(),
                words: command.words.clone(),
                is_allowed: matches!(part, Part::Allowed(_)),
                reason: match part {
                    Part::Allowed(rule) => allowed_reason(rule),
                    Part::Denied(hit) => hit.reason.clone(),
                    Part::Missing { reason, .. } => reason.clone(),
                },
            })
            .collect();
        (verdict(&parts), explained)
    }

    fn part(&mut self, command: &SimpleCommand, is_first: bool) -> Part<'a> {
        let words = &command.words;
        if let Some(hit) = self.objection(words, is_first) {
            return Part::Denied(hit);
        }
        match self.allowing(words) {
            Ok(rule) => Part::Allowed(rule),
            Err(reason) => Part::Missing {
                reason,
                would_allow: suggestion(words),
            },
        }
    }

    /// The rule that allows a command, or why none does.
    fn allowing(&self, words: &[String]) -> Result<&'a Rule, String> {
        let shown = shown(words);
        let mut nearly: Option<(&Rule, Excess)> = None;
        for rule in &self.rules {
            let Some(pattern) = rule.command() else {
                if rule.is_bare() {
                    return Ok(rule);
                }
                continue;
            };
            if !pattern.matches(words) {
                continue;
            }
            if pattern.is_exact() {
                return Ok(rule);
            }
            match excess(words, pattern.literal_words()) {
                None => return Ok(rule),
                Some(excess) => {
                    nearly.get_or_insert((rule, excess));
                }
            }
        }
        Err(match nearly {
            None => match unwise(words) {
                Some(why) => format!("no rule allows `{shown}`; do not allow it; {why}"),
                None => format!("no rule allows `{shown}`"),
            },
            Some((rule, excess)) => {
                let (word, so) = match words.get(excess.word) {
                    Some(word) => (word, "a rule must spell it"),
                    None => (&words[0], "only a rule without `*` allows it"),
                };
                format!(
                    "`{shown}` is not allowed by `{}` ({}): `{}` {}, so {so}",
                    rule.text(),
                    rule.place(),
                    shortened(word),
                    excess.does
                )
            }
        })
    }

    /// What speaks against a command, whatever rule allows it.
    fn objection(&mut self, words: &[String], is_first: bool) -> Option<Hit<'a>> {
        let is_spelled = self.rules.iter().any(|rule| {
            rule.command()
                .is_some_and(|pattern| pattern.is_exact() && pattern.matches(words))
        });
        let is_bare = self.is_bare;
        let stands = move |hit: &Hit<'_>| match hit.lifted_by {
            Lift::Nothing => true,
            Lift::Spelled => !is_spelled,
            Lift::SpelledOrBare => !is_spelled && !is_bare,
        };
        let hit = self
            .denying(words)
            .filter(stands)
            .or_else(|| self.unseen(words).filter(stands))
            .or_else(|| self.operands.objection(words).filter(stands))
            .or_else(|| self.inside(words, 0).filter(stands));
        // Later parts are judged from where this one leads, whether it may go there or not.
        let moved = self.operands.follow_cd(words, is_first).filter(stands);
        hit.or(moved)
    }

    /// What speaks against a command that another one starts, as far as its own words tell.
    fn seen(&self, words: &[String]) -> Option<Hit<'a>> {
        self.denying(words)
            .or_else(|| self.unseen(words))
            .or_else(|| self.operands.objection(words))
    }

    /// A construct by which a command runs or reads what its words do not show, where something is
    /// denied.
    fn unseen(&self, words: &[String]) -> Option<Hit<'a>> {
        if !has_denials(self.policy) {
            return None;
        }
        let hidden = hidden(words)?;
        let word = words.get(hidden.word).unwrap_or(&words[0]);
        let why = format!(
            "cannot be seen through, because `{}` {}",
            shortened(word),
            hidden.does
        );
        Some(opaque(words, &why))
    }

    /// A deny rule that matches a command by its words.
    ///
    /// Directories before the program's name and options before a subcommand do not hide it.
    fn denying(&self, words: &[String]) -> Option<Hit<'a>> {
        if self.policy.deny.iter().all(|rule| rule.command().is_none()) {
            return None;
        }
        let short: Vec<&str> = std::iter::once(base_name(&words[0]))
            .chain(words[1..].iter().map(String::as_str))
            .collect();
        let Some(readings) = without_leading_options(&short) else {
            return Some(opaque(words, "has too many options to be followed"));
        };
        let rule = self.policy.deny.iter().find(|rule| {
            rule.command().is_some_and(|pattern| {
                let plain = pattern.without_directory();
                pattern.matches(words)
                    || readings.iter().any(|reading| {
                        pattern.matches(reading)
                            || plain.as_ref().is_some_and(|plain| plain.matches(reading))
                    })
            })
        })?;
        Some(Hit {
            rule: Some(rule),
            reason: denied_reason(rule, format!("`{}`", shown(words))),
            lifted_by: Lift::Nothing,
        })
    }

    /// What speaks against the commands that a command would start, as far as they can be seen. Nothing
    /// is looked for where no rule denies anything.
    fn inside(&mut self, words: &[String], depth: usize) -> Option<Hit<'a>> {
        if !has_denials(self.policy) {
            return None;
        }
        match kind(&words[0]) {
            Kind::Plain | Kind::Interpreter => None,
            Kind::Shell | Kind::Evaluator => self.inside_text(words, depth),
            Kind::Wrapper | Kind::Runner => {
                let before = self.operands.go_into(words);
                let hit = self.inside_words(words, depth);
                self.operands.go_back(before);
                hit
            }
        }
    }

    /// The same for the words of a program that starts what some of them name: any may be the start.
    fn inside_words(&mut self, words: &[String], depth: usize) -> Option<Hit<'a>> {
        if words.len() > MAX_WORDS {
            return Some(opaque(words, "has too many words to be followed"));
        }
        let program = base_name(&words[0]);
        // Only these start what is built into the shell.
        let starts_builtins = matches!(program, "command" | "builtin" | "time" | "jobs");
        if program == "xargs" && self.policy.deny.iter().any(|rule| rule.path().is_some()) {
            return Some(opaque(words, "takes the names of files from its input"));
        }
        let is_wrapper = kind(&words[0]) == Kind::Wrapper;
        starts(words).into_iter().find_map(|start| {
            let inner = &words[start..];
            if inner[0].is_empty() {
                return None;
            }
            if starts_builtins && inner[0] == "cd" {
                return Some(opaque(words, "changes the directory unseen"));
            }
            self.seen(inner).or_else(|| match kind(&inner[0]) {
                Kind::Shell => self.inside_text(inner, depth),
                Kind::Evaluator if starts_builtins || (is_wrapper && !is_builtin(&inner[0])) => {
                    self.inside_text(inner, depth)
                }
                // The words after a wrapper are already being looked at, one start after another.
                Kind::Evaluator
                | Kind::Wrapper
                | Kind::Runner
                | Kind::Plain
                | Kind::Interpreter => None,
            })
        })
    }

    /// The same for the text that a shell is given.
    fn inside_text(&mut self, words: &[String], depth: usize) -> Option<Hit<'a>> {
        let text = match (kind(&words[0]), base_name(&words[0])) {
            (Kind::Shell, _) => match shell_use(words) {
                ShellUse::Script => return None,
                ShellUse::Text(text) => text.to_owned(),
                ShellUse::Unknown => {
                    return Some(opaque(words, "runs commands that cannot be seen"));
                }
            },
            (_, "set" | "shopt") => return None,
            // The subscript of an array is evaluated.
            (_, "read") if words.iter().all(|word| !word.contains('[')) => return None,
            (_, "eval") => match &words[1..] {
                [dashes, text @ ..] if dashes == "--" => text.join(" "),
                text => text.join(" "),
            },
            _ => return Some(opaque(words, "cannot be followed")),
        };
        self.nested += 1;
        if self.nested > MAX_NESTED || depth > 4 {
            return Some(opaque(words, "is nested too deeply"));
        }
        let Ok(commands) = simple_commands(&text) else {
            return Some(opaque(words, "runs commands that cannot be judged"));
        };
        commands
            .iter()
            .zip(doubts(&commands))
            .find_map(|(command, doubt)| {
                let inner = &command.words;
                if matches!(inner[0].as_str(), "cd" | "pushd" | "popd") {
                    return Some(opaque(words, "changes the directory unseen"));
                }
                let before = self.operands.add_doubt(doubt);
                let hit = self.seen(inner).or_else(|| self.inside(inner, depth + 1));
                self.operands.set_doubt(before);
                hit
            })
    }
}

/// At which words the command begins that a program starts.
fn starts(words: &[String]) -> Vec<usize> {
    // Of other programs it is not known which options take a word: any word may be the command.
    let is_find = base_name(&words[0]) == "find";
    (1..words.len())
        .filter(|at| !is_find || lists("-exec -execdir -ok -okdir", &words[at - 1]))
        .collect()
}

fn opaque<'a>(words: &[String], why: &str) -> Hit<'a> {
    Hit {
        rule: None,
        reason: format!(
            "`{}` {why}, and there are rules that deny something",
            shown(words)
        ),
        lifted_by: Lift::Spelled,
    }
}

/// The verdict on the whole: deny rules before all else, then the first part that lacks a rule.
fn verdict(parts: &[(&SimpleCommand, Part<'_>)]) -> Verdict {
    let mut hits: Vec<&Hit<'_>> = parts
        .iter()
        .filter_map(|(_, part)| match part {
            Part::Denied(hit) => Some(hit),
            Part::Allowed(_) | Part::Missing { .. } => None,
        })
        .collect();
    hits.sort_by_key(|hit| hit.rule.is_none());
    if let Some(hit) = hits.first() {
        return Verdict::Denied {
            rule: hit
                .rule
                .map(|rule| (rule.text().to_owned(), rule.place().clone())),
            reason: hit.reason.clone(),
            would_allow: None,
        };
    }
    let missing: Vec<(&String, &Option<String>)> = parts
        .iter()
        .filter_map(|(_, part)| match part {
            Part::Missing {
                reason,
                would_allow,
            } => Some((reason, would_allow)),
            Part::Allowed(_) | Part::Denied(_) => None,
        })
        .collect();
    // Of several, one that no rule should allow says more than one that lacks its rule.
    let hopeless = missing.iter().find(|(_, rule)| rule.is_none());
    if let Some((reason, _)) = hopeless {
        return Verdict::denied((*reason).clone(), None);
    }
    if let Some((reason, _)) = missing.first() {
        let mut rules: Vec<String> = Vec::new();
        for rule in missing.iter().filter_map(|(_, rule)| rule.as_ref()) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
        return Verdict::denied((*reason).clone(), Some(rules.join(", ")));
    }
    all_allowed(parts)
}

fn all_allowed(parts: &[(&SimpleCommand, Part<'_>)]) -> Verdict {
    let allowed: Vec<(&SimpleCommand, &Rule)> = parts
        .iter()
        .filter_map(|(command, part)| match part {
            Part::Allowed(rule) => Some((*command, *rule)),
            Part::Denied(_) | Part::Missing { .. } => None,
        })
        .collect();
    let Some((_, first)) = allowed.first() else {
        return Verdict::denied("there is no command to run", None);
    };
    if allowed.len() == 1 {
        return Verdict::allowed_by(first);
    }
    let mut notes: Vec<String> = Vec::new();
    for note in allowed.iter().filter_map(|(_, rule)| rule.note()) {
        if !notes.iter().any(|known| known == note) {
            notes.push(note.to_owned());
        }
    }
    let reasons: Vec<String> = allowed
        .iter()
        .map(|(command, rule)| format!("`{}` {}", shortened(&command.text), allowed_reason(rule)))
        .collect();
    Verdict::Allowed {
        rule: first.text().to_owned(),
        place: first.place().clone(),
        notes,
        reason: reasons.join("; "),
    }
}

/// The command as it is, and with options before its first ordinary word left out: `git -C x push` is
/// also `git x push` and `git push`, for an option may or may not take the word after it.
///
/// `None` when there are too many.
fn without_leading_options<'w>(words: &[&'w str]) -> Option<Vec<Vec<&'w str>>> {
    let mut readings = vec![words.to_vec()];
    let mut start = 1;
    while start < words.len() {
        let is_option = words[start].starts_with('-');
        let is_value = start > 1 && words[start - 1].starts_with('-');
        if !is_option && !is_value {
            break;
        }
        start += 1;
        if start > MAX_LEADING {
            return None;
        }
        readings.push(
            std::iter::once(words[0])
                .chain(words[start..].iter().copied())
                .collect(),
        );
    }
    Some(readings)
}

/// Why no rule should be written for a command, and what to do instead.
fn unwise(words: &[String]) -> Option<&'static str> {
    const RUNS: &str = "it runs whatever its words say: allow the command that it would run";
    if sends(words) {
        return Some("it can send what the model has read anywhere");
    }
    match kind(&words[0]) {
        Kind::Shell | Kind::Wrapper | Kind::Evaluator => Some(RUNS),
        Kind::Runner => match base_name(&words[0]) {
            "find" | "fd" | "fdfind" => hidden_start(words).then_some(RUNS),
            _ => Some(RUNS),
        },
        // A script that is named may be allowed by its name, a filter by its program.
        Kind::Interpreter => {
            let is_filter = matches!(
                base_name(&words[0]),
                "awk" | "gawk" | "mawk" | "nawk" | "bc" | "dc"
            );
            let names_script = words.get(1).is_some_and(|word| !word.starts_with('-'));
            let is_plain = if is_filter {
                excess(words, 1).is_none()
            } else {
                names_script
            };
            (!is_plain).then_some("it runs code that its words hold: let it be a script in a file")
        }
        Kind::Plain => hidden(words).map(|_| "it would run or read what its words do not show"),
    }
}

/// Whether a command is there to send data elsewhere.
fn sends(words: &[String]) -> bool {
    const SENDERS: &str = "curl wget ssh nc ncat netcat socat scp sftp ftp tftp telnet rclone http https \
        xh aria2c lftp mail sendmail";
    let program = base_name(&words[0]);
    lists(SENDERS, program) || (program == "rsync" && words.iter().any(|word| word.contains(':')))
}

/// Whether a finding program starts another.
fn hidden_start(words: &[String]) -> bool {
    words
        .iter()
        .any(|word| lists("-exec -execdir -ok -okdir -x -X", word) || word.starts_with("--exec"))
}

/// The smallest sensible rule that allows a command; `None` where none should.
fn suggestion(words: &[String]) -> Option<String> {
    if unwise(words).is_some() {
        return None;
    }
    let named = match base_name(&words[0]) {
        "npm" | "pnpm" | "yarn" | "bun" if words.get(1).is_some_and(|word| word == "run") => 3,
        "docker" if words.get(1).is_some_and(|word| word == "compose") => 3,
        "gh" => 3,
        "git" | "npm" | "pnpm" | "yarn" | "bun" | "cargo" | "docker" | "podman" | "kubectl"
        | "go" | "pip" | "pip3" | "uv" | "poetry" | "make" | "gmake" | "just" | "npx" | "bunx"
        | "uvx" | "rustup" | "dotnet" | "mvn" | "gradle" | "terraform" | "helm" | "brew"
        | "apt" | "apt-get" | "systemctl" | "bundle" | "composer" => 2,
        _ => 1,
    };
    let is_plain = matches!(kind(&words[0]), Kind::Plain | Kind::Runner);
    let named = named.min(words.len());
    let spells_subcommands = words[1..named].iter().all(|word| !word.starts_with('-'));
    let is_enough =
        is_plain && spells_subcommands && named < words.len() && excess(words, named).is_none();
    let spelled = if is_enough { &words[..named] } else { words };
    let spelled: Vec<String> = spelled.iter().map(|word| quoted(word)).collect();
    let rest = if is_enough { " *" } else { "" };
    Some(format!("Bash({}{rest})", spelled.join(" ")))
}

/// The words as one would write them, on one short line.
pub(super) fn shown(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    shortened(&quoted.join(" "))
}

/// A word as a rule spells it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:=@%+,-~^{}#".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
