//! Requests without what differs from run to run, and where two of them differ.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use regex::Regex;
use serde_json::Value;

/// Paths that differ between the machine that recorded and the one that replays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The directory the tools work in.
    pub workspace: PathBuf,
    /// The user's home.
    pub home: Option<PathBuf>,
}

/// Takes out paths, dates, UUIDs, the ids of calls, and cache marks, which are no content.
pub(super) struct Normaliser {
    /// Longest first, for the workspace may lie in the home.
    paths: Vec<(String, &'static str)>,
    varying: Regex,
}

impl Normaliser {
    pub(super) fn new(places: &Places) -> Self {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut paths = vec![(text(&places.workspace), "{workspace}")];
        paths.extend(places.home.as_deref().map(|home| (text(home), "{home}")));
        paths.retain(|(path, _)| path.len() > 1);
        paths.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        let varying = Regex::new(concat!(
            r"(?P<date>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?)",
            r"|(?P<uuid>[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})",
            r"|(?P<call>toolu_[A-Za-z0-9_]+)",
        ))
        .expect("the expression is a constant and valid");
        Self { paths, varying }
    }

    /// The normal form of a request's body.
    pub(super) fn normal(&self, mut request: Value) -> Value {
        self.walk(&mut request, &mut HashMap::new());
        request
    }

    /// `calls` numbers the ids of calls by their first appearance.
    fn walk(&self, value: &mut Value, calls: &mut HashMap<String, usize>) {
        match value {
            Value::Object(object) => {
                object.remove("cache_control");
                let is_call = object.get("type").is_some_and(|kind| kind == "tool_use");
                for (name, value) in object {
                    match value {
                        Value::String(id) if name == "tool_use_id" || (name == "id" && is_call) => {
                            *id = call_name(id, calls);
                        }
                        _ => self.walk(value, calls),
                    }
                }
            }
            Value::Array(values) => {
                for value in values {
                    self.walk(value, calls);
                }
            }
            Value::String(text) => {
                if let Cow::Owned(normal) = self.text(text, calls) {
                    *text = normal;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn text<'a>(&self, text: &'a str, calls: &mut HashMap<String, usize>) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for (path, name) in &self.paths {
            if text.contains(path.as_str()) {
                text = Cow::Owned(text.replace(path.as_str(), name));
            }
        }
        let replaced = self
            .varying
            .replace_all(&text, |found: &regex::Captures<'_>| {
                if found.name("date").is_some() {
                    "{date}".to_owned()
                } else if found.name("uuid").is_some() {
                    "{uuid}".to_owned()
                } else {
                    call_name(&found[0], calls)
                }
            });
        match replaced {
            Cow::Owned(replaced) => Cow::Owned(replaced),
            Cow::Borrowed(_) => text,
        }
    }
}

fn call_name(id: &str, calls: &mut HashMap<String, usize>) -> String {
    let next = calls.len() + 1;
    let number = calls.entry(id.to_owned()).or_insert(next);
    format!("{{call {number}}}")
}

/// The first place where two values differ, with both of them there, shortened.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// Such as `messages[2].content[0].text`.
    pub(super) path: String,
    pub(super) recorded: String,
    pub(super) now: String,
}

/// The first difference in the order of keys and elements; `None` when there is none.
pub(super) fn first_difference(recorded: &Value, now: &Value) -> Option<Difference> {
    differ(recorded, now, &mut String::new())
}

fn differ(recorded: &Value, now: &Value, path: &mut String) -> Option<Difference> {
    let length = path.len();
    match (recorded, now) {
        (Value::Object(a), Value::Object(b)) => {
            let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
                let found = differ_or_missing(a.get(name), b.get(name), path);
                path.truncate(length);
                if found.is_some() {
                    return found;
                }
            }
            None
        }
        (Value::Array(a), Value::Array(b)) => {
            for index in 0..a.len().max(b.len()) {
                // Writing to memory does not fail.
                let _ = write!(path, "[{index}]");
                let found = differ_or_missing(a.get(index), b.get(index), path);
                path.truncate(length);
                if found.is_some() {
                    return found;
                }
            }
            None
        }
        (Value::String(a), Value::String(b)) if a != b => {
            let common = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
            Some(Difference {
                path: path.clone(),
                recorded: around(a, common),
                now: around(b, common),
            })
        }
        _ if recorded == now => None,
        _ => Some(Difference {
            path: path.clone(),
            recorded: shortened(recorded),
            now: shortened(now),
        }),
    }
}

