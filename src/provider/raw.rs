//! JSON text that is kept as it came: in one line, without halves of characters, never nested so deep
//! that it could not be read again.

use std::borrow::Cow;

/// The deepest nesting that is kept. `serde_json` and other readers stop at about 128 levels, and a
/// line of a transcript puts a few around a block, as a request does.
pub(super) const MAX_DEPTH: usize = 120;

/// JSON text without line breaks and lone surrogates. Line breaks between its tokens are blanks, inside
/// strings there are none; a block must fit in a line of the transcript.
pub(super) fn kept(json: &str) -> String {
    let json = mended(json);
    if json.contains(['\n', '\r']) {
        json.replace(['\n', '\r'], " ")
    } else {
        json.into_owned()
    }
}

/// JSON text in which the escape of a lone surrogate, which stands for no character and which no Rust
/// string holds, is that of U+FFFD. Source: SPEC 5.4; RFC 8259, section 8.2.
pub(super) fn mended(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let mut mended = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(before) = bytes
        .get(at..)
        .and_then(|rest| rest.iter().position(|byte| *byte == b'\\'))
    {
        let escape = at + before;
        at = match (unit(bytes, escape), unit(bytes, escape + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => escape + 12,
            (Some(0xD800..=0xDFFF), _) => {
                mended.push_str(&json[copied..escape]);
                mended.push_str("\\ufffd");
                copied = escape + 6;
                copied
            }
            // Whatever is escaped, a backslash too, begins no escape of its own.
            _ => escape + 2,
        };
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    mended.push_str(&json[copied..]);
    Cow::Owned(mended)
}

/// The code unit of an escape such as `\ud83d` at `at`.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Whether JSON text is nested deeper than [`MAX_DEPTH`] levels.
pub(super) fn is_too_deep(json: &str) -> bool {
    if !json.starts_with(['{', '[']) || json.len() <= 2 * MAX_DEPTH {
        return false;
    }
    let (mut depth, mut is_string) = (0_usize, false);
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_string = !is_string,
            b'\\' => {
                bytes.next();
            }
            _ if is_string => {}
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn lone_surrogates_are_replaced_and_nothing_else() {
        for (json, expected) in [
            (r#""a\ud800b""#, r#""a\ufffdb""#),
            (r#""\uDC00\uD800""#, r#""\ufffd\ufffd""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ud83d\n\ude00""#, r#""\ufffd\n\ufffd""#),
            (r#""\\ud800""#, r#""\\ud800""#),
            (r#""\\\ud800""#, r#""\\\ufffd""#),
            (r#""\u00e9 é \"""#, r#""\u00e9 é \"""#),
            (r#""\ud8"#, r#""\ud8"#),
            ("\"\\", "\"\\"),
            ("\"\\é\\ud800", "\"\\é\\ufffd"),
        ] {
            assert_eq!(mended(json), expected, "{json}");
        }
    }

    #[test]
    fn what_is_kept_is_one_line() {
        assert_eq!(kept("{\"a\":\r\n\"\\ud800\"}"), "{\"a\":  \"\\ufffd\"}");
    }

    #[test]
    fn brackets_count_outside_strings_alone() {
        let nested = |levels| format!("{}0{}", "[".repeat(levels), "]".repeat(levels));
        assert!(!is_too_deep(&nested(MAX_DEPTH)));
        assert!(is_too_deep(&nested(MAX_DEPTH + 1)));
        let wide = format!("[{}0]", "[],".repeat(1000));
        assert!(!is_too_deep(&wide));
        let text = format!("[\"\\\"{}\"]", "[".repeat(1000));
        assert!(!is_too_deep(&text));
        assert!(serde_json::from_str::<Value>(&nested(MAX_DEPTH)).is_ok());
    }

    proptest! {
        #[test]
        fn every_mended_string_can_be_read(
            units in proptest::collection::vec(
                prop_oneof![Just(0xD800_u16), Just(0xDBFF), Just(0xDC00), Just(0xDFFF), Just(0x41)],
                0..12,
            ),
        ) {
            let escapes: Vec<String> = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let json = format!("\"{}\"", escapes.concat());
            let read: String = serde_json::from_str(&mended(&json)).unwrap();
            prop_assert_eq!(read, String::from_utf16_lossy(&units));
        }
    }
}
