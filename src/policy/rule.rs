//! One rule.

use super::decide::Place;

/// A rule of `allowed_tools` or `denied_tools`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    text: String,
    place: Place,
    note: Option<String>,
}

/// Why a text is no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// Where in the text it goes wrong, in bytes.
    pub offset: usize,
    /// How many bytes are concerned.
    pub width: usize,
}

impl Rule {
    /// From `Tool` or `Tool(specifier)`.
    pub fn parse(text: &str, place: Place, note: Option<String>) -> Result<Self, RuleError> {
        const TOOLS: [&str; 6] = ["Read", "Write", "Edit", "Glob", "Grep", "Bash"];
        let (tool, specifier) = text.split_once('(').unwrap_or((text, ")"));
        if !TOOLS.contains(&tool) && !["WebFetch", "Task"].contains(&tool) {
            return Err(RuleError {
                message: format!("unknown tool `{tool}`"),
                help: Some(format!("the tools are {}", TOOLS.join(", "))),
                offset: 0,
                width: tool.len(),
            });
        }
        if !specifier.ends_with(')') {
            return Err(RuleError {
                message: "the rule has no closing `)`".to_owned(),
                help: None,
                offset: tool.len(),
                width: text.len() - tool.len(),
            });
        }
        Ok(Self {
            text: text.to_owned(),
            place,
            note,
        })
    }

    /// The rule's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where it stands.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What the model is told with an allowed call.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    pub(super) fn tool(&self) -> &str {
        self.text.split('(').next().unwrap_or_default()
    }
}
