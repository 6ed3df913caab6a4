//! The Messages API on the wire: requests encoded, events decoded, nothing kept.
//!
//! Source: Anthropic API documentation, "Messages" and "Streaming messages". The server may add fields,
//! events, block and delta types at any time, so all of these pass through.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::message::{BlockKind, Head, Request};

use super::raw::{is_too_deep, kept, mended};
use super::usage::WireUsage;

/// The version that local servers and gateways know too.
pub(super) const VERSION: &str = "2023-06-01";

const CACHE_CONTROL: &str = r#","cache_control":{"type":"ephemeral"}}"#;

/// The beginning of every body of a conversation, up to the bracket that opens the messages.
///
/// Model, system and tools stand first and the limits last, so that what is in front of a message is
/// the same bytes in every request. The breakpoint on the system prompt covers the tools.
pub(super) fn head(head: &Head) -> String {
    let cache_control = json!({"type": "ephemeral"});
    let has_system = !head.system.trim().is_empty();
    let system = if has_system {
        let block = json!({"type": "text", "text": head.system, "cache_control": cache_control});
        format!(",\"system\":[{block}]")
    } else {
        String::new()
    };
    let mut tools: Vec<Value> = head
        .tools
        .iter()
        .map(|tool| {
            json!({
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.input_schema,
            })
        })
        .collect();
    if let (false, Some(last)) = (has_system, tools.last_mut()) {
        last["cache_control"] = cache_control;
    }
    let tools = if tools.is_empty() {
        String::new()
    } else {
        format!(",\"tools\":{}", Value::Array(tools))
    };
    let model = json!(head.model);
    format!("{{\"model\":{model}{system}{tools},\"messages\":[")
}

/// The end of a body, from the bracket that closes the messages.
pub(super) fn tail(request: &Request) -> String {
    format!("],\"max_tokens\":{},\"stream\":true}}", request.max_tokens)
}

/// The whole body in slices: `head`, the blocks as they are, `tail`. A message without blocks is left
/// out, for the API refuses it.
pub(super) fn body<'a>(head: &'a str, request: &'a Request, tail: &'a str) -> Vec<&'a str> {
    let mut parts = Vec::with_capacity(request.messages.len() * 4 + 2);
    parts.push(head);
    let mut between_messages = "";
    for (index, message) in request.messages.iter().enumerate() {
        if message.blocks.is_empty() {
            continue;
        }
        parts.push(between_messages);
        parts.push("{\"role\":\"");
        parts.push(message.role.name());
        parts.push("\",\"content\":[");
        for (position, block) in message.blocks.iter().enumerate() {
            if position > 0 {
                parts.push(",");
            }
            let is_marked = block.kind() != BlockKind::Thinking
                && request
                    .breakpoints
                    .iter()
                    .any(|at| at.message == index && at.block == position);
            match block.json().strip_suffix('}') {
                Some(open) if is_marked => parts.extend([open, CACHE_CONTROL]),
                _ => parts.push(block.json()),
            }
        }
        parts.push("]}");
        between_messages = ",";
    }
    parts.push(tail);
    parts
}

/// One event of a stream. Strings without escapes are borrowed from its bytes.
#[derive(Debug, PartialEq)]
pub(super) enum Event<'a> {
    MessageStart {
        id: Option<String>,
        model: Option<String>,
        usage: WireUsage,
        input_transformations: Option<Value>,
    },
    BlockStart {
        index: Option<usize>,
        /// The block's members in their order, each value as it came.
        fields: Vec<(String, String)>,
    },
    BlockDelta {
        index: Option<usize>,
        delta: Delta<'a>,
    },
    BlockStop {
        index: Option<usize>,
    },
    MessageDelta {
        stop_reason: Option<String>,
        stop_details: Option<Value>,
        usage: WireUsage,
        input_transformations: Option<Value>,
    },
    MessageStop,
    Ping,
    /// The `error` member as it came.
    Error {
        error: Value,
        request_id: Option<String>,
    },
    /// One we do not know.
    Unknown(String),
}