fn differ_or_missing(
    recorded: Option<&Value>,
    now: Option<&Value>,
    path: &mut String,
) -> Option<Difference> {
    match (recorded, now) {
        (Some(recorded), Some(now)) => differ(recorded, now, path),
        (recorded, now) => {
            let show = |value: Option<&Value>| value.map_or("nothing".to_owned(), shortened);
            Some(Difference {
                path: path.clone(),
                recorded: show(recorded),
                now: show(now),
            })
        }
    }
}

/// The part of `text` around its `position`th character.
fn around(text: &str, position: usize) -> String {
    const BEFORE: usize = 40;
    const WHOLE: usize = 160;
    let start = position.saturating_sub(BEFORE);
    let part: String = text.chars().skip(start).take(WHOLE).collect();
    let front = if start > 0 { "…" } else { "" };
    let back = if text.chars().nth(start + WHOLE).is_some() {
        "…"
    } else {
        ""
    };
    format!("{front}{part:?}{back}")
}

fn shortened(value: &Value) -> String {
    let text = value.to_string();
    let mut short: String = text.chars().take(160).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn normaliser() -> Normaliser {
        Normaliser::new(&Places {
            workspace: "/home/ann/project".into(),
            home: Some("/home/ann".into()),
        })
    }

    #[test]
    fn what_differs_from_run_to_run_is_taken_out() {
        let request = json!({
            "system": [{"type": "text", "text": "in /home/ann/project on 2026-11-30", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"content": [{"type": "tool_use", "id": "call_9", "name": "Read", "input": {"id": "call_9", "file": "/home/ann/.x"}}]},
                {"content": [{"type": "tool_result", "tool_use_id": "call_9", "content": "toolu_01AB at 2026-11-30T10:00:00.5Z"}]},
                {"content": [{"type": "text", "text": "0199d9a2-1111-7222-8333-abcdefabcdef toolu_01AB 2026-1-1"}]},
            ],
        });
        assert_eq!(
            normaliser().normal(request),
            json!({
                "system": [{"type": "text", "text": "in {workspace} on {date}"}],
                "messages": [
                    {"content": [{"type": "tool_use", "id": "{call 1}", "name": "Read", "input": {"id": "call_9", "file": "{home}/.x"}}]},
                    {"content": [{"type": "tool_result", "tool_use_id": "{call 1}", "content": "{call 2} at {date}"}]},
                    {"content": [{"type": "text", "text": "{uuid} {call 2} 2026-1-1"}]},
                ],
            })
        );
    }

    #[test]
    fn the_first_difference_is_named_with_both_sides() {
        for (recorded, now, expected) in [
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!({"a": 1}), json!({"a": 2}), Some(("a", "1", "2"))),
            (
                json!({"a": [0]}),
                json!({"a": [0, 1]}),
                Some(("a[1]", "nothing", "1")),
            ),
            (
                json!({"a": {"b": "x"}}),
                json!({"a": {}}),
                Some(("a.b", "\"x\"", "nothing")),
            ),
            (
                json!({"m": [{"t": "same then this"}]}),
                json!({"m": [{"t": "same then that"}]}),
                Some(("m[0].t", "\"same then this\"", "\"same then that\"")),
            ),
        ] {
            let expected = expected.map(|(path, recorded, now)| Difference {
                path: path.into(),
                recorded: recorded.into(),
                now: now.into(),
            });
            assert_eq!(first_difference(&recorded, &now), expected);
        }
    }

    #[test]
    fn a_long_text_is_shown_where_it_differs() {
        let text = |end: &str| Value::String(format!("{}{end}", "é".repeat(1000)));
        let found = first_difference(&text("a"), &text("b")).unwrap();
        assert_eq!(found.recorded, format!("…\"{}a\"", "é".repeat(40)));
    }
}
