//! The Grep tool.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::ControlFlow;

use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use ignore::types::{Types, TypesBuilder};
use serde_json::{Value, json};

use crate::message::ToolSpec;
use crate::policy::{Access, Permit};
use crate::sandbox::Cancel;

use super::grep_output::{DEFAULT_LINES, FileLines, FileSink, Mode, Results};
use super::search::Found;
use super::session::permitted_path;
use super::{Output, Session, Tool, Touches, search};

/// Up to this size a file is held in memory, in bytes, and it is said when it is not UTF-8.
const MAX_HELD_BYTES: u64 = 8 * 1024 * 1024;

/// Searches in files.
#[derive(Clone, Copy, Debug)]
pub struct Grep;

impl Tool for Grep {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "Grep".into(),
            description: format!(
                "Searches files for a regular expression, as ripgrep does.\n\
                 - The syntax is that of ripgrep: braces that are meant literally need a backslash (`interface\\{{\\}}`).\n\
                 - Narrow it with `path`, `glob` or `type`.\n\
                 - `output_mode`: `files_with_matches` (default) tells paths, `content` lines, `count` how many lines match in each file.\n\
                 - `multiline: true` lets a match go over line ends and `.` match them.\n\
                 - What .gitignore ignores is left out, and so are binary files. The first {DEFAULT_LINES} lines are told; see `head_limit`."
            ),
            input_schema: schema(),
        }
    }

    fn touches(&self, input: &Value) -> Touches {
        let path = input["path"].as_str().filter(|path| !path.is_empty());
        Touches::Path {
            path: path.unwrap_or(".").to_owned(),
            access: Access::Search,
        }
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn run(&self, permit: &Permit, input: &Value, session: &Session, cancel: &Cancel) -> Output {
        let search = match Search::new(input) {
            Ok(search) => search,
            Err(why) => return Output::error(why),
        };
        let mut results = Results::new(input);
        let mut searcher = search.searcher();
        let mut held = Vec::new();
        let walked = search::walk(permit, session, cancel, search.types.clone(), |found| {
            if found.is_link || !search.globs.iter().all(|glob| glob.lets_in(&found)) {
                return ControlFlow::Continue(());
            }
            // What is gone or cannot be opened holds nothing to show.
            let Ok((file, stat)) = session.workspace().beneath(&found.real).open() else {
                return ControlFlow::Continue(());
            };
            let size = u64::try_from(stat.st_size).unwrap_or(0);
            let lines = search.in_file(&mut searcher, file, size, &found.shown, &mut held);
            if let Ok(Some(lines)) = lines {
                results.add(found.shown, lines);
            }
            if results.is_full() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        if let Err(why) = walked {
            let shown = session.workspace().shown(&permitted_path(permit).written);
            return Output::error(format!("{shown} {why}"));
        }
        results.output()
    }
}

fn schema() -> Value {
    let lines =
        |description: &str| json!({"type": "integer", "minimum": 0, "description": description});
    let flag = |description: &str| json!({"type": "boolean", "description": description});
    json!({
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "description": "The regular expression"},
            "path": {
                "type": "string",
                "description": "The file or directory to search; the workspace's root by default",
            },
            "glob": {
                "type": "string",
                "description": "Only files that match, such as `*.js` or `src/**/*.{ts,tsx}`; with `!` before it only others",
            },
            "type": {"type": "string", "description": "Only files of this type, such as `rust`, `js`, `py`"},
            "output_mode": {
                "type": "string",
                "enum": ["content", "files_with_matches", "count"],
                "description": "What to tell; `files_with_matches` by default",
            },
            "-A": lines("Lines to show after each match, with `content`"),
            "-B": lines("Lines to show before each match, with `content`"),
            "-C": lines("Lines to show before and after each match, with `content`"),
            "context": lines("The same as `-C`"),
            "-n": flag("Whether to show line numbers, with `content`; true by default"),
            "-i": flag("Whether case does not matter"),
            "multiline": flag("Whether a match may go over line ends; false by default"),
            "head_limit": lines("How many lines to tell; 0 for as many as there are"),
            "offset": lines("How many lines to pass over first"),
        },
        "required": ["pattern"],
        "additionalProperties": false,
    })
}

