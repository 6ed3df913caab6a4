//! The Read tool.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Seek as _};

use serde_json::{Value, json};
use similar::get_close_matches;

use crate::message::ToolSpec;
use crate::policy::{Access, Permit, Resolved};
use crate::sandbox::Cancel;
use crate::workspace::OpenFault;

use super::session::permitted_path;
use super::text_file::{self, BOM, MAX_BYTES};
use super::{Output, Session, Tool, Touches, image};

/// Lines shown unless the model asks for fewer or more.
const DEFAULT_LINES: u64 = 2000;

/// What is shown of a line, in characters.
const MAX_LINE_CHARS: usize = 2000;

/// What is read of a line at most: its characters may have four bytes each.
const MAX_LINE_BYTES: u64 = 4 * MAX_LINE_CHARS as u64;

/// A window ends with the line that reaches this many bytes. A source file of 64 KiB is read whole; what
/// is larger is read in pieces, so nothing of it need be copied to where results are saved.
const MAX_WINDOW_BYTES: usize = 100_000;

/// Names told when a file is missing.
const NEAR_NAMES: usize = 3;

/// How alike a name must be to be told; 1 is equal.
const LIKENESS: f32 = 0.6;

/// Reads one file: text as numbered lines, pictures as pictures.
#[derive(Clone, Copy, Debug)]
pub struct Read;

impl Tool for Read {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "Read".into(),
            description: format!(
                "Reads a file.\n\
                 - Shows up to {DEFAULT_LINES} lines from the start; for longer files give `offset` and `limit`.\n\
                 - Lines are numbered from 1, the number and a tab before each; lines over {MAX_LINE_CHARS} characters are cut.\n\
                 - PNG, JPEG, GIF and WebP files are shown as pictures; other binary files cannot be read.\n\
                 - Directories cannot be read: use Glob.\n\
                 - A file must have been read before Edit or Write may change it."
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "file_path": {
                        "type": "string",
                        "description": "The file, absolute or relative to the workspace's root",
                    },
                    "offset": {
                        "type": "integer",
                        "minimum": 0,
                        "description": "The first line to show, from 1",
                    },
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "How many lines to show",
                    },
                },
                "required": ["file_path"],
                "additionalProperties": false,
            }),
        }
    }

    fn touches(&self, input: &Value) -> Touches {
        Touches::file(input, Access::Read)
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn max_result_chars(&self) -> usize {
        // The window and what is said beside it.
        MAX_WINDOW_BYTES + 2 * MAX_LINE_BYTES as usize
    }

    fn run(&self, permit: &Permit, input: &Value, session: &Session, _cancel: &Cancel) -> Output {
        let path = permitted_path(permit);
        let shown = session.workspace().shown(&path.written);
        let (file, size) = match session.workspace().beneath(&path.real).open() {
            Ok((file, stat)) => (file, u64::try_from(stat.st_size).unwrap_or(0)),
            Err(OpenFault::Missing) => return missing(&shown, path, permit, session),
            Err(OpenFault::IsDirectory) => {
                return Output::error(format!("{shown} is a directory; Glob lists what is in it"));
            }
            Err(fault) => return Output::error(format!("{shown} {fault}")),
        };
        // Line 0 is asked for by those who count from there.
        let offset = input["offset"].as_u64().unwrap_or(1).max(1);
        let limit = input["limit"].as_u64().unwrap_or(DEFAULT_LINES);
        let output = if size > MAX_BYTES {
            read_large(&shown, file, offset, limit)
        } else {
            text_file::read_whole(file, size).map(|content| {
                if let Some(media_type) = image::media_type(&content) {
                    return image::output(&shown, media_type, &content);
                }
                session.know(&path.real, &content);
                show(&shown, &content, offset, limit)
            })
        };
        output.unwrap_or_else(|error| Output::error(format!("{shown} cannot be read: {error}")))
    }
}

/// What is not there, what is, and is called alike, as far as the rules let it be seen.
fn missing(shown: &str, path: &Resolved, permit: &Permit, session: &Session) -> Output {
    let mut text = format!("{shown} does not exist");
    if let (Some(name), Some(written), Some(real)) = (
        path.real.file_name().and_then(|name| name.to_str()),
        path.written.parent(),
        path.real.parent(),
    ) {
        let Ok(names) = session.workspace().beneath(real).names() else {
            return Output::error(format!("{text}, nor does its directory"));
        };
        let names: Vec<&str> = names.iter().filter_map(|name| name.to_str()).collect();
        let near = get_close_matches(name, &names, NEAR_NAMES, LIKENESS);
        let near: Vec<String> = near
            .into_iter()
            .filter(|near| {
                permit.may_see(&Resolved {
                    written: written.join(near),
                    real: real.join(near),
                })
            })
            .map(|near| session.workspace().shown(&written.join(near)))
            .collect();
        if !near.is_empty() {
            let _ = write!(text, "; there is {}", near.join(", "));
        }
    }
    Output::error(text)
}

