//! What the model can do.
//!
//! A tool is blocking code: `run` calls it on a blocking thread with a [`crate::policy::Permit`], the
//! only proof that the policy allowed the call. A tool knows no conversation beyond its [`Session`].
//!
//! The way of a call: [`Registry::check`] finds the tool and fits the arguments; whoever calls resolves
//! what [`Tool::touches`] names and has it judged; [`execute`] runs the permitted call and makes of its
//! output what the model reads. A mistake of the model's is a result with `is_error`, never an `Err`; a
//! panic is the caller's to catch.

use serde_json::Value;

use crate::message::{ResultContent, ToolSpec};
use crate::policy::{Access, Permit};
use crate::sandbox::Cancel;

mod bash;
mod edit;
mod executor;
mod glob;
mod grep;
mod grep_output;
mod image;
mod read;
mod registry;
mod search;
mod session;
mod shell_end;
mod text_file;
mod write;

pub use bash::Bash;
pub use edit::Edit;
pub use executor::execute;
pub use glob::Glob;
pub use grep::Grep;
pub use read::Read;
pub use registry::{Checked, Registry};
pub use session::{Session, SessionSpec};
pub use write::Write;

/// What a call would touch, as far as the policy must know before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touches {
    /// A file or directory, as the model wrote it.
    Path {
        /// The path; `.` where the model gave none.
        path: String,
        /// Whether it is read, searched, or written.
        access: Access,
    },
    /// A shell command.
    Command(String),
    /// Nothing outside the conversation.
    Nothing,
}

impl Touches {
    /// The file that `file_path` names.
    fn file(input: &Value, access: Access) -> Self {
        let path = input["file_path"].as_str().unwrap_or_default().to_owned();
        Self::Path { path, access }
    }
}

/// What a tool has to say.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// For the model.
    pub content: Vec<ResultContent>,
    /// Whether the call went wrong.
    pub is_error: bool,
    /// For the transcript.
    pub structured: Value,
}

impl Output {
    /// A piece of text.
    pub fn text(text: impl Into<String>, structured: Value) -> Self {
        Self {
            content: vec![ResultContent::Text(text.into())],
            is_error: false,
            structured,
        }
    }

    /// What went wrong: what was tried on what, then the cause.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            content: vec![ResultContent::Text(text.into())],
            is_error: true,
            structured: Value::Null,
        }
    }
}

/// One tool.
pub trait Tool: Send + Sync {
    /// How the model is told of it.
    fn spec(&self) -> ToolSpec;

    /// What a call with these arguments would touch. The arguments fit the schema.
    fn touches(&self, input: &Value) -> Touches;

    /// Whether it never changes anything, so that several may run side by side.
    fn is_read_only(&self) -> bool;

    /// Over this many characters a result is saved to a file and shown in part.
    fn max_result_chars(&self) -> usize {
        50_000
    }

    /// Does it. Blocking; returns soon after `cancel` is set.
    fn run(&self, permit: &Permit, input: &Value, session: &Session, cancel: &Cancel) -> Output;
}