/// A piece of a block.
#[derive(Debug, PartialEq)]
pub(super) enum Delta<'a> {
    Text(Cow<'a, str>),
    InputJson(Cow<'a, str>),
    Thinking(Cow<'a, str>),
    Signature(Cow<'a, str>),
    /// A citation as it came.
    Citation(&'a str),
    /// Values as they came.
    Compaction(Vec<(&'static str, String)>),
    /// One we do not know.
    Unknown(String),
}

/// The union of all events: one pass over the bytes, half the time of a tagged enum.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(rename = "type", borrow, default, deserialize_with = "text")]
    kind: Option<Cow<'a, str>>,
    index: Option<usize>,
    #[serde(borrow)]
    delta: Option<WireDelta<'a>>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "text")]
    request_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input_transformations: Option<&'a RawValue>,
}

/// The union of all deltas.
#[derive(Default, Deserialize)]
struct WireDelta<'a> {
    #[serde(rename = "type", borrow, default, deserialize_with = "text")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    partial_json: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    signature: Option<Cow<'a, str>>,
    #[serde(borrow)]
    citation: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    encrypted_content: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "text")]
    stop_reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    stop_details: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireMessage<'a> {
    #[serde(borrow, default, deserialize_with = "text")]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    input_transformations: Option<&'a RawValue>,
}

/// Decodes the data of one event. The error says what is wrong with it, for a message.
pub(super) fn decode(data: &[u8]) -> Result<Event<'_>, String> {
    let bad = |error: serde_json::Error| format!("{error} in the event {}", quote(data));
    let wire: Wire<'_> = serde_json::from_slice(data).map_err(bad)?;
    let index = wire.index;
    let kind = wire.kind.as_deref().unwrap_or_default();
    Ok(match kind {
        "content_block_delta" => Event::BlockDelta {
            index,
            delta: delta(wire.delta.unwrap_or_default()),
        },
        "content_block_start" => {
            let block = wire
                .content_block
                .ok_or_else(|| format!("no content block in the event {}", quote(data)))?;
            Event::BlockStart {
                index,
                fields: fields(block.get()).map_err(bad)?,
            }
        }
        "content_block_stop" => Event::BlockStop { index },
        "message_start" => {
            let message = wire.message.map_or("{}", RawValue::get);
            let message: WireMessage<'_> = serde_json::from_str(message).map_err(bad)?;
            Event::MessageStart {
                id: message.id.map(Cow::into_owned),
                model: message.model.map(Cow::into_owned),
                usage: WireUsage::of(message.usage),
                input_transformations: value(message.input_transformations),
            }
        }
        "message_delta" => {
            let delta = wire.delta.unwrap_or_default();
            Event::MessageDelta {
                stop_reason: delta.stop_reason.map(Cow::into_owned),
                stop_details: value(delta.stop_details),
                usage: WireUsage::of(wire.usage),
                input_transformations: value(wire.input_transformations),
            }
        }
        "message_stop" => Event::MessageStop,
        "ping" => Event::Ping,
        "error" => Event::Error {
            error: value(wire.error).unwrap_or_default(),
            request_id: wire.request_id.map(Cow::into_owned),
        },
        other => Event::Unknown(other.to_owned()),
    })
}

impl Delta<'_> {
    /// Bytes of what it brings.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Text(piece)
            | Self::InputJson(piece)
            | Self::Thinking(piece)
            | Self::Signature(piece) => piece.len(),
            Self::Citation(citation) => citation.len(),
            Self::Compaction(values) => values.iter().map(|(_, value)| value.len()).sum(),
            Self::Unknown(_) => 0,
        }
    }
}

fn delta(delta: WireDelta<'_>) -> Delta<'_> {
    let kind = delta.kind.as_deref().unwrap_or_default();
    match kind {
        "text_delta" => Delta::Text(delta.text.unwrap_or_default()),
        "input_json_delta" => Delta::InputJson(delta.partial_json.unwrap_or_default()),
        "thinking_delta" => Delta::Thinking(delta.thinking.unwrap_or_default()),
        "signature_delta" => Delta::Signature(delta.signature.unwrap_or_default()),
        "citations_delta" => match delta.citation {
            Some(citation) => Delta::Citation(citation.get()),
            None => Delta::Unknown(kind.to_owned()),
        },
        "compaction_delta" => Delta::Compaction(
            [
                ("content", delta.content),
                ("encrypted_content", delta.encrypted_content),
            ]
            .into_iter()
            .filter_map(|(name, value)| Some((name, kept(value?.get()))))
            .collect(),
        ),
        other => Delta::Unknown(other.to_owned()),
    }
}

/// What stands beside the content: not worth the reply when it cannot be kept.
fn value(raw: Option<&RawValue>) -> Option<Value> {
    let json = raw?.get();
    if is_too_deep(json) {
        return None;
    }
    serde_json::from_str(&mended(json)).ok()
}

/// The members of a JSON object in their order, each value as it stands there.
fn fields(object: &str) -> serde_json::Result<Vec<(String, String)>> {
    struct Fields(Vec<(String, String)>);

    impl<'de> Deserialize<'de> for Fields {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_map(FieldsVisitor)
        }
    }

    struct FieldsVisitor;

    impl<'de> Visitor<'de> for FieldsVisitor {
        type Value = Fields;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
            let mut fields = Vec::new();
            while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                fields.push((name, kept(value.get())));
            }
            Ok(Fields(fields))
        }
    }

    serde_json::from_str(object).map(|Fields(fields)| fields)
}

/// The start of `data`, for a message.
pub(super) fn quote(data: &[u8]) -> String {
    let text = String::from_utf8_lossy(data);
    let text = text.trim();
    let start: String = text.chars().take(200).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("{start:?}{more}")
}

