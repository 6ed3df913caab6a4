//! The Glob tool.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use serde_json::{Value, json};

use crate::message::ToolSpec;
use crate::policy::{Access, Permit};
use crate::sandbox::Cancel;

use super::session::permitted_path;
use super::{Output, Session, Tool, Touches, search};

/// Files told; a pattern that finds more is too wide to be of use.
const MAX_FILES: usize = 1000;

/// Finds files by name.
#[derive(Clone, Copy, Debug)]
pub struct Glob;

impl Tool for Glob {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "Glob".into(),
            description: format!(
                "Finds files by a glob such as `**/*.js`, `src/**/*.{{ts,tsx}}` or `Makefile`.\n\
                 - A pattern without a slash matches names in every directory.\n\
                 - What .gitignore ignores is left out; hidden files are not.\n\
                 - Tells up to {MAX_FILES} paths, sorted by name."
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "description": "The glob"},
                    "path": {
                        "type": "string",
                        "description": "The directory to look in; the workspace's root by default",
                    },
                },
                "required": ["pattern"],
                "additionalProperties": false,
            }),
        }
    }

    fn touches(&self, input: &Value) -> Touches {
        Touches::Path {
            path: parts(input).0,
            access: Access::Search,
        }
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn run(&self, permit: &Permit, input: &Value, session: &Session, cancel: &Cancel) -> Output {
        let (_, pattern) = parts(input);
        let matcher = match search::matcher(&pattern) {
            Ok(matcher) => matcher,
            Err(why) => return Output::error(why),
        };
        let mut paths = Vec::new();
        let mut count = 0_usize;
        let walked = search::walk(permit, session, cancel, None, |found| {
            if matcher.is_match(&found.relative) {
                count += 1;
                if count <= MAX_FILES {
                    paths.push(found.shown);
                }
            }
            ControlFlow::Continue(())
        });
        if let Err(why) = walked {
            let shown = session.workspace().shown(&permitted_path(permit).written);
            return Output::error(format!("{shown} {why}"));
        }
        let mut text = paths.join("\n");
        if count == 0 {
            text = "No files found".into();
        } else if count > MAX_FILES {
            let _ = write!(
                text,
                "\n\n({MAX_FILES} of {count} files; give a narrower pattern or path)"
            );
        }
        Output::text(
            text,
            json!({"num_files": count, "is_cut": count > MAX_FILES}),
        )
    }
}

/// The directory to look in and the pattern from there. Of a pattern that is absolute or goes up, the
/// part before the first wildcard belongs to the directory, so that it is judged with it.
fn parts(input: &Value) -> (String, String) {
    let path = input["path"].as_str().filter(|path| !path.is_empty());
    let path = path.unwrap_or(".");
    let pattern = input["pattern"].as_str().unwrap_or_default();
    if !pattern.starts_with('/') && !pattern.split('/').any(|name| name == "..") {
        return (path.to_owned(), pattern.to_owned());
    }
    let wildcard = pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len());
    let (literal, rest) = match pattern[..wildcard].rfind('/') {
        Some(slash) => (&pattern[..=slash], &pattern[slash + 1..]),
        None => ("", pattern),
    };
    let directory = if literal.starts_with('/') {
        literal.to_owned()
    } else {
        format!("{path}/{literal}")
    };
    // Anchored, for here a name stands for one place.
    (directory, format!("/{rest}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::session::testing::Bench;
    use super::*;

    fn tree() -> Bench {
        let bench = Bench::new();
        for path in [
            ".gitignore",
            ".hidden/x.rs",
            ".git/HEAD.rs",
            "b.rs",
            "a/deep/c.rs",
            "a/d.txt",
            "target/t.rs",
            "target/sub/keep.rs",
            "lightsout-runs/1/r.rs",
        ] {
            bench.write(path, "");
        }
        bench.write(".gitignore", "/target\n*.log\n");
        bench.write("a/x.log", "");
        std::fs::write(bench.outside().join("secret.rs"), "").unwrap();
        symlink(bench.outside(), bench.root.join("out")).unwrap();
        symlink("../../secret.rs", bench.root.join("a/out.rs")).unwrap();
        symlink("../b.rs", bench.root.join("a/in.rs")).unwrap();
        bench
    }

    #[test]
    fn files_are_found_by_name_and_place() {
        let bench = tree();
        let root = bench.root.display();
        let all = ".hidden/x.rs\na/deep/c.rs\na/in.rs\nb.rs";
        for (input, expected) in [
            (json!({"pattern": "**/*.rs"}), all),
            (json!({"pattern": "*.rs"}), all),
            (json!({"pattern": "*.rs", "path": ""}), all),
            (
                json!({"pattern": "./a/**"}),
                "a/d.txt\na/deep/c.rs\na/in.rs",
            ),
            (
                json!({"pattern": "**/*.rs", "path": "a"}),
                "a/deep/c.rs\na/in.rs",
            ),
            (json!({"pattern": "*.log", "path": "a"}), "No files found"),
            (
                json!({"pattern": "*.rs", "path": "target"}),
                "target/sub/keep.rs\ntarget/t.rs",
            ),
            (
                json!({"pattern": "*.rs", "path": "lightsout-runs"}),
                "No files found",
            ),
            (json!({"pattern": format!("{root}/*.rs")}), "b.rs"),
            (json!({"pattern": format!("{root}/a/d.txt")}), "a/d.txt"),
            (json!({"pattern": "../*.rs", "path": "a"}), "b.rs"),
            (json!({"pattern": "*.py"}), "No files found"),
        ] {
            let expected = (expected.to_owned(), false);
            assert_eq!(bench.call("Glob", input.clone()), expected, "{input}");
        }
    }

    #[test]
    fn a_pattern_that_leaves_is_judged_by_where_it_goes() {
        for (pattern, path, expected) in [
            ("/etc/**/*.conf", None, ("/etc/", "/**/*.conf")),
            ("../x/*.rs", Some("a"), ("a/../x/", "/*.rs")),
            ("/etc/passwd", None, ("/etc/", "/passwd")),
            ("a/*.rs", Some("b"), ("b", "a/*.rs")),
        ] {
            let input = json!({"pattern": pattern, "path": path});
            let (directory, rest) = parts(&input);
            assert_eq!((&*directory, &*rest), expected);
        }
    }

    #[test]
    fn what_cannot_be_searched_says_why() {
        let bench = tree();
        for (input, expected) in [
            (json!({"pattern": "*", "path": "no"}), "no does not exist"),
            (
                json!({"pattern": "a["}),
                "a[ is not a valid glob: unclosed character class; missing ']'",
            ),
        ] {
            assert_eq!(bench.call("Glob", input), (expected.into(), true));
        }
    }

    #[test]
    fn too_many_are_counted() {
        let bench = Bench::new();
        for number in 0..1_003 {
            bench.write(&format!("f{number:04}"), "");
        }
        let (text, _) = bench.call("Glob", json!({"pattern": "f*"}));
        assert_eq!(text.lines().count(), 1_002);
        let end = "f0999\n\n(1000 of 1003 files; give a narrower pattern or path)";
        assert!(text.ends_with(end), "{text}");
    }
}