/// What is searched for, and where.
struct Search {
    matcher: RegexMatcher,
    mode: Mode,
    multiline: bool,
    before: usize,
    after: usize,
    types: Option<Types>,
    globs: Vec<Glob>,
}

struct Glob {
    matcher: GlobMatcher,
    is_negated: bool,
}

impl Glob {
    fn lets_in(&self, found: &Found) -> bool {
        self.matcher.is_match(&found.relative) != self.is_negated
    }
}

impl Search {
    fn new(input: &Value) -> Result<Self, String> {
        let multiline = input["multiline"].as_bool().unwrap_or_default();
        let around = input["-C"].as_u64().or(input["context"].as_u64());
        let lines = |key: &str| input[key].as_u64().or(around);
        let lines = |key: &str| usize::try_from(lines(key).unwrap_or(0)).unwrap_or(usize::MAX);
        let glob = input["glob"].as_str().filter(|glob| !glob.is_empty());
        Ok(Self {
            matcher: regex(input, multiline)?,
            mode: Mode::of(input),
            multiline,
            before: lines("-B"),
            after: lines("-A"),
            types: input["type"]
                .as_str()
                .filter(|name| !name.is_empty())
                .map(types)
                .transpose()?,
            globs: glob.into_iter().map(parse_glob).collect::<Result<_, _>>()?,
        })
    }

    fn searcher(&self) -> Searcher {
        let mut builder = SearcherBuilder::new();
        builder
            .binary_detection(BinaryDetection::quit(0))
            .memory_map(MmapChoice::never())
            .multi_line(self.multiline);
        if matches!(self.mode, Mode::Content { .. }) {
            builder
                .before_context(self.before)
                .after_context(self.after);
        }
        builder.build()
    }

    /// What is told of one file; `None` when nothing matches in it or it is binary. `held` is room that
    /// is used again for each file.
    fn in_file(
        &self,
        searcher: &mut Searcher,
        mut file: File,
        size: u64,
        shown: &str,
        held: &mut Vec<u8>,
    ) -> io::Result<Option<FileLines>> {
        let has_context = self.before > 0 || self.after > 0;
        let mut sink = FileSink::new(self.mode, has_context, shown);
        if size <= MAX_HELD_BYTES {
            held.clear();
            (&mut file).take(MAX_HELD_BYTES).read_to_end(held)?;
            searcher.search_slice(&self.matcher, held, &mut sink)?;
            let is_text = || std::str::from_utf8(held).is_ok();
            sink.lines.is_not_utf8 = sink.lines.matches > 0 && !is_text();
        } else {
            searcher.search_file(&self.matcher, &file, &mut sink)?;
        }
        Ok(sink.finish())
    }
}

fn regex(input: &Value, multiline: bool) -> Result<RegexMatcher, String> {
    let pattern = input["pattern"].as_str().unwrap_or_default();
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(input["-i"].as_bool().unwrap_or_default())
        .multi_line(true)
        .dot_matches_new_line(multiline);
    if !multiline {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(pattern).map_err(|error| {
        let hint = if multiline || !pattern.contains("\\n") {
            ""
        } else {
            "\n(a pattern over line ends needs multiline: true)"
        };
        format!("{pattern} is not a valid regular expression: {error}{hint}")
    })
}

fn types(name: &str) -> Result<Types, String> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    builder.select(name);
    builder
        .build()
        .map_err(|_| format!("{name} is not a file type that is known; use glob instead"))
}

