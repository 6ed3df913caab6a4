//! What is allowed: rules, and the one place where a call is judged by them.
//!
//! In go the rules of a prompt (as text, each with its place) and a call with what it would touch; out
//! comes a [`Decision`], which names the rule and the reason. Deny rules first, then places that no
//! ordinary rule opens, then allow rules; what nothing allows is denied, and what cannot be seen
//! through is not allowed.
//!
//! Pure: paths arrive resolved or are resolved through [`ResolvePath`], commands are parsed here. The
//! room knows nothing of job files, hooks, tools' arguments or the sandbox. What a program does once
//! it runs it cannot see: an allowed interpreter, build tool or script is held by no path rule. Nor do
//! `Read` denials reach what git stores: `git show HEAD:.env` is denied by its words, but
//! `git log -p`, `git show` and `git diff` print whatever was committed. Holding the programs is the
//! sandbox's part; of git's store only a rule that does not allow git holds anything.

mod bash;
mod command;
mod decide;
mod files;
mod operands;
mod options;
mod order;
mod path;
mod programs;
mod protected;
mod rule;
mod scripts;
mod shell;
mod tool;
#[cfg(test)]
mod vectors;
mod words;

pub use decide::{
    Access, Call, Decision, ExplainedCommand, Explanation, Permit, Place, Policy, ResolvePath,
    Resolved, Roots, Target,
};
pub use rule::{Rule, RuleError};
pub use tool::{ToolName, UnknownTool};
