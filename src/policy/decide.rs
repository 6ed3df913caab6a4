//! Judging a call.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::message::ToolUse;

use super::bash;
use super::rule::Rule;
use super::tool::ToolName;

/// Where a rule stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file as it was named.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// What is done to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A file is read.
    Read,
    /// Files below are found or searched; each is judged again before it is shown.
    Search,
    /// A file is created or changed.
    Write,
}

/// A path as it was written and as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Absolute, `.` and `..` taken out of the text, links not followed.
    pub written: PathBuf,
    /// Absolute, after links; for what does not exist yet, that of the nearest ancestor and the rest.
    pub real: PathBuf,
}

impl Resolved {
    /// Both paths, for what must hold of each.
    pub(super) fn both(&self) -> [&Path; 2] {
        [&self.written, &self.real]
    }
}

/// Finds out where the words of a command lead. Implemented above, where there is a disk.
pub trait ResolvePath {
    /// The place of a path that is absolute or relative to `cwd`, as the system would open it: of
    /// `link/../x` the real path is found by following the link first.
    fn resolve(&self, written: &Path, cwd: &Path) -> Resolved;

    /// Whether a real path is a directory. Where it cannot be told, it is taken for one: programs that
    /// work on whole directories are then held against every deny rule that could lie below.
    fn is_directory(&self, real: &Path) -> bool {
        let _ = real;
        true
    }
}

/// What a call would touch, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A path.
    Path {
        /// What is done to it.
        access: Access,
        /// Where it is.
        path: Resolved,
    },
    /// A shell command.
    Command {
        /// As the model wrote it.
        command: String,
        /// Where it would run, absolute.
        cwd: PathBuf,
    },
    /// Nothing.
    Nothing,
}

/// A call to be judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// What the model asked for.
    pub tool_use: ToolUse,
    /// What that would touch.
    pub target: Target,
}

/// Proof that a call is allowed. Made only by [`Policy::decide`], holding the very call it judged.
#[derive(Clone, Debug)]
pub struct Permit {
    call: Call,
    policy: Arc<Policy>,
}

impl Permit {
    /// The call.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// The policy that allowed it.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }

    /// Whether a file that Glob or Grep found may be shown: the tool's own rules cover it, and no rule
    /// denies it to Read or to the tool, as it is written and as it is.
    pub fn may_see(&self, path: &Resolved) -> bool {
        ToolName::find(&self.call.tool_use.name).is_ok_and(|tool| self.policy.may_see(&tool, path))
    }

    /// A permit for any call under rules that allow everything, for tests of what needs one.
    #[cfg(test)]
    pub(crate) fn for_tests(call: Call) -> Self {
        let place = Place {
            file: "test".into(),
            line: 1,
            column: 1,
        };
        let rule = |tool| Rule::parse(&format!("{tool}(//**)"), place.clone(), None);
        let allow = ["Read", "Edit", "Glob", "Grep"]
            .into_iter()
            .map(|tool| rule(tool).unwrap());
        let roots = Roots {
            workspace: "/".into(),
            ..Roots::default()
        };
        Self {
            call,
            policy: Arc::new(Policy::new(allow.collect(), Vec::new(), roots)),
        }
    }
}

/// The policy's answer.
#[derive(Clone, Debug)]
pub enum Decision {
    /// It may run.
    Allowed {
        /// The proof.
        permit: Permit,
        /// The rule that allows it, as written; of several (a command of several parts) the first.
        rule: String,
        /// Where that rule stands.
        place: Place,
        /// Notes of the rules that allow it, for the model.
        notes: Vec<String>,
        /// Why, for a person.
        reason: String,
    },
    /// It may not.
    Denied {
        /// The deny rule and its place; `None` when nothing allows it or a protected path forbids it.
        rule: Option<(String, Place)>,
        /// Why, for a person and for the model.
        reason: String,
        /// A rule that would allow it, where one can be named; several, separated by `, `, where
        /// several parts of a command lack one.
        would_allow: Option<String>,
    },
}

/// How a call was judged, for `explain`.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The simple commands of a Bash call that could be parsed, in order; empty for other calls.
    pub commands: Vec<ExplainedCommand>,
    /// The decision on the call.
    pub decision: Decision,
}

