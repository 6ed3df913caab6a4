//! The YAML tree with every value's place; what is no tree of plain values is refused here, and quickly.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::fault::{Fault, quote};
use super::locate::{Here, Position, Span, Style, Text};

/// Deeper than anything a job file has use for. SPEC, "Job file".
const MAX_DEPTH: usize = 64;
/// Values in the tree, aliases unfolded: more than a job of ten thousand prompts has, and read in well
/// under a second.
const MAX_NODES: usize = 50_000;
/// Text in the tree, aliases unfolded: eight times the largest file.
const MAX_TEXT_BYTES: usize = 8 << 20;

/// The parser looks at every open bracket for every token. What that can come to at most, in looks, of
/// which it does some hundred millions a second; 300 KiB of source code in prompts stay below.
const MAX_LOOKS: usize = 500_000_000;

/// A value and where it stands; an alias stands where it is used.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) span: Span,
    pub(super) content: Content,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key and its value; a key that is repeated is repeated here.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) value: Node,
}

/// A mapping's key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    pub(super) span: Span,
    pub(super) text: String,
}

/// A value without parts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scalar {
    /// The text meant; for a value that YAML takes for something else than text, the text written.
    pub(super) text: String,
    pub(super) kind: Kind,
    pub(super) style: Style,
}

/// What YAML (1.2, core schema) takes a scalar for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Whole(i128),
    Float(f64),
    Text,
}

/// A file's tree and its repeated keys; or why there is no tree.
pub(super) fn parse(text: &Text<'_>) -> Result<(Node, Vec<Fault>), Fault> {
    refuse_slow(text)?;
    let mut documents = serde_yaml::Deserializer::from_str(text.whole);
    let Some(first) = documents.next() else {
        return Err(empty_file());
    };
    let walk = Walk {
        text,
        state: RefCell::default(),
    };
    let root = Value {
        walk: &walk,
        depth: 0,
        at: Position::START,
    }
    .deserialize(first);
    let State {
        fatal,
        repeated,
        last,
        ..
    } = walk.state.into_inner();
    if let Some(fatal) = fatal {
        return Err(fatal);
    }
    let mut root = root.map_err(|error| {
        if error.to_string() == "repetition limit exceeded" {
            too_much(last)
        } else {
            syntax(text, &error)
        }
    })?;
    root.span = match &root.content {
        Content::Map(entries) => entries
            .first()
            .map_or(Span::point(Position::START), |entry| entry.key.span),
        Content::Scalar(scalar) if scalar.kind == Kind::Null && scalar.text.is_empty() => {
            return Err(empty_file());
        }
        Content::Scalar(_) | Content::List(_) => Span::point(root_position(text)),
    };
    if let Some(second) = documents.next() {
        let at = match serde::de::IgnoredAny::deserialize(second) {
            Err(error) => syntax(text, &error).span,
            Ok(_) => Span::point(second_document(text)),
        };
        return Err(Fault::error(
            at,
            "a job file is one YAML document, and here a second one begins",
        )
        .help("one file a job: give several files on the command line"));
    }
    Ok((root, repeated))
}

/// Refuses what the parser would be busy with for minutes, such as a file of brackets alone.
fn refuse_slow(text: &Text<'_>) -> Result<(), Fault> {
    let count = |signs: &[u8]| text.whole.bytes().filter(|b| signs.contains(b)).count();
    let brackets = count(b"[{");
    let tokens = brackets + count(b"]},:?-&*!\"'\n");
    if brackets.saturating_mul(tokens) <= MAX_LOOKS {
        return Ok(());
    }
    Err(Fault::error(
        Span::point(Position::START),
        format!("the file has too many brackets to be read quickly: {brackets} of `[` and `{{`"),
    )
    .help("put long texts behind `prompt_file`, and fewer prompts into one file"))
}

fn empty_file() -> Fault {
    Fault::error(Span::point(Position::START), "the file is empty")
        .help("the smallest job has `prompts` and `max_budget_usd`")
}

/// Where the document begins, found by a walk of its own: the root is the one value that cannot be
/// looked at before it is read.
fn root_position(text: &Text<'_>) -> Position {
    Here.deserialize(serde_yaml::Deserializer::from_str(text.whole))
        .map_or(Position::START, |at| text.clamp(at))
}

