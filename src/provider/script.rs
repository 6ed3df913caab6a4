//! Hand-written cassettes: one YAML file of replies, turned into the bytes a server would send.
//!
//! ```yaml
//! model: claude-haiku-5-5        # optional: the model that seems to answer
//! replies:                       # served in order to each conversation
//!   - text: I will look first.
//!     tool_use: {name: Read, input: {file_path: README.md}}   # id: made up unless given
//!   - blocks:                    # an ordered mix, instead of text, thinking, tool_use(s)
//!       - thinking: Two calls.
//!       - tool_use: {name: Grep, input: {pattern: fn}}
//!       - text: Both at once.
//!       - tool_use: {name: Glob, input: {pattern: "*.md"}}
//!   - error: {status: 529, type: overloaded_error, message: Overloaded, headers: {retry-after: 1}}
//!   - text: cut                  # without `status` the error is an event behind the text
//!     error: {type: api_error, message: Internal server error}
//!   - {text: lost, drop_after: 3 events}     # or `120 bytes`: the stream ends there
//!   - {text: silent, stall: true}            # after `drop_after`, else after its first event
//!   - text: Done.
//!     stop_reason: end_turn      # else `tool_use` when there are calls, `end_turn` when not
//!     usage: {input_tokens: 900, output_tokens: 12, cache_read_input_tokens: 0, cache_creation_input_tokens: 0}
//!     delay: 50ms                # before anything is sent
//! prompts:                       # instead of `replies`, for the prompts named here
//!   other-prompt:
//!     - text: Hello.
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::replay::Step;

/// A whole file, checked.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) model: Option<String>,
    replies: Option<Vec<Scripted>>,
    prompts: BTreeMap<String, Vec<Scripted>>,
}

