//! Judging a call.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::message::ToolUse;

use super::rule::Rule;

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
}

/// The policy's answer.
#[derive(Clone, Debug)]
pub enum Decision {
    /// It may run.
    Allowed {
        /// The proof.
        permit: Permit,
        /// The rule that allows it, as written, with its place.
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
        /// A rule that would allow it, where one can be named.
        would_allow: Option<String>,
    },
}

/// The rules that hold for a prompt.
#[derive(Debug)]
pub struct Policy {
    allow: Vec<Rule>,
    deny: Vec<Rule>,
    roots: Roots,
}

/// The directories that rules are relative to, and the files no rule opens by accident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// The workspace, links resolved.
    pub workspace: PathBuf,
    /// For `~/`.
    pub home: Option<PathBuf>,
    /// Files that are never written: the job file.
    pub protected_files: Vec<PathBuf>,
    /// Directories that Read may open without a rule.
    pub readable: Vec<PathBuf>,
}

impl Policy {
    /// From rules and roots.
    pub fn new(allow: Vec<Rule>, deny: Vec<Rule>, roots: Roots) -> Self {
        Self { allow, deny, roots }
    }

    /// The roots.
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Whether some rule may allow a tool.
    pub fn offers(&self, tool: &str) -> bool {
        self.allow.iter().any(|rule| rule.tool() == tool)
            && !self.deny.iter().any(|rule| rule.text() == tool)
    }

    /// Whether a rule may let something change.
    pub fn may_write(&self) -> bool {
        ["Write", "Edit", "Bash"]
            .iter()
            .any(|tool| self.offers(tool))
    }
}