fn parse_glob(glob: &str) -> Result<Glob, String> {
    let (glob, is_negated) = match glob.strip_prefix('!') {
        Some(glob) => (glob, true),
        None => (glob, false),
    };
    Ok(Glob {
        matcher: search::matcher(glob)?,
        is_negated,
    })
}

#[cfg(test)]
mod tests {
    use super::super::session::testing::Bench;
    use super::*;

    fn tree() -> Bench {
        let bench = Bench::new();
        bench.write("a.rs", "fn one() {}\nlet x = 1;\nfn two() {}\nend\n");
        bench.write("b.txt", "--pdf-engine\r\nFn -77\n");
        bench.write("sub/c.rs", "// fn\n");
        bench.write(".gitignore", "ignored\n");
        bench.write("ignored/d.rs", "fn\n");
        bench.write("binary", b"fn\n\0\n");
        bench
    }

    #[test]
    fn the_three_modes_tell_files_lines_and_counts() {
        let bench = tree();
        for (input, expected) in [
            (json!({"pattern": "fn"}), "a.rs\nsub/c.rs"),
            (
                json!({"pattern": "fn", "output_mode": "count"}),
                "a.rs:2\nsub/c.rs:1",
            ),
            (
                json!({"pattern": "fn", "output_mode": "content"}),
                "a.rs:1:fn one() {}\na.rs:3:fn two() {}\nsub/c.rs:1:// fn",
            ),
            (
                json!({"pattern": "^FN", "-i": true, "-n": false, "output_mode": "content"}),
                "a.rs:fn one() {}\na.rs:fn two() {}\nb.txt:Fn -77",
            ),
            (json!({"pattern": "nowhere"}), "No files found"),
            (
                json!({"pattern": "nowhere", "output_mode": "content"}),
                "No matches found",
            ),
        ] {
            let expected = (expected.to_owned(), false);
            assert_eq!(bench.call("Grep", input.clone()), expected, "{input}");
        }
    }

    #[test]
    fn where_to_search_is_narrowed() {
        let bench = tree();
        for (input, expected) in [
            (json!({"pattern": "fn", "path": "sub"}), "sub/c.rs"),
            (json!({"pattern": "fn", "path": "a.rs"}), "a.rs"),
            (json!({"pattern": "fn", "path": "ignored"}), "ignored/d.rs"),
            (
                json!({"pattern": "(?i)fn", "type": "rust"}),
                "a.rs\nsub/c.rs",
            ),
            (json!({"pattern": "(?i)fn", "glob": "*.txt"}), "b.txt"),
            (json!({"pattern": "(?i)fn", "glob": "!*.rs"}), "b.txt"),
            (json!({"pattern": "fn", "glob": "sub/**"}), "sub/c.rs"),
        ] {
            let expected = (expected.to_owned(), false);
            assert_eq!(bench.call("Grep", input.clone()), expected, "{input}");
        }
    }

    #[test]
    fn context_is_marked_and_separated() {
        let bench = tree();
        let input = json!({"pattern": "one|end|// fn", "-A": 1, "output_mode": "content"});
        let expected =
            "a.rs:1:fn one() {}\na.rs-2-let x = 1;\n--\na.rs:4:end\n--\nsub/c.rs:1:// fn";
        assert_eq!(bench.call("Grep", input), (expected.into(), false));
        let input = json!({"pattern": "let", "-C": 1, "output_mode": "content"});
        let expected = "a.rs-1-fn one() {}\na.rs:2:let x = 1;\na.rs-3-fn two() {}";
        assert_eq!(bench.call("Grep", input), (expected.into(), false));
    }

    #[test]
    fn a_match_may_go_over_line_ends_when_asked() {
        let bench = tree();
        let input = json!({"pattern": "one.*two", "multiline": true, "output_mode": "content"});
        let expected = "a.rs:1:fn one() {}\na.rs:2:let x = 1;\na.rs:3:fn two() {}";
        assert_eq!(bench.call("Grep", input), (expected.into(), false));
        let (text, is_error) = bench.call("Grep", json!({"pattern": "a\\nb"}));
        assert!(
            is_error && text.ends_with("needs multiline: true)"),
            "{text}"
        );
    }

