//! Names of tools.

use std::fmt;

/// A tool that a rule may name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ToolName {
    /// Reads a file.
    Read,
    /// Writes a file whole. One class with [`ToolName::Edit`].
    Write,
    /// Changes a file. One class with [`ToolName::Write`].
    Edit,
    /// Finds files by name.
    Glob,
    /// Searches in files.
    Grep,
    /// Runs a shell command.
    Bash,
    /// A tool of the specification that is not built yet: a rule that denies it holds, a rule that
    /// allows it allows nothing, and `job` refuses it.
    Unbuilt(String),
}

/// A name that no tool bears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTool {
    /// The name that was probably meant.
    pub nearest: Option<&'static str>,
}

/// Known, but not built; MCP tools (`mcp__SERVER__TOOL`) too.
const UNBUILT: [&str; 9] = [
    "WebFetch",
    "WebSearch",
    "Task",
    "Agent",
    "TodoWrite",
    "NotebookEdit",
    "Finish",
    "StructuredOutput",
    "MultiEdit",
];

impl ToolName {
    /// The tools that can be used today.
    pub const BUILT: [Self; 6] = [
        Self::Read,
        Self::Write,
        Self::Edit,
        Self::Glob,
        Self::Grep,
        Self::Bash,
    ];

    /// The tool of this name; names are case-sensitive. The error holds the nearest name.
    pub fn find(name: &str) -> Result<Self, UnknownTool> {
        if let Some(built) = Self::BUILT.iter().find(|tool| tool.as_str() == name) {
            return Ok(built.clone());
        }
        let is_mcp = name
            .strip_prefix("mcp__")
            .is_some_and(|rest| !rest.is_empty() && rest.chars().all(is_mcp_char));
        if UNBUILT.contains(&name) || is_mcp {
            return Ok(Self::Unbuilt(name.to_owned()));
        }
        Err(UnknownTool {
            nearest: nearest(name),
        })
    }

    /// Whether it can be used today.
    pub fn is_built(&self) -> bool {
        !matches!(self, Self::Unbuilt(_))
    }

    /// The name as rules and the model write it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Read => "Read",
            Self::Write => "Write",
            Self::Edit => "Edit",
            Self::Glob => "Glob",
            Self::Grep => "Grep",
            Self::Bash => "Bash",
            Self::Unbuilt(name) => name,
        }
    }

    /// Whether a rule on the one holds for the other: the same tool, or Write and Edit.
    pub(super) fn is_one_class_with(&self, other: &Self) -> bool {
        self == other || (self.changes_files() && other.changes_files())
    }

    pub(super) fn changes_files(&self) -> bool {
        matches!(self, Self::Write | Self::Edit)
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `*` may stand for tools of a server: `mcp__github__get_*`.
fn is_mcp_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '*')
}

fn nearest(name: &str) -> Option<&'static str> {
    const NAMES: [&str; 6] = ["Read", "Write", "Edit", "Glob", "Grep", "Bash"];
    let lower = name.to_lowercase();
    NAMES
        .into_iter()
        .chain(UNBUILT)
        .map(|known| (distance(&lower, &known.to_lowercase()), known))
        .filter(|(distance, known)| *distance <= known.len() / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Levenshtein's distance. Names are short: the first 32 characters count.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(32).collect();
    let b: Vec<char> = b.chars().take(32).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(from != to)).min(above.min(row[j]) + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_built_or_known_or_unknown_with_a_guess() {
        for tool in ToolName::BUILT {
            assert_eq!(ToolName::find(tool.as_str()), Ok(tool));
        }
        for name in ["WebFetch", "Agent", "mcp__github__get_issue", "mcp__*"] {
            assert_eq!(ToolName::find(name), Ok(ToolName::Unbuilt(name.to_owned())));
        }
        for (name, nearest) in [
            ("Bsh", Some("Bash")),
            ("bash", Some("Bash")),
            ("Wirte", None),
            ("Writ", Some("Write")),
            ("Websearch", Some("WebSearch")),
            ("Frobnicate", None),
            ("mcp__", None),
            ("", None),
        ] {
            assert_eq!(ToolName::find(name), Err(UnknownTool { nearest }), "{name}");
        }
    }
}
