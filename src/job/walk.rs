//! The walk over the parser's events that makes the tree, and gives up where it grows too large.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::fault::{Fault, quote};
use super::locate::{Here, Position, Span, Style, Text};
use super::node::{Content, Entry, Key, Kind, Node, Scalar};
use super::syntax::syntax;

/// Deeper than anything a job file has use for. SPEC, "Job file".
const MAX_DEPTH: usize = 64;
/// Values in the tree, aliases unfolded: more than a job of ten thousand prompts has, and read in well
/// under a second.
const MAX_NODES: usize = 50_000;
/// Text in the tree, aliases unfolded: eight times the largest file.
const MAX_TEXT_BYTES: usize = 8 << 20;

/// A document's tree and its repeated keys; or why there is no tree.
pub(super) fn document(
    text: &Text<'_>,
    document: serde_yaml::Deserializer<'_>,
) -> Result<(Node, Vec<Fault>), Fault> {
    let walk = Walk {
        text,
        state: RefCell::default(),
    };
    let root = Value {
        walk: &walk,
        depth: 0,
        at: Position::START,
    }
    .deserialize(document);
    let State {
        fatal,
        repeated,
        last,
        ..
    } = walk.state.into_inner();
    if let Some(fatal) = fatal {
        return Err(fatal);
    }
    let root = root.map_err(|error| {
        if error.to_string() == "repetition limit exceeded" {
            too_much(last)
        } else {
            syntax(text, &error)
        }
    })?;
    Ok((root, repeated))
}

fn too_much(at: Position) -> Fault {
    Fault::error(
        Span::point(at),
        "the file holds too much when its aliases are unfolded",
    )
    .help(format!(
        "at most {MAX_NODES} values and {MAX_TEXT_BYTES} bytes of text"
    ))
}

/// What a walk over the parser's events has met.
struct Walk<'t> {
    text: &'t Text<'t>,
    state: RefCell<State<'t>>,
}

#[derive(Default)]
struct State<'t> {
    nodes: usize,
    text_bytes: usize,
    /// Where the latest anchor of a name stands.
    anchors: HashMap<&'t str, Position>,
    /// Which anchor the alias at a place refers to, as found when it was first met: in the order of
    /// the file, so that a name that is given anew later changes nothing.
    aliases: HashMap<Position, Position>,
    repeated: Vec<Fault>,
    /// Places of repeated keys already noted: an alias shows them again.
    noted: HashSet<Position>,
    /// Where the latest value stands: the parser's own limit on aliases names no place.
    last: Position,
    /// Why the walk was given up.
    fatal: Option<Fault>,
}

impl Walk<'_> {
    /// Gives the walk up.
    fn refuse<E: Error>(&self, fault: Fault) -> E {
        self.state.borrow_mut().fatal.get_or_insert(fault);
        E::custom("refused")
    }

    /// Counts a value against the limits.
    fn count<E: Error>(&self, at: Position, depth: usize, text_bytes: usize) -> Result<(), E> {
        if depth > MAX_DEPTH {
            return Err(self.refuse(Fault::error(
                Span::point(at),
                format!("nested more than {MAX_DEPTH} levels deep"),
            )));
        }
        let mut state = self.state.borrow_mut();
        state.last = at;
        state.nodes += 1;
        state.text_bytes += text_bytes;
        if state.nodes > MAX_NODES || state.text_bytes > MAX_TEXT_BYTES {
            drop(state);
            return Err(self.refuse(too_much(at)));
        }
        Ok(())
    }

    /// Where the value that is used at a place is written, which is elsewhere for an alias.
    fn definition<E: Error>(&self, at: Position) -> Result<Position, E> {
        let token = self.text.token(at);
        if token.is_tagged {
            return Err(self.refuse(
                Fault::error(Span::point(at), "YAML tags are not allowed in a job file")
                    .help("write the value without the `!…` in front"),
            ));
        }
        let mut state = self.state.borrow_mut();
        if let Some(anchor) = token.anchor {
            state.anchors.insert(anchor, token.at);
        }
        let Some(alias) = token.alias() else {
            return Ok(token.at);
        };
        let anchored = state.anchors.get(alias).copied().unwrap_or(at);
        Ok(*state.aliases.entry(at).or_insert(anchored))
    }

    /// A scalar's node, told by its text in the file how it was written.
    fn scalar(&self, used: Position, defined: Position, value: Read) -> Node {
        let token = self.text.token(defined);
        let (kind, text) = match value {
            Read::Text(text) => (Kind::Text, text),
            Read::Kind(Kind::Null) => {
                let word = token.word();
                let is_null = matches!(word, "~" | "null" | "Null" | "NULL");
                (Kind::Null, if is_null { word } else { "" }.to_owned())
            }
            Read::Kind(kind) => (kind, token.word().to_owned()),
        };
        let shown = self.text.token(used);
        let width = match shown.alias() {
            Some(alias) => u32::try_from(alias.chars().count() + 1).unwrap_or(u32::MAX),
            None => shown.width(&text),
        };
        Node {
            span: Span {
                at: shown.at,
                width,
            },
            content: Content::Scalar(Scalar {
                text,
                kind,
                style: token.style,
            }),
        }
    }

    fn key<E: Error>(&self, at: Position, value: Node) -> Result<Key, E> {
        let refuse = |message: &str, help: &str| {
            Err(self.refuse(Fault::error(Span { at, ..value.span }, message).help(help)))
        };
        let Content::Scalar(scalar) = value.content else {
            return refuse(
                "a key must be a word",
                "lists and mappings cannot be keys here",
            );
        };
        if scalar.style == Style::Plain && scalar.text == "<<" {
            return refuse(
                "YAML merge keys (`<<`) are not allowed in a job file",
                "write the keys out, or put shared settings at the top of the job",
            );
        }
        Ok(Key {
            span: value.span,
            text: scalar.text,
        })
    }

    fn note_repeated(&self, entries: &[Entry]) {
        let mut first: HashMap<&str, Span> = HashMap::new();
        for Entry { key, .. } in entries {
            let Some(before) = first.get(key.text.as_str()) else {
                first.insert(&key.text, key.span);
                continue;
            };
            let mut state = self.state.borrow_mut();
            if state.noted.insert(key.span.at) {
                let fault = Fault::error(
                    key.span,
                    format!(
                        "the key {} is written twice, first at {}:{}",
                        quote(&key.text),
                        before.at.line,
                        before.at.column
                    ),
                )
                .help("one of the two would silently be lost: join them or delete one");
                state.repeated.push(fault);
            }
        }
    }
}