fn show(shown: &str, content: &[u8], offset: u64, limit: u64) -> Output {
    if content.is_empty() {
        return Output::text(
            format!("({shown} is empty)"),
            json!({"file_path": shown, "start_line": 1, "num_lines": 0, "total_lines": 0}),
        );
    }
    if let Some(kind) = unreadable(content) {
        return Output::error(format!("{shown} is {kind} ({} bytes)", content.len()));
    }
    let text = content.strip_prefix(BOM).unwrap_or(content);
    match window(text, offset, limit) {
        Ok(window) => window.output(shown, Some(text_file::count_lines(text)), offset),
        Err(error) => Output::error(format!("{shown} cannot be read: {error}")),
    }
}

/// What cannot be shown as text.
fn unreadable(content: &[u8]) -> Option<&'static str> {
    if text_file::is_utf16(content) {
        Some("UTF-16 text, which cannot be read here")
    } else if text_file::is_binary(content) {
        Some("a binary file")
    } else {
        None
    }
}

/// A file too large to hold: read up to the end of the window only.
fn read_large(shown: &str, mut file: File, offset: u64, limit: u64) -> io::Result<Output> {
    let mut start = Vec::new();
    (&mut file).take(8000).read_to_end(&mut start)?;
    if let Some(kind) = unreadable(&start) {
        return Ok(Output::error(format!("{shown} is {kind}")));
    }
    file.rewind()?;
    let window = window(BufReader::new(file), offset, limit)?;
    Ok(window.output(shown, None, offset))
}

/// Some lines of a text.
struct Window {
    /// Numbered lines.
    text: String,
    lines: u64,
    /// Lines before it, which is all when the text ended there.
    before: u64,
    has_more: bool,
    has_other_bytes: bool,
}

fn window(mut text: impl BufRead, offset: u64, limit: u64) -> io::Result<Window> {
    let mut window = Window {
        text: String::new(),
        lines: 0,
        before: 0,
        has_more: false,
        has_other_bytes: false,
    };
    while window.before < offset - 1 && text.skip_until(b'\n')? > 0 {
        window.before += 1;
    }
    let mut line = Vec::new();
    while window.lines < limit && window.text.len() < MAX_WINDOW_BYTES {
        line.clear();
        (&mut text)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)?;
        if line.is_empty() {
            break;
        }
        let mut left_out = 0;
        if line.last() != Some(&b'\n') {
            left_out = text.skip_until(b'\n')?;
        }
        window.push(&line, left_out);
    }
    window.has_more = !text.fill_buf()?.is_empty();
    Ok(window)
}

