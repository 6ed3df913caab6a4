//! Text that must not stay in a recording.
//!
//! A model writes a secret as it writes all else, in pieces of a few characters, so the pieces of a
//! block are masked as one text. What has nothing to mask stays byte for byte as it came.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

/// Gives back a text with whatever is secret in it replaced.
pub(super) type Mask = Arc<dyn Fn(&str) -> String + Send + Sync>;

type MaskFn = dyn Fn(&str) -> String + Send + Sync;

/// Members of a delta that go on in the next one.
const PIECES: [&str; 3] = ["text", "thinking", "partial_json"];

/// Masks every string in `value`, names of members too; whether there was anything to mask.
pub(super) fn mask_value(value: &mut Value, mask: &MaskFn) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => {
            let masked = mask(text);
            let is_masked = masked != *text;
            *text = masked;
            is_masked
        }
        Value::Array(items) => {
            let mut any = false;
            for item in items {
                any |= mask_value(item, mask);
            }
            any
        }
        Value::Object(members) => {
            let mut any = false;
            let masked = std::mem::take(members)
                .into_iter()
                .map(|(name, mut value)| {
                    let masked = mask(&name);
                    any |= mask_value(&mut value, mask) || masked != name;
                    (masked, value)
                });
            *members = masked.collect();
            any
        }
    }
}

/// The body of an answer, a stream of events or one JSON object, with its texts masked.
pub(super) fn masked_body(body: &[u8], mask: &MaskFn) -> Vec<u8> {
    let lines: Vec<&[u8]> = body
        .split_inclusive(|byte| matches!(byte, b'\n' | b'\r'))
        .collect();
    let replaced = replaced_pieces(&lines, mask);
    let mut masked = Vec::with_capacity(body.len());
    for (position, line) in lines.iter().enumerate() {
        masked.extend_from_slice(&masked_line(line, replaced.get(&position), mask));
    }
    masked
}

/// The JSON of a line, behind what stands in front of it.
fn json(line: &[u8]) -> Option<(&'static str, Value)> {
    ["data: ", "data:", ""].iter().find_map(|prefix| {
        let json = line.strip_prefix(prefix.as_bytes())?;
        Some((*prefix, serde_json::from_slice(json).ok()?))
    })
}

/// A line with its end; `pieces` replace those of its delta.
fn masked_line<'a>(line: &'a [u8], pieces: Option<&Pieces>, mask: &MaskFn) -> Cow<'a, [u8]> {
    let masked = if let Some((prefix, mut event)) = json(line) {
        for (name, piece) in pieces.into_iter().flatten() {
            event["delta"][*name] = piece.as_str().into();
        }
        let end = String::from_utf8_lossy(&line[line.trim_ascii_end().len()..]);
        (mask_value(&mut event, mask) || pieces.is_some()).then(|| format!("{prefix}{event}{end}"))
    } else {
        let text = String::from_utf8_lossy(line);
        Some(mask(&text)).filter(|masked| *masked != text)
    };
    masked.map_or(Cow::Borrowed(line), |masked| {
        Cow::Owned(masked.into_bytes())
    })
}