/// A string, borrowed where it has no escapes. Anything else counts as not given: a delta type of the
/// future may use the name for something else.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    struct Text;

    impl<'de> Visitor<'de> for Text {
        type Value = Option<Cow<'de, str>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("JSON")
        }

        fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
            Ok(Some(Cow::Borrowed(text)))
        }

        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Some(Cow::Owned(text.to_owned())))
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(None)
        }
    }

    deserializer.deserialize_any(Text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::message::{Block, BlockPosition, Message, RequestNumber, Role, ToolSpec};

    fn message(role: Role, blocks: &[(BlockKind, &str)]) -> Arc<Message> {
        let blocks = blocks
            .iter()
            .map(|(kind, json)| Block::from_wire(*kind, *json))
            .collect();
        Arc::new(Message { role, blocks })
    }

    fn request(head: Head, messages: Vec<Arc<Message>>, marks: &[(usize, usize)]) -> Request {
        Request {
            number: RequestNumber(1),
            head: Arc::new(head),
            max_tokens: 7,
            messages,
            breakpoints: marks
                .iter()
                .map(|&(message, block)| BlockPosition { message, block })
                .collect(),
        }
    }

    fn encoded(request: &Request) -> String {
        let head = head(&request.head);
        let tail = tail(request);
        body(&head, request, &tail).concat()
    }

    fn plain_head(system: &str) -> Head {
        Head {
            model: "m".into(),
            system: system.into(),
            tools: vec![ToolSpec {
                name: "Read".into(),
                description: "reads".into(),
                input_schema: json!({"type": "object"}),
            }],
        }
    }

    #[test]
    fn a_body_is_its_parts_and_marks_only_what_may_be_marked() {
        let messages = vec![
            message(
                Role::User,
                &[(BlockKind::Text, r#"{"type":"text","text":"hi"}"#)],
            ),
            message(
                Role::Assistant,
                &[(
                    BlockKind::Thinking,
                    r#"{"type":"thinking","thinking":"x","signature":"s"}"#,
                )],
            ),
            message(Role::Assistant, &[]),
        ];
        let request = request(plain_head("be good"), messages, &[(0, 0), (1, 0)]);
        assert_eq!(
            encoded(&request),
            concat!(
                r#"{"model":"m","system":[{"cache_control":{"type":"ephemeral"},"text":"be good","type":"text"}],"#,
                r#""tools":[{"description":"reads","input_schema":{"type":"object"},"name":"Read"}],"#,
                r#""messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]},"#,
                r#"{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"s"}]}],"#,
                r#""max_tokens":7,"stream":true}"#,
            )
        );
    }

    #[test]
    fn without_a_system_prompt_no_empty_block_is_sent_and_the_tools_are_marked() {
        let request = request(plain_head(" \n"), Vec::new(), &[]);
        let value: Value = serde_json::from_str(&encoded(&request)).unwrap();
        assert_eq!(value["system"], Value::Null);
        assert_eq!(value["tools"][0]["cache_control"]["type"], "ephemeral");
    }

    #[test]
    fn what_is_in_front_of_the_newest_message_never_changes() {
        let mut messages = Vec::new();
        let mut before: Option<String> = None;
        for turn in 0..5 {
            let json = format!(r#"{{"type":"text","text":"turn {turn}"}}"#);
            messages.push(message(Role::User, &[(BlockKind::Text, &json)]));
            let text = encoded(&request(plain_head("s"), messages.clone(), &[]));
            if let Some(before) = before {
                assert!(text.starts_with(before.split("],\"max_tokens\"").next().unwrap()));
            }
            before = Some(text);
        }
    }

    #[test]
    fn a_plain_delta_is_borrowed() {
        let event = decode(
            br#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"abc"}}"#,
        );
        let Ok(Event::BlockDelta {
            index: Some(0),
            delta: Delta::Text(Cow::Borrowed("abc")),
        }) = event
        else {
            panic!("{event:?}");
        };
    }

    #[test]
    fn what_the_future_brings_is_no_error() {
        let delta = |data: &'static str| match decode(data.as_bytes()) {
            Ok(Event::BlockDelta { delta, .. }) => delta,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            delta(
                r#"{"type":"content_block_delta","delta":{"type":"new","text":{"a":[1]},"x":0}}"#
            ),
            Delta::Unknown("new".into())
        );
        assert_eq!(
            delta(r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":null}}"#),
            Delta::Text("".into())
        );
        assert_eq!(
            decode(br#"{"type":"telemetry","note":[]}"#),
            Ok(Event::Unknown("telemetry".into()))
        );
    }

    #[test]
    fn what_is_not_json_is_quoted() {
        assert_eq!(
            decode(b"<html>").unwrap_err(),
            r#"expected value at line 1 column 1 in the event "<html>""#
        );
    }

    #[test]
    fn members_keep_their_order_and_their_bytes() {
        assert_eq!(
            fields("{\"b\": 1.50,\"a\":{\"z\":0,\n\"y\":1}}").unwrap(),
            [
                ("b".to_owned(), "1.50".to_owned()),
                ("a".to_owned(), r#"{"z":0, "y":1}"#.to_owned()),
            ]
        );
    }
}
