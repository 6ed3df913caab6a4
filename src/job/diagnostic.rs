//! One fault of a job file: where, what, and what to do.

use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing runs.
    Error,
    /// It runs, but a person should look.
    Warning,
}

/// One fault, ready to be printed as `file:line:column: error: …` with the source line and a caret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The file as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// How many characters the caret underlines, at least 1.
    pub width: u32,
    /// The line of the file; empty when there is none to show.
    pub source: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(
            f,
            "{}:{}:{}: {severity}: {}",
            self.file, self.line, self.column, self.message
        )?;
        if !self.source.is_empty() {
            // Tabs keep their width so that the caret stands under what it points at.
            let blank: String = self
                .source
                .chars()
                .take(self.column.saturating_sub(1) as usize)
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            write!(f, "\n{:>5} | {}", self.line, self.source)?;
            write!(
                f,
                "\n      | {blank}{}",
                "^".repeat(self.width.max(1) as usize)
            )?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n   help: {help}")?;
        }
        Ok(())
    }
}
