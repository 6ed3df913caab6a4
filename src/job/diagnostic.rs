//! One fault of a job file: where, what, and what to do.

use std::fmt::{self, Write as _};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing runs.
    Error,
    /// It runs, but a person should look.
    Warning,
}

/// One fault, ready to be printed as `file:line:column: error: …` with the source line and a caret; one
/// of the file as a whole as `file: error: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The file as it was named.
    pub file: String,
    /// Line, from 1; 0 where there is no place, such as in a file that cannot be read.
    pub line: u32,
    /// Column in characters, from 1; 0 where there is no place.
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

/// The most characters of a source line that are shown.
const SHOWN: usize = 160;

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let message = escaped(&self.message);
        write!(f, "{}", escaped(&self.file))?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        write!(f, ": {severity}: {message}")?;
        if !self.source.is_empty() {
            let (shown, skipped) = self.window();
            let column = (self.column.saturating_sub(1) as usize).saturating_sub(skipped);
            let room = shown.chars().count().saturating_sub(column);
            let width = (self.width as usize).min(room).max(1);
            // Tabs keep their width so that the caret stands under what it points at.
            let blank: String = shown
                .chars()
                .chain(std::iter::repeat(' '))
                .take(column)
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            write!(f, "\n{:>5} | {shown}", self.line)?;
            write!(f, "\n      | {blank}{}", "^".repeat(width))?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n   help: {}", escaped(help))?;
        }
        Ok(())
    }
}

impl Diagnostic {
    /// Where and what on one line, `file:line:column: message`, for a place that says itself how bad
    /// it is.
    pub fn headline(&self) -> String {
        let (file, message) = (escaped(&self.file), escaped(&self.message));
        format!("{file}:{}:{}: {message}", self.line, self.column)
    }

    /// The source line, or the part of a long one around the column, and how many characters are cut
    /// off in front. Control characters are shown as `?`: the line comes from a file that may be
    /// anybody's, and goes to a terminal.
    fn window(&self) -> (String, usize) {
        let column = self.column.saturating_sub(1) as usize;
        let skipped = if column < SHOWN * 3 / 4 {
            0
        } else {
            column - SHOWN / 2
        };
        let shown = self
            .source
            .chars()
            .skip(skipped)
            .take(SHOWN)
            .map(|c| if c.is_control() && c != '\t' { '?' } else { c })
            .collect();
        (shown, skipped)
    }
}

/// Line ends and control characters as escapes: one fault never looks like two, nor like a command.
fn escaped(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escape = c.is_control().then(|| c.escape_default());
            let plain = (!c.is_control()).then_some(c);
            escape.into_iter().flatten().chain(plain)
        })
        .collect()
}

/// All diagnostics as a person reads them, each ended by a line end, and a line that counts them.
pub fn render(diagnostics: &[Diagnostic]) -> String {
    let mut rendered = String::new();
    for diagnostic in diagnostics {
        // Writing to a String cannot fail.
        let _ = writeln!(rendered, "{diagnostic}");
    }
    let count = |severity: Severity| {
        let count = diagnostics
            .iter()
            .filter(|d| d.severity == severity)
            .count();
        (count, if count == 1 { "" } else { "s" })
    };
    let parts: Vec<_> = [("error", Severity::Error), ("warning", Severity::Warning)]
        .into_iter()
        .map(|(word, severity)| (word, count(severity)))
        .filter(|(_, (count, _))| *count > 0)
        .map(|(word, (count, plural))| format!("{count} {word}{plural}"))
        .collect();
    if !parts.is_empty() {
        let _ = writeln!(rendered, "{}", parts.join(", "));
    }
    rendered
}
