//! The Edit tool.
//!
//! Works on bytes: what is not replaced stays as it is, whatever it is.

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::{Value, json};

use crate::message::ToolSpec;
use crate::policy::{Access, Permit};
use crate::sandbox::Cancel;

use super::session::permitted_path;
use super::text_file::{LineEnds, to_crlf};
use super::write::{create, existing, fits_encoding, replace};
use super::{Output, Session, Tool, Touches};

/// Replaces a text in one file.
#[derive(Clone, Copy, Debug)]
pub struct Edit;

impl Tool for Edit {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "Edit".into(),
            description: "Replaces a text in a file by another, exactly as given.\n\
                 - The file must have been read with Read in this conversation and not have changed since.\n\
                 - `old_string` must occur exactly once, blanks and all, or `replace_all` be true; give enough lines around it. The line numbers that Read shows are not part of the file.\n\
                 - An empty `old_string` makes a new file of `new_string`."
                .into(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "file_path": {
                        "type": "string",
                        "description": "The file, absolute or relative to the workspace's root",
                    },
                    "old_string": {"type": "string", "description": "The text to replace"},
                    "new_string": {"type": "string", "description": "The text in its place"},
                    "replace_all": {
                        "type": "boolean",
                        "description": "Whether to replace every occurrence; false by default",
                    },
                },
                "required": ["file_path", "old_string", "new_string"],
                "additionalProperties": false,
            }),
        }
    }

    fn touches(&self, input: &Value) -> Touches {
        Touches::file(input, Access::Write)
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn run(&self, permit: &Permit, input: &Value, session: &Session, _cancel: &Cancel) -> Output {
        let path = permitted_path(permit);
        let shown = session.workspace().shown(&path.written);
        let file = session.workspace().beneath(&path.real);
        let old = input["old_string"].as_str().unwrap_or_default();
        let new = input["new_string"].as_str().unwrap_or_default();
        let replace_all = input["replace_all"].as_bool().unwrap_or_default();
        if old == new {
            return Output::error("old_string and new_string are the same: nothing to change");
        }
        let content = match existing(&file, session) {
            Ok(None) if old.is_empty() => return create(&file, &shown, new, session),
            Ok(None) => return Output::error(format!("{shown} does not exist")),
            Ok(Some(content)) => content,
            Err(why) => return Output::error(format!("{shown} {why}")),
        };
        match edited(&content, old, new, replace_all) {
            Ok(edited) => replace(&file, &shown, &content, &edited, session),
            Err(why) => Output::error(format!("{shown} {why}")),
        }
    }
}

