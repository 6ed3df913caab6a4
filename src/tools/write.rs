//! The Write tool.

use serde_json::{Value, json};

use crate::message::ToolSpec;
use crate::policy::{Access, Permit};
use crate::sandbox::Cancel;
use crate::workspace::{Beneath, OpenFault};

use super::session::{Knowledge, permitted_path};
use super::text_file::{self, BOM, LineEnds};
use super::{Output, Session, Tool, Touches};

/// Writes one file whole.
#[derive(Clone, Copy, Debug)]
pub struct Write;

impl Tool for Write {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "Write".into(),
            description: "Writes a file, in the place of the one that is there if there is one.\n\
                 - An existing file must have been read with Read in this conversation; to change part of it prefer Edit.\n\
                 - Missing directories are made.\n\
                 - Line ends, byte order mark and mode of an existing file are kept."
                .into(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "file_path": {
                        "type": "string",
                        "description": "The file, absolute or relative to the workspace's root",
                    },
                    "content": {
                        "type": "string",
                        "description": "The whole content",
                    },
                },
                "required": ["file_path", "content"],
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
        let content = input["content"].as_str().unwrap_or_default();
        match existing(&file, session) {
            Ok(None) => create(&file, &shown, content, session),
            Ok(Some(old)) => overwrite(&file, &shown, &old, content, session),
            Err(why) => Output::error(format!("{shown} {why}")),
        }
    }
}

/// What is there, if anything, and may be changed: a text that the model knows as it is.
pub(super) fn existing(file: &Beneath<'_>, session: &Session) -> Result<Option<Vec<u8>>, String> {
    let (open, stat) = match file.open() {
        Ok(open) => open,
        Err(OpenFault::Missing) => return Ok(None),
        Err(fault) => return Err(fault.to_string()),
    };
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let content = text_file::read_whole(open, size)
        .map_err(|error| format!("cannot be read before it is changed: {error}"))?;
    match session.knowledge(file.path(), &content) {
        Knowledge::Current => {}
        Knowledge::Unread => {
            return Err("has not been read yet; read it with Read before changing it".into());
        }
        Knowledge::Outdated => {
            return Err("has changed since it was read; read it again before changing it".into());
        }
    }
    if text_file::is_utf16(&content) || text_file::is_binary(&content) {
        return Err("is no UTF-8 text and is left as it is".into());
    }
    Ok(Some(content))
}

/// Whether text may be put into a file without mixing encodings.
pub(super) fn fits_encoding(content: &[u8], text: &str) -> Result<(), String> {
    if text.is_ascii() || std::str::from_utf8(content).is_ok() {
        Ok(())
    } else {
        Err("is not UTF-8; text that is not ASCII would mix two encodings in it".into())
    }
}

/// Puts a file where none was.
pub(super) fn create(file: &Beneath<'_>, shown: &str, content: &str, session: &Session) -> Output {
    if let Err(fault) = file.replace(content.as_bytes()) {
        return Output::error(format!("{shown} {fault}"));
    }
    session.know(file.path(), content.as_bytes());
    let lines = text_file::count_lines(content.as_bytes());
    Output::text(
        format!("created {shown} ({lines} lines)"),
        json!({"type": "create", "file_path": shown, "bytes": content.len()}),
    )
}

fn overwrite(
    file: &Beneath<'_>,
    shown: &str,
    old: &[u8],
    content: &str,
    session: &Session,
) -> Output {
    if let Err(why) = fits_encoding(old, content) {
        return Output::error(format!("{shown} {why}"));
    }
    let mut new = match LineEnds::of(old) {
        LineEnds::Crlf => text_file::to_crlf(content).into_bytes(),
        LineEnds::Lf | LineEnds::Mixed => content.as_bytes().to_owned(),
    };
    if old.starts_with(BOM) && !new.starts_with(BOM) {
        new.splice(..0, BOM.iter().copied());
    }
    replace(file, shown, old, &new, session)
}