/// A scalar as the parser hands it over.
enum Read {
    Kind(Kind),
    Text(String),
}

/// Reads the value that stands at `at`.
#[derive(Clone, Copy)]
struct Value<'w, 't> {
    walk: &'w Walk<'t>,
    depth: usize,
    at: Position,
}

impl<'de> DeserializeSeed<'de> for Value<'_, '_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        let defined = self.walk.definition(self.at)?;
        deserializer.deserialize_any(Reading {
            value: self,
            defined,
        })
    }
}

struct Reading<'w, 't> {
    value: Value<'w, 't>,
    defined: Position,
}

impl<'w, 't> Reading<'w, 't> {
    fn scalar<E: Error>(&self, read: Read) -> Result<Node, E> {
        let Value { walk, depth, at } = self.value;
        let bytes = match &read {
            Read::Text(text) => text.len(),
            Read::Kind(_) => 0,
        };
        walk.count(at, depth, bytes)?;
        Ok(walk.scalar(at, self.defined, read))
    }

    /// Of a list or mapping only the first character is shown.
    fn composite(&self, content: Content) -> Node {
        let Value { walk, at, .. } = self.value;
        Node {
            span: Span::point(walk.text.token(at).at),
            content,
        }
    }

    fn part(&self, at: Position) -> Value<'w, 't> {
        let Value { walk, depth, .. } = self.value;
        Value {
            walk,
            depth: depth + 1,
            at: walk.text.clamp(at),
        }
    }
}

impl<'de> Visitor<'de> for Reading<'_, '_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        self.scalar(Read::Kind(Kind::Null))
    }

    /// The file holds nothing.
    fn visit_none<E: Error>(self) -> Result<Node, E> {
        self.scalar(Read::Kind(Kind::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        self.scalar(Read::Kind(Kind::Bool(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
        self.scalar(Read::Kind(Kind::Whole(value.into())))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Node, E> {
        self.scalar(Read::Kind(Kind::Whole(value)))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        self.scalar(Read::Kind(Kind::Whole(value.into())))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Node, E> {
        // Beyond every limit there is, so that the nearest will do.
        let value = i128::try_from(value).unwrap_or(i128::MAX);
        self.scalar(Read::Kind(Kind::Whole(value)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        self.scalar(Read::Kind(Kind::Float(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Node, E> {
        self.scalar(Read::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let Value { walk, depth, at } = self.value;
        walk.count(at, depth, 0)?;
        let mut nodes = Vec::new();
        while let Some(at) = access.next_element_seed(Here)? {
            nodes.extend(access.next_element_seed(self.part(at))?);
        }
        Ok(self.composite(Content::List(nodes)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let Value { walk, depth, at } = self.value;
        walk.count(at, depth, 0)?;
        let mut entries = Vec::new();
        while let Some(at) = access.next_key_seed(Here)? {
            let Some(key) = access.next_key_seed(self.part(at))? else {
                break;
            };
            let key = walk.key(at, key)?;
            let at = access.next_value_seed(Here)?;
            let value = access.next_value_seed(self.part(at))?;
            entries.push(Entry { key, value });
        }
        walk.note_repeated(&entries);
        Ok(self.composite(Content::Map(entries)))
    }

    /// What bears a tag of its own comes as an enumeration.
    fn visit_enum<A: serde::de::EnumAccess<'de>>(self, _: A) -> Result<Node, A::Error> {
        let Value { walk, at, .. } = self.value;
        Err(walk.refuse(
            Fault::error(Span::point(at), "YAML tags are not allowed in a job file")
                .help("write the value without the `!…` in front"),
        ))
    }
}