/// `content` with `old` replaced; where it cannot be, why, to be read behind the file's name.
fn edited(content: &[u8], old: &str, new: &str, replace_all: bool) -> Result<Vec<u8>, String> {
    if old.is_empty() {
        return match content {
            [] => Ok(new.as_bytes().to_owned()),
            _ => Err("exists and is not empty: old_string must not be empty".into()),
        };
    }
    fits_encoding(content, new)?;
    // A model writes LF whatever the file has. What it wrote is looked for with CR LF first, so that a
    // match never begins between the two.
    let crlf = (to_crlf(old), to_crlf(new));
    let all_crlf = LineEnds::of(content) == LineEnds::Crlf;
    let lf_replacement = if all_crlf { &*crlf.1 } else { new };
    let finder = AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .build([crlf.0.as_str(), old])
        .map_err(|error| format!("cannot be searched: {error}"))?;

    let mut edited = Vec::with_capacity(content.len() + new.len());
    let mut count = 0;
    let mut done = 0;
    for found in finder.find_iter(content) {
        let is_crlf = found.pattern().as_usize() == 0 && crlf.0 != old;
        edited.extend_from_slice(&content[done..found.start()]);
        let replacement = if is_crlf { &crlf.1 } else { lf_replacement };
        edited.extend_from_slice(replacement.as_bytes());
        done = found.end();
        count += 1;
    }
    edited.extend_from_slice(&content[done..]);
    match count {
        0 => Err(format!(
            "does not contain old_string, which must be exactly as in the file:\n{old}"
        )),
        1 => Ok(edited),
        _ if replace_all => Ok(edited),
        count => Err(format!(
            "contains old_string {count} times; give more lines around it, or set replace_all:\n{old}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::session::testing::Bench;
    use super::*;

    fn edit_of(content: &[u8], old: &str, new: &str) -> (Vec<u8>, String, bool) {
        let bench = Bench::new();
        bench.write("f", content);
        bench.call("Read", json!({"file_path": "f"}));
        let input = json!({"file_path": "f", "old_string": old, "new_string": new});
        let (text, is_error) = bench.call("Edit", input);
        (bench.content("f"), text, is_error)
    }

    #[test]
    fn one_place_is_changed_and_shown() {
        assert_eq!(
            edit_of(b"a\nb\nc\n", "b", "B"),
            (
                b"a\nB\nc\n".to_vec(),
                "changed f:\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n".into(),
                false
            )
        );
    }

    #[test]
    fn what_is_missing_doubled_or_the_same_changes_nothing() {
        for (old, new, expected) in [
            (
                "x",
                "y",
                "f does not contain old_string, which must be exactly as in the file:\nx",
            ),
            (
                "a",
                "b",
                "f contains old_string 2 times; give more lines around it, or set replace_all:\na",
            ),
            (
                "a",
                "a",
                "old_string and new_string are the same: nothing to change",
            ),
            (
                "",
                "a",
                "f exists and is not empty: old_string must not be empty",
            ),
        ] {
            let expected = (b"a\na\n".to_vec(), expected.to_owned(), true);
            assert_eq!(edit_of(b"a\na\n", old, new), expected, "{old:?}");
        }
    }

    #[test]
    fn a_file_must_have_been_read_and_be_as_it_was() {
        let bench = Bench::new();
        bench.write("f", "a\n");
        let edit = || {
            bench.call(
                "Edit",
                json!({"file_path": "f", "old_string": "a", "new_string": "b"}),
            )
        };
        let unread = "f has not been read yet; read it with Read before changing it";
        assert_eq!(edit(), (unread.into(), true));
        bench.call("Read", json!({"file_path": "f"}));
        bench.write("f", "aa\n");
        let outdated = "f has changed since it was read; read it again before changing it";
        assert_eq!(edit(), (outdated.into(), true));
        let missing = json!({"file_path": "g", "old_string": "a", "new_string": "b"});
        assert_eq!(
            bench.call("Edit", missing),
            ("g does not exist".into(), true)
        );
    }

    #[test]
    fn an_empty_old_string_makes_a_new_file() {
        let bench = Bench::new();
        let input = json!({"file_path": "f", "old_string": "", "new_string": "a\n"});
        let created = ("created f (1 lines)".into(), false);
        assert_eq!(bench.call("Edit", input), created);
        assert_eq!(bench.content("f"), b"a\n");
    }

    #[test]
    fn g38_bytes_that_are_no_text_stay() {
        let content = include_bytes!("../../fixtures/files/latin1.txt");
        let (edited, text, is_error) = edit_of(content, "const x = 1;", "const x = 2;");
        let mut expected = content.to_vec();
        expected[10] = b'2';
        assert_eq!((edited, is_error), (expected, false), "{text}");
    }

    #[test]
    fn g39_line_ends_stay() {
        let content = include_bytes!("../../fixtures/files/crlf.ts");
        let (edited, text, is_error) = edit_of(
            content,
            "const a = 1;\nconst b = 2;",
            "const a = 1;\nconst b = 3;",
        );
        let expected = b"const a = 1;\r\nconst b = 3;\r\nconst c = 3;\r\n";
        assert_eq!((&edited[..], is_error), (&expected[..], false), "{text}");
    }

    #[test]
    fn lines_are_matched_and_added_with_the_ends_they_have_around_them() {
        for (content, old, new, expected) in [
            ("a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n"),
            ("a\r\nb\r\n", "\nb", "\nc", "a\r\nc\r\n"),
            ("a\r\nb\nc\r\n", "b\nc", "B\nC", "a\r\nB\nC\r\n"),
            ("a\r\nb\nc\r\n", "a\nb", "A\nB", "A\r\nB\nc\r\n"),
            ("a\nb\n", "a\nb", "A\nB", "A\nB\n"),
            ("a\r\nb\r\n", "a\r\nb", "A\r\nB", "A\r\nB\r\n"),
        ] {
            let (edited, text, _) = edit_of(content.as_bytes(), old, new);
            assert_eq!(String::from_utf8(edited).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn g40_the_replacement_is_literal() {
        let new = r#"log("$& $1 $$ ${x} \\1");"#;
        let old = r#"log("done");"#;
        let (edited, text, _) = edit_of(format!("{old}\n").as_bytes(), old, new);
        assert_eq!(edited, format!("{new}\n").as_bytes(), "{text}");

        let bench = Bench::new();
        bench.write("f", format!("{old}\n{old}\n"));
        bench.call("Read", json!({"file_path": "f"}));
        let input =
            json!({"file_path": "f", "old_string": old, "new_string": new, "replace_all": "true"});
        assert!(!bench.call("Edit", input).1);
        assert_eq!(bench.content("f"), format!("{new}\n{new}\n").as_bytes());
    }

    proptest! {
        #[test]
        fn whatever_is_around_the_place_stays(
            before in prop::collection::vec(0_u8..=255, 0..40),
            after in prop::collection::vec(0_u8..=255, 0..40),
            new in "[ -~]{0,8}",
        ) {
            let around = |middle: &str| [&before[..], middle.as_bytes(), &after].concat();
            // Neither part holds it, nor do they make one more across the seams.
            let content = around("<place>");
            let places = content.windows(7).filter(|window| *window == b"<place>").count();
            prop_assume!(places == 1);
            prop_assert_eq!(edited(&content, "<place>", &new, false), Ok(around(&new)));
        }
    }
}
