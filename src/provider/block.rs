//! A content block while it streams, and the bytes in which it goes back.
//!
//! Blocks are kept member by member as they came, in their order, so that members we do not know and
//! the spelling of numbers survive; only what came in pieces is written anew.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::{Block, BlockKind, ToolInput, ToolUse};

use super::anthropic::{Delta, quote};
use super::raw::{MAX_DEPTH, is_too_deep, kept, mended};

/// A block that still grows. What came in pieces is `Some`; the rest stays as it came.
pub(super) struct OpenBlock {
    kind: String,
    fields: Vec<(String, String)>,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    input: Option<String>,
    citations: Vec<String>,
}

/// A block that is whole.
pub(super) struct DoneBlock {
    /// `None` for a text block in which nothing is visible, which the API would refuse, and for one that
    /// cannot be kept.
    pub(super) block: Option<Block>,
    /// What is visible of a text block.
    pub(super) text: Option<String>,
    pub(super) call: Option<ToolUse>,
    /// What was left out.
    pub(super) warning: Option<String>,
}

impl OpenBlock {
    /// From the members of the block as it begins.
    pub(super) fn new(fields: Vec<(String, String)>) -> Result<Self, String> {
        let kind = initial(&fields, "type");
        if kind == "tool_use" && initial(&fields, "name").is_empty() {
            return Err("a tool_use block without a name".to_owned());
        }
        Ok(Self {
            kind,
            fields,
            text: None,
            thinking: None,
            signature: None,
            input: None,
            citations: Vec::new(),
        })
    }

    /// The id of a `tool_use` block, empty where it has none.
    pub(super) fn call_id(&self) -> Option<String> {
        (self.kind == "tool_use").then(|| initial(&self.fields, "id"))
    }

    pub(super) fn set_call_id(&mut self, id: &str) {
        set_field(&mut self.fields, "id", json_string(id));
    }

    /// Adds a piece; what it is says where it belongs, whatever the block.
    pub(super) fn grow(&mut self, delta: &Delta<'_>) {
        let Self {
            fields,
            text,
            thinking,
            signature,
            input,
            citations,
            ..
        } = self;
        let append = |grown: &mut Option<String>, name, piece: &str| {
            let grown = grown.get_or_insert_with(|| initial(fields, name));
            grown.push_str(piece);
        };
        match delta {
            Delta::Text(piece) => append(text, "text", piece),
            Delta::Thinking(piece) => append(thinking, "thinking", piece),
            Delta::Signature(piece) => append(signature, "signature", piece),
            Delta::InputJson(piece) => input.get_or_insert_default().push_str(piece),
            Delta::Citation(citation) => citations.push(kept(citation)),
            Delta::Compaction(values) => {
                for (name, value) in values {
                    set_field(fields, name, value.clone());
                }
            }
            Delta::Unknown(_) => {}
        }
    }

    /// Ends the block, which is empty afterwards.
    pub(super) fn close(&mut self) -> DoneBlock {
        let kind = match self.kind.as_str() {
            "text" => BlockKind::Text,
            "thinking" | "redacted_thinking" => BlockKind::Thinking,
            "tool_use" => BlockKind::ToolUse,
            _ => BlockKind::Other,
        };
        let mut fields = std::mem::take(&mut self.fields);
        let call = (kind == BlockKind::ToolUse).then(|| self.call(&mut fields));
        let text = (kind == BlockKind::Text)
            .then(|| self.text.take().unwrap_or_else(|| initial(&fields, "text")));
        self.write_pieces(&mut fields);
        let warning = self.leave_out_deep(&mut fields);
        let is_blank = text.as_ref().is_some_and(|text| text.trim().is_empty());
        // Of a block that we know, what is too deep is an extra.
        let is_kept = !is_blank && (warning.is_none() || kind != BlockKind::Other);
        DoneBlock {
            block: is_kept.then(|| Block::from_wire(kind, render(&fields, text.as_deref()))),
            text: text.filter(|_| !is_blank),
            call,
            warning,
        }
    }

    /// Takes out members that are nested so deep that the transcript could not be read back; the
    /// warning says so.
    fn leave_out_deep(&self, fields: &mut Vec<(String, String)>) -> Option<String> {
        let count = fields.len();
        fields.retain(|(_, raw)| !is_too_deep(raw));
        (fields.len() < count).then(|| {
            format!(
                "content of a block of type {} was left out: it is nested deeper than {MAX_DEPTH} levels",
                quote(self.kind.as_bytes())
            )
        })
    }