/// New pieces for a delta, each with the member it is of.
type Pieces = Vec<(&'static str, String)>;

/// The pieces of the texts in which there is something to mask, by their lines: the whole text, masked,
/// stands in the first piece, and the others are empty.
fn replaced_pieces(lines: &[&[u8]], mask: &MaskFn) -> HashMap<usize, Pieces> {
    let mut replaced: HashMap<usize, Pieces> = HashMap::new();
    for text in texts(lines) {
        let mut masked = mask(&text.whole);
        if masked == text.whole {
            continue;
        }
        for line in text.lines {
            let piece = (text.name, std::mem::take(&mut masked));
            replaced.entry(line).or_default().push(piece);
        }
    }
    replaced
}

/// A text of a block, and the lines in which its pieces are.
struct Text {
    name: &'static str,
    lines: Vec<usize>,
    whole: String,
}

fn texts(lines: &[&[u8]]) -> Vec<Text> {
    let mut texts: Vec<Text> = Vec::new();
    let mut open: HashMap<(Option<u64>, &str), usize> = HashMap::new();
    for (position, line) in lines.iter().enumerate() {
        let Some((_, event)) = json(line) else {
            continue;
        };
        let index = event["index"].as_u64();
        match event["type"].as_str() {
            // Some servers number all blocks alike.
            Some("content_block_start") => open.retain(|(of, _), _| *of != index),
            Some("content_block_delta") => {
                for name in PIECES {
                    let Some(piece) = event["delta"][name].as_str() else {
                        continue;
                    };
                    let text = *open.entry((index, name)).or_insert_with(|| {
                        texts.push(Text {
                            name,
                            lines: Vec::new(),
                            whole: String::new(),
                        });
                        texts.len() - 1
                    });
                    texts[text].lines.push(position);
                    texts[text].whole.push_str(piece);
                }
            }
            _ => {}
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mask(text: &str) -> String {
        text.replace("hunter22", "***")
    }

    fn masked(body: &str) -> String {
        String::from_utf8(masked_body(body.as_bytes(), &mask)).unwrap()
    }

    #[test]
    fn what_has_nothing_to_mask_stays_byte_for_byte() {
        let directory = format!("{}/fixtures/sse", env!("CARGO_MANIFEST_DIR"));
        let mut count = 0;
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            assert_eq!(masked_body(&bytes, &mask), bytes, "{}", path.display());
            count += 1;
        }
        assert!(count > 20);
        for bytes in [
            &b""[..],
            b"\xff\xfe\n\r\n",
            b"data: {\"a\" : 1.50}\r\rdata: x",
        ] {
            assert_eq!(masked_body(bytes, &mask), bytes);
        }
    }

    #[test]
    fn a_secret_is_masked_wherever_it_stands() {
        for (body, expected) in [
            (
                "{\"error\": {\"message\": \"no hunter22\"}}\n",
                "{\"error\":{\"message\":\"no ***\"}}\n",
            ),
            (
                ": hunter22\r\ndata: {\"type\":\"x\",\"a\":[\"h\\u0075nter22\",\"hunter22\"]}\r\n\r\n",
                ": ***\r\ndata: {\"a\":[\"***\",\"***\"],\"type\":\"x\"}\r\n\r\n",
            ),
            ("<p>hunter22</p>", "<p>***</p>"),
            ("data:{\"hunter22\":0}", "data:{\"***\":0}"),
        ] {
            assert_eq!(masked(body), expected, "{body}");
        }
        assert_eq!(
            masked_body(b"\xffhunter22", &mask),
            "\u{fffd}***".as_bytes()
        );
    }

    #[test]
    fn a_secret_that_comes_in_pieces_is_masked_as_a_whole() {
        let delta = |index: u64, kind: &str, name: &str, piece: &str| {
            let delta = json!({"type": kind, name: piece});
            let event = json!({"type": "content_block_delta", "index": index, "delta": delta});
            format!("data: {event}\n\n")
        };
        let text = |piece| delta(0, "text_delta", "text", piece);
        let call = |piece| delta(1, "input_json_delta", "partial_json", piece);
        let start = "data: {\"type\":\"content_block_start\",\"index\":0}\n\n";
        // Two blocks at once, and a second text with the same number, which begins anew.
        let body = [
            text("it is hun"),
            call("{\"a\":\"hunt"),
            text("te"),
            call("er22\"}"),
            text("r22."),
            start.to_owned(),
            text("hun"),
            start.to_owned(),
            text("ter22"),
        ];
        let expected = [
            text("it is ***."),
            call("{\"a\":\"***\"}"),
            text(""),
            call(""),
            text(""),
            start.to_owned(),
            text("hun"),
            start.to_owned(),
            text("ter22"),
        ];
        assert_eq!(masked(&body.concat()), expected.concat());
    }
}