/// One simple command of a Bash call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedCommand {
    /// As it is written.
    pub text: String,
    /// Its words, without quotes.
    pub words: Vec<String>,
    /// Whether it may run.
    pub is_allowed: bool,
    /// The rule that decided and its place, or what is missing.
    pub reason: String,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of a single command whose words are plain to see the decision says it all.
        let is_plain = |command: &ExplainedCommand| command.words.join(" ") == command.text;
        let says_more = self.commands.len() > 1 || !self.commands.iter().all(is_plain);
        let listed = self.commands.iter().filter(|_| says_more);
        for (index, command) in listed.enumerate() {
            let verdict = if command.is_allowed { "" } else { "denied: " };
            writeln!(f, "command {}: {:?}", index + 1, command.words)?;
            writeln!(f, "  {verdict}{}", command.reason)?;
        }
        match &self.decision {
            Decision::Allowed { reason, .. } => write!(f, "decision: allowed\n  {reason}"),
            Decision::Denied {
                reason,
                would_allow,
                ..
            } => {
                write!(f, "decision: denied\n  {reason}")?;
                match would_allow {
                    Some(rule) => write!(f, "\n  would be allowed by: {rule}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Places that rules are relative to, and places with a meaning of their own.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    /// The workspace, absolute, links resolved.
    pub workspace: PathBuf,
    /// The home directory; without one, rules that begin with `~/` match nothing.
    pub home: Option<PathBuf>,
    /// Never written unless a rule's literal part names them: the job file and what belongs to it. Absolute.
    pub protected_files: Vec<PathBuf>,
    /// Directories below which Read may open files without a rule, such as saved tool results. Absolute.
    pub readable: Vec<PathBuf>,
    /// Files and directories that no rule opens for writing, such as what the run leaves. Absolute.
    pub sealed: Vec<PathBuf>,
}

impl Roots {
    /// Whether a path is the workspace or lies in it. Nothing lies in a workspace that is not absolute.
    pub(super) fn holds(&self, path: &Path) -> bool {
        self.workspace.is_absolute() && path.starts_with(&self.workspace)
    }
}

/// The rules that hold for a prompt.
///
/// Deny rules first, then what no rule opens (system paths, key files, protected paths), then allow
/// rules; what nothing allows is denied.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub(super) allow: Vec<Rule>,
    pub(super) deny: Vec<Rule>,
    pub(super) roots: Roots,
}

/// What was found, before it becomes a decision.
pub(super) enum Verdict {
    Allowed {
        rule: String,
        place: Place,
        notes: Vec<String>,
        reason: String,
    },
    Denied {
        rule: Option<(String, Place)>,
        reason: String,
        would_allow: Option<String>,
    },
}

impl Verdict {
    pub(super) fn allowed_by(rule: &Rule) -> Self {
        Self::Allowed {
            rule: rule.text().to_owned(),
            place: rule.place().clone(),
            notes: rule.note().map(str::to_owned).into_iter().collect(),
            reason: allowed_reason(rule),
        }
    }

    pub(super) fn denied_by(rule: &Rule, what: impl fmt::Display) -> Self {
        Self::Denied {
            rule: Some((rule.text().to_owned(), rule.place().clone())),
            reason: denied_reason(rule, what),
            would_allow: None,
        }
    }

    pub(super) fn denied(reason: impl Into<String>, would_allow: Option<String>) -> Self {
        Self::Denied {
            rule: None,
            reason: reason.into(),
            would_allow,
        }
    }
}

pub(super) fn allowed_reason(rule: &Rule) -> String {
    format!("allowed by `{}` ({})", rule.text(), rule.place())
}

pub(super) fn denied_reason(rule: &Rule, what: impl fmt::Display) -> String {
    format!("{what} is denied by `{}` ({})", rule.text(), rule.place())
}

impl Policy {
    /// The rules of a prompt, and the places they speak of.
    pub fn new(allow: Vec<Rule>, deny: Vec<Rule>, roots: Roots) -> Self {
        Self { allow, deny, roots }
    }

    /// The same rules with more directories below which Read may open files without a rule.
    #[must_use]
    pub fn with_readable(&self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut policy = self.clone();
        policy.roots.readable.extend(directories);
        policy
    }

    /// The same rules with more places that nothing opens for writing, not even a rule that spells
    /// them: files, or directories with all they hold. Absolute, links resolved. Reading is left to the
    /// rules.
    #[must_use]
    pub fn with_sealed(&self, places: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut policy = self.clone();
        policy.roots.sealed.extend(places);
        policy
    }

    /// Whether the model is told of a tool: some rule may allow it and none denies it altogether.
    pub fn offers(&self, tool: &str) -> bool {
        ToolName::find(tool).is_ok_and(|tool| {
            tool.is_built()
                && self.bare_deny(&tool).is_none()
                && self.rules_allowing(&tool).next().is_some()
        })
    }

    /// Whether anything could be changed: a rule may allow Write, Edit or any command.
    pub fn may_write(&self) -> bool {
        ["Write", "Edit", "Bash"]
            .into_iter()
            .any(|tool| self.offers(tool))
    }

    /// All rules as text, one a line, in order: equal for equal rules. For a digest.
    pub fn digest_text(&self) -> String {
        let mut text = String::new();
        for (verb, rules) in [("allow", &self.allow), ("deny", &self.deny)] {
            for rule in rules {
                text.push_str(verb);
                text.push(' ');
                text.push_str(rule.text());
                text.push('\n');
            }
        }
        text
    }

    /// The one place where a call is judged.
    pub fn decide(self: &Arc<Self>, call: Call, resolve: &dyn ResolvePath) -> Decision {
        self.explain(call, resolve).decision
    }

    /// As [`Policy::decide`], with the parts of a command and what was found for each.
    pub fn explain(self: &Arc<Self>, call: Call, resolve: &dyn ResolvePath) -> Explanation {
        let (verdict, commands) = self.judge(&call, resolve);
        let decision = match verdict {
            Verdict::Allowed {
                rule,
                place,
                notes,
                reason,
            } => Decision::Allowed {
                permit: Permit {
                    call,
                    policy: Arc::clone(self),
                },
                rule,
                place,
                notes,
                reason,
            },
            Verdict::Denied {
                rule,
                reason,
                would_allow,
            } => Decision::Denied {
                rule,
                reason,
                would_allow,
            },
        };
        Explanation { commands, decision }
    }

    fn judge(&self, call: &Call, resolve: &dyn ResolvePath) -> (Verdict, Vec<ExplainedCommand>) {
        let name = call.tool_use.name.as_str();
        let tool = match ToolName::find(name) {
            Ok(tool) if tool.is_built() => tool,
            Ok(_) | Err(_) => {
                let reason = format!("no tool `{name}` can be used");
                return (Verdict::denied(reason, None), Vec::new());
            }
        };
        if let Some(rule) = self.bare_deny(&tool) {
            return (Verdict::denied_by(rule, format!("`{tool}`")), Vec::new());
        }
        match (&tool, &call.target) {
            (ToolName::Bash, Target::Command { command, cwd }) => {
                bash::judge(self, command, cwd, resolve)
            }
            (
                ToolName::Read,
                Target::Path {
                    access: access @ Access::Read,
                    path,
                },
            )
            | (
                ToolName::Write | ToolName::Edit,
                Target::Path {
                    access: access @ Access::Write,
                    path,
                },
            )
            | (
                ToolName::Glob,
                Target::Path {
                    access: access @ Access::Search,
                    path,
                },
            )
            | (
                ToolName::Grep,
                Target::Path {
                    access: access @ (Access::Search | Access::Read),
                    path,
                },
            ) => (self.judge_path(&tool, *access, path), Vec::new()),
            // A tool that does not say what it touches is not trusted with anything.
            _ => {
                let reason = format!("`{tool}` does not tell what it would touch");
                (Verdict::denied(reason, None), Vec::new())
            }
        }
    }

    /// A rule that denies every call of a tool.
    ///
    /// It speaks of the tool alone: `Read` in `denied_tools` takes Read away, and leaves Grep.
    fn bare_deny(&self, tool: &ToolName) -> Option<&Rule> {
        self.deny
            .iter()
            .find(|rule| rule.is_bare() && rule.tool().is_one_class_with(tool))
    }

    pub(super) fn rules_allowing<'a>(
        &'a self,
        tool: &'a ToolName,
    ) -> impl Iterator<Item = &'a Rule> {
        self.allow
            .iter()
            .filter(move |rule| rule.tool().is_one_class_with(tool))
    }
}
