//! Content blocks and messages, in the bytes in which they are sent.

use std::sync::Arc;

use serde_json::{Value, json};

use super::tool::{ResultContent, ToolResult, clean_text};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The runner: the prompt, tool results, reminders.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// What kind of block it is, as far as the loop and the encoders must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// `text`.
    Text,
    /// `thinking` and `redacted_thinking`: replayed byte for byte, never marked for caching.
    Thinking,
    /// `tool_use`.
    ToolUse,
    /// `tool_result`.
    ToolResult,
    /// Anything else, passed through as it came.
    Other,
}

/// One content block: a JSON object, serialised once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    json: Arc<str>,
    kind: BlockKind,
    input_bound: u64,
}

impl Block {
    /// A block as it came from the provider. `json` must be one JSON object without surrounding blanks.
    pub fn from_wire(kind: BlockKind, json: impl Into<Arc<str>>) -> Self {
        let json = json.into();
        debug_assert!(json.starts_with('{') && json.ends_with('}'));
        let input_bound = json.len() as u64;
        Self {
            json,
            kind,
            input_bound,
        }
    }

    /// A text block; `None` when nothing visible would be in it, for the API refuses such blocks.
    pub fn text(text: &str) -> Option<Self> {
        let text = clean_text(text);
        if text.trim().is_empty() {
            return None;
        }
        Some(Self::from_wire(
            BlockKind::Text,
            json!({"type": "text", "text": text}).to_string(),
        ))
    }

    /// The answer to one call. Blank text parts are left out; a result with none left has no content.
    pub fn tool_result(result: &ToolResult) -> Self {
        let content: Vec<Value> = result
            .content
            .iter()
            .filter_map(|part| match part {
                ResultContent::Text(text) => {
                    let text = clean_text(text);
                    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
                }
                ResultContent::Image {
                    media_type, base64, ..
                } => Some(json!({
                    "type": "image",
                    "source": {"type": "base64", "media_type": media_type, "data": base64},
                })),
            })
            .collect();
        let mut object = json!({"type": "tool_result", "tool_use_id": result.tool_use_id});
        match content.as_slice() {
            [] => {}
            [only] if only["type"] == "text" => object["content"] = only["text"].clone(),
            _ => object["content"] = Value::Array(content),
        }
        if result.is_error {
            object["is_error"] = Value::Bool(true);
        }
        let image_bytes: u64 = result.content.iter().map(ResultContent::image_bytes).sum();
        let image_bound: u64 = result.content.iter().map(ResultContent::image_bound).sum();
        let mut block = Self::from_wire(BlockKind::ToolResult, object.to_string());
        block.input_bound = block.input_bound - image_bytes + image_bound;
        block
    }

    /// The object's text, from `{` to `}`.
    pub fn json(&self) -> &Arc<str> {
        &self.json
    }

    /// What kind of block it is.
    pub fn kind(&self) -> BlockKind {
        self.kind
    }

    /// The most input tokens this block can cost: one a byte, images by their pixels.
    pub fn input_bound(&self) -> u64 {
        self.input_bound
    }
}

/// One message of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// Its content, in order.
    pub blocks: Vec<Block>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_text_is_no_block() {
        assert_eq!(Block::text(" \n\t"), None);
        assert_eq!(
            &**Block::text("a").unwrap().json(),
            r#"{"text":"a","type":"text"}"#
        );
    }

    #[test]
    fn a_result_without_visible_text_has_no_content() {
        let result = ToolResult::text("toolu_1", "\n", false);
        let block = Block::tool_result(&result);
        assert_eq!(
            &**block.json(),
            r#"{"tool_use_id":"toolu_1","type":"tool_result"}"#
        );
    }

    #[test]
    fn an_image_is_bound_by_its_pixels_not_by_its_bytes() {
        let result = ToolResult {
            tool_use_id: "t".into(),
            content: vec![ResultContent::Image {
                media_type: "image/png".into(),
                base64: "A".repeat(10_000),
                input_bound: 7,
            }],
            is_error: false,
            structured: Value::Null,
        };
        let block = Block::tool_result(&result);
        assert!(block.input_bound() < 300, "{}", block.input_bound());
    }
}