    #[test]
    fn g41_a_leading_dash_is_text_and_a_pipe_is_passed_by() {
        let bench = tree();
        bench.write("run/x", "");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            bench.root.join("run/pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        for (pattern, expected) in [
            ("--pdf-engine", "b.txt:1:--pdf-engine"),
            ("-77", "b.txt:2:Fn -77"),
        ] {
            let input = json!({"pattern": pattern, "path": ".", "output_mode": "content"});
            assert_eq!(bench.call("Grep", input), (expected.into(), false));
        }
    }

    #[test]
    fn g38_a_file_that_is_not_utf8_is_searched_and_named() {
        let bench = Bench::new();
        bench.write("l.txt", include_bytes!("../../fixtures/files/latin1.txt"));
        let input = json!({"pattern": "const x|caf", "output_mode": "content"});
        let expected = "l.txt:1:const x = 1;\nl.txt:2:// caf\u{FFFD} na\u{FFFD}ve \u{FFFD}\n\n\
             (not UTF-8, bytes that are no text are shown as \u{FFFD}: l.txt)";
        assert_eq!(bench.call("Grep", input), (expected.into(), false));
    }

    #[test]
    fn what_is_told_has_an_end() {
        let bench = Bench::new();
        bench.write("f", format!("{}\n", "x".repeat(600)).repeat(300));
        let line = format!("f:1:{} [… 100 more bytes in this line]", "x".repeat(500));
        let limited = json!({"pattern": "x", "output_mode": "content", "head_limit": 1});
        let end = "\n\n(the first 1 lines; there are more: search more narrowly, or set head_limit or offset)";
        assert_eq!(bench.call("Grep", limited), (format!("{line}{end}"), false));
        let lines = |input: Value| {
            let output = bench.run("Grep", input);
            (
                output.structured["num_matches"].clone(),
                output.structured["is_cut"].clone(),
            )
        };
        let all = json!({"pattern": "x", "output_mode": "content", "head_limit": 0});
        assert_eq!(lines(all), (json!(300), json!(false)));
        let some = json!({"pattern": "x", "output_mode": "content"});
        assert_eq!(lines(some), (json!(300), json!(true)));
    }

    #[test]
    fn what_was_told_can_be_passed_over() {
        let bench = Bench::new();
        bench.write("f", "x1\nx2\nx3\ny\n");
        let told = |offset: u64, limit: u64| {
            let input = json!({"pattern": "x", "output_mode": "content", "offset": offset, "head_limit": limit});
            bench.call("Grep", input).0
        };
        assert_eq!(told(1, 0), "f:2:x2\nf:3:x3");
        let more = "(the first 1 lines from offset 1; there are more: search more narrowly, or set head_limit or offset)";
        assert_eq!(told(1, 1), format!("f:2:x2\n\n{more}"));
        assert_eq!(told(3, 1), "No lines at offset 3: there are 3");
        let around = json!({"pattern": "x3", "output_mode": "content", "context": 1});
        assert_eq!(bench.call("Grep", around).0, "f-2-x2\nf:3:x3\nf-4-y");
    }

    #[test]
    fn what_cannot_be_searched_says_why() {
        let bench = tree();
        for (input, expected) in [
            (json!({"pattern": "x", "path": "no"}), "no does not exist"),
            (
                json!({"pattern": "x", "type": "klingon"}),
                "klingon is not a file type that is known; use glob instead",
            ),
        ] {
            assert_eq!(bench.call("Grep", input), (expected.into(), true));
        }
        let (text, is_error) = bench.call("Grep", json!({"pattern": "(" }));
        assert!(
            is_error && text.starts_with("( is not a valid regular expression"),
            "{text}"
        );
    }
}
