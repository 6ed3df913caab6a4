//! A call the model asked for, and what it gets back.

use std::borrow::Cow;

use serde_json::Value;

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolInput {
    /// What the model sent, parsed. Not necessarily an object.
    Json(Value),
    /// What the model sent is not JSON: the text as it came.
    Unparseable(String),
}

/// One `tool_use` block of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolUse {
    /// Non-empty and unique in the conversation (see [`super::Reply`]).
    pub id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// Its arguments.
    pub input: ToolInput,
}

impl ToolUse {
    /// The arguments as JSON for records: what could not be parsed is a string.
    pub fn input_value(&self) -> Value {
        match &self.input {
            ToolInput::Json(value) => value.clone(),
            ToolInput::Unparseable(text) => Value::String(text.clone()),
        }
    }
}

/// One part of a tool's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultContent {
    /// Text; may be blank, in which case it is not sent.
    Text(String),
    /// A picture.
    Image {
        /// Such as `image/png`.
        media_type: String,
        /// The file, base64.
        base64: String,
        /// The most input tokens it can cost, from its pixels.
        input_bound: u64,
    },
}

impl ResultContent {
    pub(super) fn image_bytes(&self) -> u64 {
        match self {
            Self::Text(_) => 0,
            Self::Image { base64, .. } => base64.len() as u64,
        }
    }

    pub(super) fn image_bound(&self) -> u64 {
        match self {
            Self::Text(_) => 0,
            Self::Image { input_bound, .. } => *input_bound,
        }
    }
}

/// The answer to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The call it answers.
    pub tool_use_id: String,
    /// What the model reads.
    pub content: Vec<ResultContent>,
    /// Whether the call went wrong: bad arguments, a denial, a failed command.
    pub is_error: bool,
    /// The tool's own structured result, for the transcript; `null` where it has none.
    pub structured: Value,
}

impl ToolResult {
    /// A result of one piece of text.
    pub fn text(tool_use_id: &str, text: impl Into<String>, is_error: bool) -> Self {
        Self {
            tool_use_id: tool_use_id.to_owned(),
            content: vec![ResultContent::Text(text.into())],
            is_error,
            structured: Value::Null,
        }
    }

    /// Characters of text in the answer.
    pub fn text_chars(&self) -> usize {
        self.content
            .iter()
            .map(|part| match part {
                ResultContent::Text(text) => text.chars().count(),
                ResultContent::Image { .. } => 0,
            })
            .sum()
    }
}

/// `text` without the control characters that the API rejects; each is shown as `\u{XX}`.
///
/// Tab, newline and carriage return stay. Rust strings hold no lone surrogates.
pub fn clean_text(text: &str) -> Cow<'_, str> {
    let rejected = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    if !text.contains(rejected) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if rejected(c) {
            clean.extend(c.escape_unicode());
        } else {
            clean.push(c);
        }
    }
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_the_rest_stays() {
        assert_eq!(clean_text("a\u{1b}[1m\tb\n\u{0}"), "a\\u{1b}[1m\tb\n\\u{0}");
        assert!(matches!(clean_text("größe 🚀"), Cow::Borrowed(_)));
    }
}