/// One answer, ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scripted {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    /// Waited before anything is sent.
    pub(super) delay: Duration,
    pub(super) steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    model: Option<String>,
    replies: Option<Vec<ReplyNode>>,
    #[serde(default)]
    prompts: BTreeMap<String, Vec<ReplyNode>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ReplyNode {
    text: Option<String>,
    thinking: Option<String>,
    tool_use: Option<CallNode>,
    tool_uses: Vec<CallNode>,
    blocks: Vec<BlockNode>,
    stop_reason: Option<String>,
    usage: UsageNode,
    error: Option<ErrorNode>,
    delay: Option<String>,
    drop_after: Option<String>,
    stall: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallNode {
    name: String,
    #[serde(default = "no_input")]
    input: Value,
    id: Option<String>,
}

fn no_input() -> Value {
    json!({})
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BlockNode {
    text: Option<String>,
    thinking: Option<String>,
    tool_use: Option<CallNode>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_field_names, reason = "the names are those of the API")]
struct UsageNode {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_input_tokens: u64,
    cache_creation_input_tokens: u64,
}

impl Default for UsageNode {
    fn default() -> Self {
        Self {
            input_tokens: 10,
            output_tokens: 5,
            cache_read_input_tokens: 0,
            cache_creation_input_tokens: 0,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorNode {
    status: Option<u16>,
    #[serde(rename = "type")]
    kind: String,
    message: String,
    #[serde(default)]
    headers: BTreeMap<String, serde_yaml::Value>,
}

impl Script {
    /// Reads a file's text. The error says what is wrong and, where YAML knows it, in which line.
    pub(super) fn parse(yaml: &str) -> Result<Self, String> {
        let file: File = serde_yaml::from_str(yaml).map_err(|error| error.to_string())?;
        if file.replies.is_none() && file.prompts.is_empty() {
            return Err("it has neither `replies` nor `prompts`".to_owned());
        }
        let model = file.model.as_deref();
        let scripted = |place: &str, replies: Vec<ReplyNode>| {
            let numbered = replies.into_iter().zip(1..);
            numbered
                .map(|(reply, number)| {
                    reply
                        .scripted(number, model)
                        .map_err(|cause| format!("reply {number} of {place}: {cause}"))
                })
                .collect::<Result<Vec<_>, _>>()
        };
        let replies = file.replies.map(|replies| scripted("`replies`", replies));
        let replies = replies.transpose()?;
        let mut prompts = BTreeMap::new();
        for (id, replies) in file.prompts {
            let replies = scripted(&format!("`prompts.{id}`"), replies)?;
            prompts.insert(id, replies);
        }
        Ok(Self {
            model: file.model,
            replies,
            prompts,
        })
    }

    /// The answers to a prompt: its own, else those for all.
    pub(super) fn replies(&self, prompt_id: &str) -> Option<&[Scripted]> {
        self.prompts
            .get(prompt_id)
            .or(self.replies.as_ref())
            .map(Vec::as_slice)
    }
}

impl ReplyNode {
    fn scripted(self, number: usize, model: Option<&str>) -> Result<Scripted, String> {
        let delay = self.delay.as_deref().map_or(Ok(Duration::ZERO), duration)?;
        let cut = self.drop_after.as_deref().map(cut).transpose()?;
        let status = self.error.as_ref().and_then(|error| error.status);
        if let Some(status) = status.filter(|status| *status != 200) {
            return self.error_status(status, delay);
        }
        let stall = self.stall;
        let events = self.events(number, model)?;
        let mut bytes: Vec<u8> = Vec::new();
        let kept = match (cut, stall) {
            (Some(Cut::Events(count)), _) => count,
            (None, true) => 1,
            _ => events.len(),
        };
        for event in events.iter().take(kept) {
            let kind = event["type"].as_str().unwrap_or_default();
            bytes.extend_from_slice(format!("event: {kind}\ndata: {event}\n\n").as_bytes());
        }
        if let Some(Cut::Bytes(count)) = cut {
            bytes.truncate(count);
        }
        let mut steps = vec![Step::Bytes(bytes)];
        if stall {
            steps.push(Step::Stall);
        }
        Ok(Scripted {
            status: 200,
            headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
            delay,
            steps,
        })
    }

    fn error_status(self, status: u16, delay: Duration) -> Result<Scripted, String> {
        let has_content = self.text.is_some()
            || self.thinking.is_some()
            || self.tool_use.is_some()
            || !self.tool_uses.is_empty()
            || !self.blocks.is_empty();
        if has_content || self.stop_reason.is_some() || self.drop_after.is_some() || self.stall {
            return Err(
                "an `error` with a `status` has nothing but a `delay` beside it".to_owned(),
            );
        }
        if !(300..600).contains(&status) {
            return Err(format!("{status} is no status of an error"));
        }
        let Some(error) = self.error else {
            return Err("there is no `error`".to_owned());
        };
        let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        for (name, value) in &error.headers {
            let value = match value {
                serde_yaml::Value::String(text) => text.clone(),
                serde_yaml::Value::Number(number) => number.to_string(),
                serde_yaml::Value::Bool(flag) => flag.to_string(),
                _ => return Err(format!("the header `{name}` must be text or a number")),
            };
            headers.push((name.to_lowercase(), value));
        }
        let body = json!({
            "type": "error",
            "error": {"type": error.kind, "message": error.message},
        });
        let steps = vec![Step::Bytes(body.to_string().into_bytes())];
        Ok(Scripted {
            status,
            headers,
            delay,
            steps,
        })
    }

    fn events(self, number: usize, model: Option<&str>) -> Result<Vec<Value>, String> {
        let mut message = json!({
            "id": format!("msg_script_{number}"),
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": null,
            "usage": {
                "input_tokens": self.usage.input_tokens,
                "cache_read_input_tokens": self.usage.cache_read_input_tokens,
                "cache_creation_input_tokens": self.usage.cache_creation_input_tokens,
                "output_tokens": 1,
            },
        });
        if let Some(model) = model {
            message["model"] = model.into();
        }
        let mut events = vec![json!({"type": "message_start", "message": message})];
        let stop_reason = self.stop_reason.clone();
        let output_tokens = self.usage.output_tokens;
        let error = self.error.as_ref().map(|error| {
            if !error.headers.is_empty() {
                return Err("`headers` need a `status`".to_owned());
            }
            Ok(json!({
                "type": "error",
                "error": {"type": error.kind, "message": error.message},
            }))
        });
        let blocks = self.into_blocks()?;
        let mut calls = 0;
        for (index, block) in blocks.into_iter().enumerate() {
            if matches!(block, Content::Call(_)) {
                calls += 1;
            }
            block.write(
                index,
                &format!("toolu_script_{number}_{calls}"),
                &mut events,
            );
        }
        if let Some(error) = error.transpose()? {
            events.push(error);
            return Ok(events);
        }
        let implied = if calls > 0 { "tool_use" } else { "end_turn" };
        events.push(json!({
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason.as_deref().unwrap_or(implied), "stop_sequence": null},
            "usage": {"output_tokens": output_tokens},
        }));
        events.push(json!({"type": "message_stop"}));
        Ok(events)
    }

    fn into_blocks(self) -> Result<Vec<Content>, String> {
        let mut content = Vec::new();
        content.extend(self.thinking.map(Content::Thinking));
        content.extend(self.text.map(Content::Text));
        content.extend(self.tool_use.map(Content::Call));
        content.extend(self.tool_uses.into_iter().map(Content::Call));
        if !content.is_empty() && !self.blocks.is_empty() {
            return Err(
                "`blocks` stands for `text`, `thinking`, `tool_use` and `tool_uses`, not beside them"
                    .to_owned(),
            );
        }
        for block in self.blocks {
            content.push(match (block.text, block.thinking, block.tool_use) {
                (Some(text), None, None) => Content::Text(text),
                (None, Some(thinking), None) => Content::Thinking(thinking),
                (None, None, Some(call)) => Content::Call(call),
                _ => {
                    let one = "a block is one of `text`, `thinking`, `tool_use`";
                    return Err(one.to_owned());
                }
            });
        }
        Ok(content)
    }
}

enum Content {
    Text(String),
    Thinking(String),
    Call(CallNode),
}

impl Content {
    /// As a server would stream it: begun empty, grown in pieces, ended.
    fn write(self, index: usize, id: &str, events: &mut Vec<Value>) {
        let (start, deltas) = match self {
            Self::Text(text) => (
                json!({"type": "text", "text": ""}),
                pieces(&text)
                    .map(|piece| json!({"type": "text_delta", "text": piece}))
                    .collect::<Vec<_>>(),
            ),
            Self::Thinking(thinking) => (
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                pieces(&thinking)
                    .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
                    .chain([json!({"type": "signature_delta", "signature": "c2NyaXB0"})])
                    .collect(),
            ),
            Self::Call(call) => {
                let id = call.id.unwrap_or_else(|| id.to_owned());
                let start = json!({"type": "tool_use", "id": id, "name": call.name, "input": {}});
                let input = call.input.to_string();
                let deltas = pieces(&input)
                    .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                    .collect();
                (start, deltas)
            }
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        for delta in deltas {
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
}

/// `text` in pieces of some forty bytes, cut between characters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = rest.len().min(40);
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

#[derive(Clone, Copy)]
enum Cut {
    Events(usize),
    Bytes(usize),
}

fn cut(text: &str) -> Result<Cut, String> {
    let bad = || format!("`drop_after` must be such as `3 events` or `120 bytes`, found {text:?}");
    let (count, unit) = text.trim().split_once(' ').ok_or_else(bad)?;
    let count = count.parse().map_err(|_| bad())?;
    match unit.trim() {
        "event" | "events" => Ok(Cut::Events(count)),
        "byte" | "bytes" => Ok(Cut::Bytes(count)),
        _ => Err(bad()),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("`delay` must be such as `50ms` or `2s`, found {text:?}");
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
    let (count, unit) = text.split_at(digits);
    let count: u32 = count.parse().map_err(|_| bad())?;
    match unit {
        "ms" => Ok(Duration::from_millis(count.into())),
        "s" => Ok(Duration::from_secs(count.into())),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_file_and_the_examples_are_valid() {
        let documented: Vec<&str> = include_str!("script.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("//!"))
            .skip_while(|line| !line.contains("```yaml"))
            .skip(1)
            .take_while(|line| !line.contains("```"))
            .map(|line| line.strip_prefix(' ').unwrap_or(line))
            .collect();
        let script = Script::parse(&documented.join("\n")).unwrap();
        assert_eq!(script.model.as_deref(), Some("claude-haiku-5-5"));
        assert_eq!(script.replies("any").map(<[_]>::len), Some(7));
        assert_eq!(script.replies("other-prompt").map(<[_]>::len), Some(1));
        for example in [
            include_str!("../../fixtures/cassettes/reads-then-answers.yaml"),
            include_str!("../../fixtures/cassettes/every-fault.yaml"),
            include_str!("../../fixtures/cassettes/two-prompts.yaml"),
        ] {
            Script::parse(example).unwrap();
        }
    }

    #[test]
    fn a_fault_is_named_with_its_place() {
        for (yaml, fault) in [
            ("replies:\n  - txt: a\n", "replies[0]: unknown field `txt`"),
            ("model: m\n", "it has neither `replies` nor `prompts`"),
            (
                "replies:\n  - {text: a, drop_after: soon}\n",
                "reply 1 of `replies`: `drop_after` must be such as `3 events` or `120 bytes`, found \"soon\"",
            ),
            (
                "prompts:\n  p:\n    - text: a\n    - {text: a, delay: 5}\n",
                "reply 2 of `prompts.p`: `delay` must be such as `50ms` or `2s`, found \"5\"",
            ),
            (
                "replies: [{text: a, delay: 5h}]",
                "reply 1 of `replies`: `delay` must be such as `50ms` or `2s`, found \"5h\"",
            ),
            (
                "replies: [{text: a, blocks: [{text: b}]}]",
                "reply 1 of `replies`: `blocks` stands for",
            ),
            (
                "replies: [{blocks: [{text: b, thinking: c}]}]",
                "reply 1 of `replies`: a block is one of",
            ),
            (
                "replies: [{text: a, error: {status: 500, type: t, message: m}}]",
                "reply 1 of `replies`: an `error` with a `status` has nothing but a `delay`",
            ),
            (
                "replies: [{error: {status: 99, type: t, message: m}}]",
                "reply 1 of `replies`: 99 is no status of an error",
            ),
        ] {
            let error = Script::parse(yaml).unwrap_err();
            assert!(error.starts_with(fault), "{yaml}\n{error}");
        }
        let error = Script::parse("replies:\n  - text: a\n  - txt: a\n").unwrap_err();
        assert!(error.contains("line 3 column 5"), "{error}");
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let text = "é🚀".repeat(50);
        assert_eq!(pieces(&text).collect::<String>(), text);
        assert!(pieces(&text).count() > 3);
    }
}