    /// The call of a `tool_use` block. `input` in `fields` becomes what goes back to the API, which
    /// takes nothing but an object there.
    fn call(&mut self, fields: &mut Vec<(String, String)>) -> ToolUse {
        let mut raw = self.input.take().unwrap_or_default();
        if raw.trim().is_empty() {
            let whole = raw_field(fields, "input").filter(|raw| *raw != "null");
            whole.unwrap_or("{}").clone_into(&mut raw);
        }
        if let Cow::Owned(mended) = mended(&raw) {
            raw = mended;
        }
        let nothing = "{}".to_owned();
        let value = if is_too_deep(raw.trim()) {
            None
        } else {
            serde_json::from_str(&raw).ok()
        };
        let (input, sent_back) = match value {
            Some(value @ Value::Object(_)) => (ToolInput::Json(value), kept(raw.trim())),
            Some(value) => (ToolInput::Json(value), nothing),
            None => (ToolInput::Unparseable(raw), nothing),
        };
        set_field(fields, "input", sent_back);
        ToolUse {
            id: initial(fields, "id"),
            name: initial(fields, "name"),
            input,
        }
    }

    /// Puts what came in pieces, and was not taken yet, where it belongs.
    fn write_pieces(&mut self, fields: &mut Vec<(String, String)>) {
        for (name, value) in [
            ("text", self.text.take()),
            ("thinking", self.thinking.take()),
            ("signature", self.signature.take()),
        ] {
            if let Some(value) = value {
                set_field(fields, name, json_string(&value));
            }
        }
        if let Some(input) = self.input.take()
            && let Ok(raw) = serde_json::from_str::<&RawValue>(&input)
        {
            set_field(fields, "input", kept(raw.get()));
        }
        if !self.citations.is_empty() {
            let mut citations: Vec<String> = raw_field(fields, "citations")
                .and_then(|raw| serde_json::from_str::<Vec<&RawValue>>(raw).ok())
                .unwrap_or_default()
                .into_iter()
                .map(|citation| citation.get().to_owned())
                .collect();
            citations.append(&mut self.citations);
            set_field(fields, "citations", format!("[{}]", citations.join(",")));
        }
    }
}

fn raw_field<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let (_, raw) = fields.iter().find(|(field, _)| field == name)?;
    Some(raw)
}

/// What a string member holds; empty when it is absent or no string.
fn initial(fields: &[(String, String)], name: &str) -> String {
    let raw = raw_field(fields, name).unwrap_or_default();
    serde_json::from_str(raw).unwrap_or_default()
}

fn set_field(fields: &mut Vec<(String, String)>, name: &str, raw: String) {
    match fields.iter_mut().find(|(field, _)| field == name) {
        Some((_, value)) => *value = raw,
        None => fields.push((name.to_owned(), raw)),
    }
}

fn json_string(text: &str) -> String {
    let mut json = Vec::with_capacity(text.len() + text.len() / 16 + 2);
    write_string(&mut json, text);
    String::from_utf8(json).expect("serde_json writes UTF-8")
}

/// The object with its members in their order; a text block's `text` is written from the text itself,
/// which may be megabytes.
fn render(fields: &[(String, String)], text: Option<&str>) -> String {
    let size: usize = fields
        .iter()
        .map(|(name, raw)| name.len() + raw.len() + 4)
        .sum();
    let text_size = text.map_or(0, |text| text.len() + text.len() / 16);
    let mut json = Vec::with_capacity(size + text_size + 32);
    let mut separator = b'{';
    let mut written = false;
    for (name, raw) in fields {
        json.push(separator);
        separator = b',';
        write_string(&mut json, name);
        json.push(b':');
        match text {
            Some(text) if name == "text" => {
                write_string(&mut json, text);
                written = true;
            }
            _ => json.extend_from_slice(raw.as_bytes()),
        }
    }
    if let (Some(text), false) = (text, written) {
        json.push(separator);
        json.extend_from_slice(b"\"text\":");
        write_string(&mut json, text);
        separator = b',';
    }
    if separator == b'{' {
        json.push(separator);
    }
    json.push(b'}');
    String::from_utf8(json).expect("serde_json writes UTF-8")
}

fn write_string(json: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(json, text).expect("a string is written to memory");
}