/// Puts `new` in the place of `old` and shows the difference.
pub(super) fn replace(
    file: &Beneath<'_>,
    shown: &str,
    old: &[u8],
    new: &[u8],
    session: &Session,
) -> Output {
    if let Err(fault) = file.replace(new) {
        return Output::error(format!("{shown} {fault}"));
    }
    session.know(file.path(), new);
    let text = if old == new {
        format!("{shown} stays as it is: the new content is the old one")
    } else {
        format!("changed {shown}:\n{}", text_file::diff(old, new))
    };
    Output::text(
        text,
        json!({"type": "update", "file_path": shown, "bytes": new.len()}),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::super::session::testing::Bench;
    use super::*;

    fn write(bench: &Bench, path: &str, content: &str) -> (String, bool) {
        bench.call("Write", json!({"file_path": path, "content": content}))
    }

    fn read(bench: &Bench, path: &str) {
        let (text, is_error) = bench.call("Read", json!({"file_path": path}));
        assert!(!is_error, "{text}");
    }

    #[test]
    fn a_new_file_is_made_with_its_directories() {
        let bench = Bench::new();
        assert_eq!(
            write(&bench, "a/b/c.txt", "one\ntwo\n"),
            ("created a/b/c.txt (2 lines)".into(), false)
        );
        assert_eq!(bench.content("a/b/c.txt"), b"one\ntwo\n");
        // What was just written is known.
        assert_eq!(
            write(&bench, "a/b/c.txt", "one\nthree\n"),
            (
                "changed a/b/c.txt:\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n".into(),
                false
            )
        );
    }

    #[test]
    fn what_was_not_read_as_it_is_now_is_not_written_over() {
        let bench = Bench::new();
        bench.write("f", "old\n");
        let unread = "f has not been read yet; read it with Read before changing it";
        assert_eq!(write(&bench, "f", "new\n"), (unread.into(), true));
        read(&bench, "f");
        bench.write("f", "own\n");
        let outdated = "f has changed since it was read; read it again before changing it";
        assert_eq!(write(&bench, "f", "new\n"), (outdated.into(), true));
        assert_eq!(bench.content("f"), b"own\n");
    }

    #[test]
    fn line_ends_mark_and_mode_are_kept() {
        let bench = Bench::new();
        bench.write("f", b"\xEF\xBB\xBFa\r\nb\r\n");
        let path = bench.root.join("f");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        read(&bench, "f");
        let (text, is_error) = write(&bench, "f", "a\nc\n");
        assert!(!is_error, "{text}");
        assert_eq!(bench.content("f"), b"\xEF\xBB\xBFa\r\nc\r\n");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
    }

    #[test]
    fn encodings_are_not_mixed() {
        let bench = Bench::new();
        bench.write("f", b"caf\xE9\n");
        read(&bench, "f");
        let mixed = "f is not UTF-8; text that is not ASCII would mix two encodings in it";
        assert_eq!(write(&bench, "f", "café\n"), (mixed.into(), true));
        assert_eq!(bench.content("f"), b"caf\xE9\n");
    }

    #[test]
    fn what_is_no_file_is_not_written() {
        let bench = Bench::new();
        bench.write("d/f", "");
        assert_eq!(write(&bench, "d", "x"), ("d is a directory".into(), true));
        assert_eq!(
            write(&bench, "/dev/null", "x"),
            ("/dev/null is not a regular file".into(), true)
        );
    }

    #[test]
    fn through_a_link_the_file_it_leads_to_is_written() {
        let bench = Bench::new();
        bench.write("real", "old\n");
        symlink("real", bench.root.join("link")).unwrap();
        read(&bench, "link");
        let (text, is_error) = write(&bench, "link", "new\n");
        assert!(!is_error, "{text}");
        assert_eq!(bench.content("real"), b"new\n");
        assert!(bench.root.join("link").is_symlink());
    }
}
