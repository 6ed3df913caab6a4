//! What Grep tells of what it found.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;

use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use serde_json::{Value, json};

use super::Output;

/// Lines told unless the model asks for another number.
pub(super) const DEFAULT_LINES: u64 = 250;

/// What is shown of a line, in characters: minified files have one.
const MAX_LINE_CHARS: usize = 500;

/// A search ends when it has found this much, in bytes, whatever number of lines was asked for.
const MAX_FOUND_BYTES: usize = 2 * 1024 * 1024;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The lines, with or without their numbers.
    Content { numbered: bool },
    /// The paths of files in which something matches.
    Files,
    /// How many lines match in each file.
    Count,
}

impl Mode {
    pub(super) fn of(input: &Value) -> Self {
        match input["output_mode"].as_str() {
            Some("content") => Self::Content {
                numbered: input["-n"].as_bool().unwrap_or(true),
            },
            Some("count") => Self::Count,
            _ => Self::Files,
        }
    }
}

/// What is told of one file.
#[derive(Default)]
pub(super) struct FileLines {
    pub(super) matches: u64,
    lines: Vec<String>,
    pub(super) is_not_utf8: bool,
}

/// Takes in what the searcher finds in one file.
pub(super) struct FileSink<'a> {
    mode: Mode,
    has_context: bool,
    shown: &'a str,
    pub(super) lines: FileLines,
    bytes: usize,
    is_binary: bool,
}

impl<'a> FileSink<'a> {
    pub(super) fn new(mode: Mode, has_context: bool, shown: &'a str) -> Self {
        Self {
            mode,
            has_context,
            shown,
            lines: FileLines::default(),
            bytes: 0,
            is_binary: false,
        }
    }

    /// `None` when nothing matched or the file is binary.
    pub(super) fn finish(self) -> Option<FileLines> {
        let is_found = self.lines.matches > 0 && !self.is_binary;
        is_found.then_some(self.lines)
    }

    /// One line; `mark` is `:` for a match and `-` for what is around it.
    fn push(&mut self, number: Option<u64>, mark: char, line: &[u8], numbered: bool) {
        let line = cut(line);
        let line = match number {
            Some(number) if numbered => format!("{}{mark}{number}{mark}{line}", self.shown),
            _ => format!("{}{mark}{line}", self.shown),
        };
        self.bytes += line.len();
        self.lines.lines.push(line);
    }
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let Mode::Content { numbered } = self.mode else {
            self.lines.matches += 1;
            return Ok(self.mode == Mode::Count);
        };
        for (index, line) in found.lines().enumerate() {
            self.lines.matches += 1;
            let number = found.line_number().map(|number| number + index as u64);
            self.push(number, ':', line, numbered);
        }
        Ok(self.bytes < MAX_FOUND_BYTES)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        if let Mode::Content { numbered } = self.mode {
            self.push(context.line_number(), '-', context.bytes(), numbered);
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if self.has_context {
            self.lines.lines.push("--".into());
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.is_binary = true;
        Ok(false)
    }
}

/// A line as it is shown.
fn cut(line: &[u8]) -> Cow<'_, str> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = String::from_utf8_lossy(line);
    match line.char_indices().nth(MAX_LINE_CHARS) {
        None => line,
        Some((end, _)) => {
            let more = line.len() - end;
            Cow::Owned(format!(
                "{} [… {more} more bytes in this line]",
                &line[..end]
            ))
        }
    }
}

/// What is told of all files.
pub(super) struct Results {
    mode: Mode,
    has_context: bool,
    /// So many lines are passed over.
    offset: usize,
    /// `None`: all of them.
    limit: Option<usize>,
    lines: Vec<String>,
    bytes: usize,
    files: u64,
    matches: u64,
    not_utf8: Vec<String>,
}

impl Results {
    pub(super) fn new(input: &Value) -> Self {
        let limit = input["head_limit"].as_u64().unwrap_or(DEFAULT_LINES);
        let offset = input["offset"].as_u64().unwrap_or(0);
        let context = ["-A", "-B", "-C", "context"];
        Self {
            mode: Mode::of(input),
            has_context: context
                .iter()
                .any(|key| input[*key].as_u64().unwrap_or(0) > 0),
            offset: usize::try_from(offset).unwrap_or(usize::MAX),
            limit: usize::try_from(limit).ok().filter(|limit| *limit > 0),
            lines: Vec::new(),
            bytes: 0,
            files: 0,
            matches: 0,
            not_utf8: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, shown: String, found: FileLines) {
        self.files += 1;
        self.matches += found.matches;
        let before = self.lines.len();
        if found.is_not_utf8 {
            self.not_utf8.push(shown.clone());
        }
        match self.mode {
            Mode::Files => self.lines.push(shown),
            Mode::Count => self.lines.push(format!("{shown}:{}", found.matches)),
            Mode::Content { .. } => {
                if self.has_context && !self.lines.is_empty() {
                    self.lines.push("--".into());
                }
                self.lines.extend(found.lines);
            }
        }
        self.bytes += self.lines[before..].iter().map(String::len).sum::<usize>();
    }

    /// Whether there is more than will be told.
    pub(super) fn is_full(&self) -> bool {
        let last = self.limit.map(|limit| limit.saturating_add(self.offset));
        last.is_some_and(|last| self.lines.len() > last) || self.bytes >= MAX_FOUND_BYTES
    }

    pub(super) fn output(mut self) -> Output {
        let nothing = match self.mode {
            Mode::Files => "No files found",
            Mode::Content { .. } | Mode::Count => "No matches found",
        };
        if self.lines.is_empty() {
            return Output::text(nothing, json!({"num_files": 0, "num_matches": 0}));
        }
        let is_cut = self.is_full();
        if self.offset >= self.lines.len() {
            let found = self.lines.len();
            let text = format!("No lines at offset {}: there are {found}", self.offset);
            return Output::text(
                text,
                json!({"num_files": self.files, "num_matches": self.matches}),
            );
        }
        self.lines.drain(..self.offset);
        if let Some(limit) = self.limit {
            self.lines.truncate(limit);
        }
        let mut text = self.lines.join("\n");
        if is_cut {
            let told = self.lines.len();
            let from = match self.offset {
                0 => String::new(),
                offset => format!(" from offset {offset}"),
            };
            let _ = write!(
                text,
                "\n\n(the first {told} lines{from}; there are more: search more narrowly, or set head_limit or offset)"
            );
        }
        if !self.not_utf8.is_empty() && matches!(self.mode, Mode::Content { .. }) {
            let _ = write!(
                text,
                "\n\n(not UTF-8, bytes that are no text are shown as \u{FFFD}: {})",
                self.not_utf8.join(", ")
            );
        }
        let structured = json!({
            "num_files": self.files,
            "num_matches": self.matches,
            "is_cut": is_cut,
        });
        Output::text(text, structured)
    }
}
