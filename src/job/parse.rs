//! From text to tree; what is no single document of plain values is refused here, and quickly.

use serde::Deserialize as _;
use serde::de::DeserializeSeed as _;

use super::fault::Fault;
use super::locate::{Here, Position, Span, Text};
use super::node::{Content, Kind, Node};
use super::syntax::syntax;
use super::walk;

/// The parser looks at every open bracket for every token. What that can come to at most, in looks, of
/// which it does some hundred millions a second; 300 KiB of source code in prompts stay below.
const MAX_LOOKS: usize = 500_000_000;

/// A file's tree and its repeated keys; or why there is no tree.
pub(super) fn tree(text: &Text<'_>) -> Result<(Node, Vec<Fault>), Fault> {
    refuse_slow(text)?;
    let mut documents = serde_yaml::Deserializer::from_str(text.whole);
    let Some(first) = documents.next() else {
        return Err(empty_file());
    };
    let (mut root, repeated) = walk::document(text, first)?;
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

#[cfg(test)]
mod tests {
    use super::super::node::Entry;
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
        let (root, repeated) = tree(&Text::new(yaml)).expect("a tree");
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