fn second_document(text: &Text<'_>) -> Position {
    let mut documents = serde_yaml::Deserializer::from_str(text.whole);
    documents.next();
    documents
        .next()
        .and_then(|second| Here.deserialize(second).ok())
        .map_or(Position::START, |at| text.clamp(at))
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

/// The parser's words, told apart into what, where and, as help, in the middle of what.
fn syntax(text: &Text<'_>, error: &serde_yaml::Error) -> Fault {
    let at = error
        .location()
        .map_or(Position::START, |location| Position {
            line: u32::try_from(location.line()).unwrap_or(u32::MAX),
            column: u32::try_from(location.column()).unwrap_or(u32::MAX),
        });
    let at = text.clamp(at);
    let words = error.to_string();
    // The reader refuses a character before any line is counted.
    if let Some((_, offset)) = words.split_once(" at position ") {
        let offset = offset.parse().unwrap_or(0);
        return Fault::error(
            Span::point(text.at_byte(offset)),
            "control characters are not allowed in YAML",
        )
        .help("write it in double quotes as an escape, such as \"\\e\"");
    }
    let (what, middle) = words.split_once(", while ").unwrap_or((&words, ""));
    let what = what.split(" at line ").next().unwrap_or(what);
    if middle.starts_with("scanning a quoted scalar")
        && let Some(opened) = place_in(middle)
    {
        return Fault::error(
            Span::point(text.clamp(opened)),
            "a quote is opened here and never closed",
        )
        .help("close it; inside double quotes write \\\" and inside single quotes '' for a quote");
    }
    if what == "unknown anchor" {
        let token = text.token(at);
        let span = Span {
            at,
            width: token.width(token.word()),
        };
        let message = format!("no anchor comes before the alias {}", quote(token.word()));
        return Fault::error(span, message)
            .help("a text that begins with `*` must stand in quotes");
    }
    let fault = Fault::error(Span::point(at), format!("not valid YAML: {what}"));
    if text.line(at.line).trim_start_matches(' ').starts_with('\t') {
        return fault.help("YAML is indented with spaces, never with tabs");
    }
    if what.starts_with("mapping values are not allowed") {
        return fault.help("a text with a colon in it must stand in quotes");
    }
    if middle.is_empty() {
        return fault;
    }
    fault.help(format!("the parser was {middle}"))
}

/// The place at the end of the parser's words: `… at line 3 column 7`.
fn place_in(words: &str) -> Option<Position> {
    let (line, column) = words.rsplit_once(" at line ")?.1.split_once(" column ")?;
    Some(Position {
        line: line.parse().ok()?,
        column: column.parse().ok()?,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value and key as `line:column+width text`, in order.
    fn places(yaml: &str) -> Vec<String> {
        fn note(node: &Node, places: &mut Vec<String>) {
            let place = |span: Span, what: &str| {
                format!("{}:{}+{} {what}", span.at.line, span.at.column, span.width)
            };
            match &node.content {
                Content::Scalar(scalar) => {
                    let what = format!("{:?} {:?} {}", scalar.style, scalar.kind, scalar.text);
                    places.push(place(node.span, &what));
                }
                Content::List(nodes) => {
                    places.push(place(node.span, "list"));
                    for node in nodes {
                        note(node, places);
                    }
                }
                Content::Map(entries) => {
                    places.push(place(node.span, "map"));
                    for Entry { key, value } in entries {
                        places.push(place(key.span, &format!("key {}", key.text)));
                        note(value, places);
                    }
                }
            }
        }
        let (root, repeated) = parse(&Text::new(yaml)).expect("a tree");
        assert_eq!(repeated, []);
        let mut places = Vec::new();
        note(&root, &mut places);
        // The root's own place is its first key's.
        places.remove(0);
        places
    }

    #[test]
    fn block_style_is_placed() {
        assert_eq!(
            places(
                "a: 1e3\nlöng key:\n  - x y # z\n  - \"q\\\"\" \n  -\n  - b: ~\n    c: |\n      text\n"
            ),
            [
                "1:1+1 key a",
                "1:4+3 Plain Float(1000.0) 1e3",
                "2:1+8 key löng key",
                "3:3+1 list",
                "3:5+3 Plain Text x y",
                "4:5+5 Quoted Text q\"",
                "5:4+1 Plain Null ",
                "6:5+1 map",
                "6:5+1 key b",
                "6:8+1 Plain Null ~",
                "7:5+1 key c",
                "7:8+1 Block Text text\n",
            ]
        );
    }

    #[test]
    fn flow_style_is_placed() {
        assert_eq!(
            places("{a: [1, 'it''s', ], \"b\": {}, c: no, d: }"),
            [
                "1:2+1 key a",
                "1:5+1 list",
                "1:6+1 Plain Whole(1) 1",
                "1:9+7 Quoted Text it's",
                "1:21+3 key b",
                "1:26+1 map",
                "1:30+1 key c",
                "1:33+2 Plain Text no",
                "1:37+1 key d",
                "1:40+1 Plain Null ",
            ]
        );
    }

    #[test]
    fn an_alias_stands_where_it_is_used_and_is_written_as_its_anchor() {
        assert_eq!(
            places("a: &x no\nb: *x\nc: &l [&x 'no', *x]\nd: [*l, *x]\n"),
            [
                "1:1+1 key a",
                "1:7+2 Plain Text no",
                "2:1+1 key b",
                "2:4+2 Plain Text no",
                "3:1+1 key c",
                "3:7+1 list",
                "3:11+4 Quoted Text no",
                "3:17+2 Quoted Text no",
                "4:1+1 key d",
                "4:4+1 list",
                "4:5+1 list",
                "3:11+4 Quoted Text no",
                "3:17+2 Quoted Text no",
                "4:9+2 Quoted Text no",
            ]
        );
    }

    #[test]
    fn a_name_given_anew_does_not_change_what_was_said_before() {
        assert_eq!(
            places("a: &x no\nb: &l [*x]\nc: &x 'no'\nd: *l\n"),
            [
                "1:1+1 key a",
                "1:7+2 Plain Text no",
                "2:1+1 key b",
                "2:7+1 list",
                "2:8+2 Plain Text no",
                "3:1+1 key c",
                "3:7+4 Quoted Text no",
                "4:1+1 key d",
                "4:4+1 list",
                "2:8+2 Plain Text no",
            ]
        );
    }
}