impl Window {
    /// One line; of it `left_out` bytes are not in `line`.
    fn push(&mut self, line: &[u8], mut left_out: usize) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = String::from_utf8_lossy(line);
        // A character that was cut in two does not count.
        self.has_other_bytes |= matches!(line, std::borrow::Cow::Owned(_)) && left_out == 0;
        let mut shown = &*line;
        if line.len() > MAX_LINE_CHARS
            && let Some((end, _)) = line.char_indices().nth(MAX_LINE_CHARS)
        {
            shown = &line[..end];
            left_out += line.len() - end;
        }
        if self.lines > 0 {
            self.text.push('\n');
        }
        self.lines += 1;
        let number = self.before + self.lines;
        let _ = write!(self.text, "{number:>6}\t{shown}");
        if left_out > 0 {
            let _ = write!(self.text, " [… {left_out} more bytes in this line]");
        }
    }

    fn output(mut self, shown: &str, total: Option<u64>, offset: u64) -> Output {
        if self.lines == 0 {
            return Output::error(format!(
                "{shown} has {} lines; line {offset} is past its end",
                self.before
            ));
        }
        if self.has_more {
            let last = self.before + self.lines;
            let of = total
                .map(|total| format!(" of {total}"))
                .unwrap_or_default();
            let _ = write!(
                self.text,
                "\n\n(lines {} to {last}{of}; for more set offset to {})",
                self.before + 1,
                last + 1
            );
        }
        if self.has_other_bytes {
            let _ = write!(
                self.text,
                "\n\n({shown} is not UTF-8: bytes that are no text are shown as \u{FFFD}; Edit leaves them as they are)"
            );
        }
        let structured = json!({
            "file_path": shown,
            "start_line": self.before + 1,
            "num_lines": self.lines,
            "total_lines": total,
        });
        Output::text(self.text, structured)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::session::testing::Bench;
    use super::*;

    fn read(bench: &Bench, path: &str) -> (String, bool) {
        bench.call("Read", json!({"file_path": path}))
    }

    #[test]
    fn lines_are_numbered() {
        let bench = Bench::new();
        bench.write("a.txt", "one\r\n\n\tthree");
        let expected = "     1\tone\n     2\t\n     3\t\tthree";
        assert_eq!(read(&bench, "a.txt"), (expected.into(), false));
        let absolute = bench.root.join("a.txt");
        assert_eq!(
            bench.run(
                "Read",
                json!({"file_path": absolute, "offset": 2, "limit": "1"})
            ),
            Output::text(
                "     2\t\n\n(lines 2 to 2 of 3; for more set offset to 3)",
                json!({"file_path": "a.txt", "start_line": 2, "num_lines": 1, "total_lines": 3})
            )
        );
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let bench = Bench::new();
        bench.write("src/parser.rs", "x\n");
        bench.write("empty", "");
        bench.write("binary", b"\x7FELF\0\x01");
        bench.write("wide", b"\xFF\xFEa\0");
        bench.write("bom", b"\xEF\xBB\xBFx\n");
        for (path, expected, is_error) in [
            ("src", "src is a directory; Glob lists what is in it", true),
            (
                "src/parse.rs",
                "src/parse.rs does not exist; there is src/parser.rs",
                true,
            ),
            ("src/zzz", "src/zzz does not exist", true),
            ("no/x", "no/x does not exist, nor does its directory", true),
            ("empty", "(empty is empty)", false),
            ("binary", "binary is a binary file (6 bytes)", true),
            (
                "wide",
                "wide is UTF-16 text, which cannot be read here (4 bytes)",
                true,
            ),
            ("bom", "     1\tx", false),
        ] {
            assert_eq!(read(&bench, path), (expected.into(), is_error), "{path}");
        }
        assert_eq!(
            bench.call("Read", json!({"file_path": "src/parser.rs", "offset": 3})),
            (
                "src/parser.rs has 1 lines; line 3 is past its end".into(),
                true
            )
        );
    }

    #[test]
    fn g38_a_file_that_is_not_utf8_says_so() {
        let bench = Bench::new();
        bench.write(
            "latin1.txt",
            include_bytes!("../../fixtures/files/latin1.txt"),
        );
        let expected = "     1\tconst x = 1;\n     2\t// caf\u{FFFD} na\u{FFFD}ve \u{FFFD}\n     3\tconst y = 2;\n\n\
             (latin1.txt is not UTF-8: bytes that are no text are shown as \u{FFFD}; Edit leaves them as they are)";
        assert_eq!(read(&bench, "latin1.txt"), (expected.into(), false));
    }

    #[test]
    fn g41_pipes_and_devices_are_refused_at_once() {
        let bench = Bench::new();
        bench.write("run/x", "");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            bench.root.join("run/pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        for path in ["run/pipe", "/dev/zero", "/proc/self/environ"] {
            let expected = format!("{path} is not a regular file");
            assert_eq!(read(&bench, path), (expected, true));
        }
    }

    #[test]
    fn long_lines_and_long_files_are_cut() {
        let bench = Bench::new();
        bench.write(
            "wide",
            format!("{}\n{}", "ä".repeat(2_001), "x".repeat(9_000)),
        );
        let expected = format!(
            "     1\t{} [… 2 more bytes in this line]\n     2\t{} [… 7000 more bytes in this line]",
            "ä".repeat(2_000),
            "x".repeat(2_000)
        );
        assert_eq!(read(&bench, "wide"), (expected, false));

        bench.write("long", "x\n".repeat(5_000));
        let (text, _) = read(&bench, "long");
        assert!(
            text.ends_with("  2000\tx\n\n(lines 1 to 2000 of 5000; for more set offset to 2001)")
        );

        bench.write("big", format!("{}\n", "y".repeat(1_000)).repeat(500));
        let (text, _) = read(&bench, "big");
        let end = "\n\n(lines 1 to 100 of 500; for more set offset to 101)";
        assert!(text.ends_with(end), "{}", &text[text.len() - 100..]);
    }

    #[test]
    fn a_file_of_64_kib_is_read_whole() {
        let bench = Bench::new();
        bench.write("f", format!("{}\n", "z".repeat(63)).repeat(1024));
        let (text, _) = read(&bench, "f");
        assert!(text.lines().count() == 1024 && text.ends_with('z'));
    }

    #[test]
    fn a_file_too_large_to_hold_is_read_in_pieces() {
        let bench = Bench::new();
        let file = File::create(bench.root.join("huge")).unwrap();
        file.set_len(MAX_BYTES + 1).unwrap();
        drop(file);
        assert_eq!(read(&bench, "huge"), ("huge is a binary file".into(), true));
        let lines = "0123456789abcde\n".repeat(usize::try_from(MAX_BYTES).unwrap() / 16 + 1);
        bench.write("huge", lines);
        assert_eq!(
            bench.call("Read", json!({"file_path": "huge", "offset": 1_000_000, "limit": 1})),
            (
                "1000000\t0123456789abcde\n\n(lines 1000000 to 1000000; for more set offset to 1000001)".into(),
                false
            )
        );
    }

    #[test]
    fn a_link_is_read_where_it_led_when_it_was_judged() {
        let bench = Bench::new();
        bench.write("real.txt", "here\n");
        symlink("real.txt", bench.root.join("link")).unwrap();
        assert_eq!(read(&bench, "link"), ("     1\there".into(), false));
    }
}
