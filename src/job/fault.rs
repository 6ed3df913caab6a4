//! Noting faults: each with its place and its help, all of a file in one list.

use std::fmt::Write as _;

use super::diagnostic::{Diagnostic, Severity};
use super::locate::{Span, Text};
use super::node::{Content, Kind, Node};

/// So many faults of one file are shown; a file with more is not a job file.
const MOST: usize = 100;

/// A fault whose file is not yet named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) severity: Severity,
    pub(super) span: Span,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

impl Fault {
    pub(super) fn error(span: Span, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            span,
            message: message.into(),
            help: None,
        }
    }

    pub(super) fn warning(span: Span, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(span, message)
        }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// The faults of one file.
#[derive(Debug, Default)]
pub(super) struct Faults {
    list: Vec<Fault>,
}

impl Faults {
    pub(super) fn push(&mut self, fault: Fault) {
        self.list.push(fault);
    }

    pub(super) fn extend(&mut self, faults: impl IntoIterator<Item = Fault>) {
        self.list.extend(faults);
    }

    pub(super) fn error(
        &mut self,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.list.push(Fault::error(span, message).help(help));
    }

    /// A value of the wrong kind: `` `max_turns` must be a whole number, found "lots" ``.
    pub(super) fn wrong(&mut self, key: &str, wanted: &str, node: &Node, help: &str) {
        let found = describe(node);
        self.error(
            node.span,
            format!("`{key}` must be {wanted}, found {found}"),
            help,
        );
    }

    /// So much is wrong that most of it will not be shown: no need to look for near names.
    pub(super) fn is_hopeless(&self) -> bool {
        self.list.len() > 2 * MOST
    }

    /// Whether something was noted that lets nothing run.
    pub(super) fn has_errors(&self) -> bool {
        self.list
            .iter()
            .any(|fault| fault.severity == Severity::Error)
    }

    /// In the order of the file, each once, with the lines they stand on.
    pub(super) fn into_diagnostics(mut self, file: &str, text: &Text<'_>) -> Vec<Diagnostic> {
        // What stands under an anchor is met again at each alias.
        self.list.sort_by(|a, b| {
            (a.span.at, a.severity, &a.message).cmp(&(b.span.at, b.severity, &b.message))
        });
        self.list.dedup();
        if let Some(more) = self.list.len().checked_sub(MOST).filter(|more| *more > 0) {
            self.list.truncate(MOST);
            if let Some(last) = self.list.last_mut() {
                let _ = write!(last.message, " (and {more} faults more in this file)");
                last.severity = Severity::Error;
            }
        }
        self.list
            .into_iter()
            .map(|fault| {
                let at = text.clamp(fault.span.at);
                Diagnostic {
                    severity: fault.severity,
                    file: file.to_owned(),
                    line: at.line,
                    column: at.column,
                    width: fault.span.width.max(1),
                    source: text.line(at.line).to_owned(),
                    message: fault.message,
                    help: fault.help,
                }
            })
            .collect()
    }
}

/// A text in quotes, cut when it is long.
pub(super) fn quote(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown: String = text.chars().take(SHOWN).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}

/// What a value is, for a sentence that ends in "found …".
pub(super) fn describe(node: &Node) -> String {
    match &node.content {
        Content::List(_) => "a list".to_owned(),
        Content::Map(_) => "a mapping".to_owned(),
        Content::Scalar(scalar) => match scalar.kind {
            Kind::Null if scalar.text.is_empty() => "nothing".to_owned(),
            Kind::Text => quote(&scalar.text),
            Kind::Null | Kind::Bool(_) | Kind::Whole(_) | Kind::Float(_) => scalar.text.clone(),
        },
    }
}

/// The known name nearest to a mistyped one, when one is near enough to be meant.
pub(super) fn nearest<'k>(
    wanted: &str,
    known: impl IntoIterator<Item = &'k str>,
) -> Option<&'k str> {
    // Nothing that long was mistyped from a name.
    if wanted.len() > 64 {
        return None;
    }
    let wanted = normal(wanted);
    // A quarter of it: at a third, `report` was taken for `repeat` and `max_tokens` for `max_turns`.
    let tolerated = (wanted.chars().count() / 4).clamp(1, 3);
    known
        .into_iter()
        .map(|name| (distance(&wanted, &normal(name)), name))
        .filter(|(distance, _)| *distance <= tolerated)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// `maxTurns`, `max-turns` and `max_turns` are one name.
fn normal(name: &str) -> String {
    let mut normal = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !normal.is_empty() && !normal.ends_with(['_', '/']) {
            normal.push('_');
        }
        match c {
            '-' | ' ' => normal.push('_'),
            _ => normal.extend(c.to_lowercase()),
        }
    }
    normal
}

/// How many characters must be put in, taken out, changed or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut fewest = changed.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                fewest = fewest.min(before[j - 2] + 1);
            }
            row.push(fewest);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_near() {
        let known = ["max_turns", "max_budget_usd", "model", "id", "repeat"];
        for (written, near) in [
            ("max_turn", Some("max_turns")),
            ("maxTurns", Some("max_turns")),
            ("max-turns", Some("max_turns")),
            ("max_tunrs", Some("max_turns")),
            ("max_budget_us", Some("max_budget_usd")),
            ("moddel", Some("model")),
            ("di", Some("id")),
            ("colour", None),
            ("report", None),
            ("max_tokens", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, known), near, "{written}");
        }
    }
}
