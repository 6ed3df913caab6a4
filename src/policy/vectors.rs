//! Decisions on the vectors of `fixtures/policy/`, and properties of all decisions.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;

use crate::message::{ToolInput, ToolUse};

use super::shell::simple_commands;
use super::{Access, Call, Decision, Place, Policy, ResolvePath, Resolved, Roots, Rule, Target};

const WORKSPACE: &str = "/home/u/ws";

/// A disk of nothing but links and directories.
struct Links {
    links: BTreeMap<PathBuf, PathBuf>,
}

impl Links {
    fn new() -> Self {
        let links = [
            ("src/link", "/home/u/ws/secrets"),
            ("secretlink", "/home/u/ws/secrets"),
            ("outbox", "/elsewhere"),
            ("inner", "/home/u/ws/out"),
        ];
        Self {
            links: links
                .into_iter()
                .map(|(from, to)| (Path::new(WORKSPACE).join(from), PathBuf::from(to)))
                .collect(),
        }
    }
}

impl ResolvePath for Links {
    fn resolve(&self, written: &Path, cwd: &Path) -> Resolved {
        let mut text = PathBuf::new();
        let mut real = PathBuf::new();
        for component in cwd.join(written).components() {
            match component {
                Component::ParentDir => {
                    text.pop();
                    real.pop();
                }
                other => {
                    text.push(other);
                    real.push(other);
                    if let Some(target) = self.links.get(&real) {
                        real.clone_from(target);
                    }
                }
            }
        }
        Resolved {
            written: text,
            real,
        }
    }

    fn is_directory(&self, real: &Path) -> bool {
        let below = [
            "src", "src/sub", "secrets", "sub", "dist", "out", ".git", "jobs",
        ];
        let elsewhere = ["/root", "/home/other", "/home/u/.config", "/usr/include"];
        Path::new(WORKSPACE).starts_with(real)
            || elsewhere
                .iter()
                .any(|directory| Path::new(directory) == real)
            || below
                .iter()
                .any(|name| Path::new(WORKSPACE).join(name) == real)
    }
}

fn rules(texts: &Value) -> Vec<Rule> {
    let texts = texts.as_array().expect("a list of rules");
    texts
        .iter()
        .zip(1..)
        .map(|(text, line)| rule(text.as_str().expect("a rule"), line))
        .collect()
}

fn rule(text: &str, line: u32) -> Rule {
    let place = Place {
        file: Arc::from("job.yaml"),
        line,
        column: 5,
    };
    Rule::parse(text, place, None).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn policy(allow: Vec<Rule>, deny: Vec<Rule>) -> Arc<Policy> {
    Arc::new(Policy::new(
        allow,
        deny,
        Roots {
            workspace: PathBuf::from(WORKSPACE),
            home: Some(PathBuf::from("/home/u")),
            protected_files: vec![Path::new(WORKSPACE).join("jobs/nightly.yaml")],
            readable: vec![PathBuf::from("/out/results")],
            sealed: vec![Path::new(WORKSPACE).join("lightsout-runs")],
        },
    ))
}

fn call(tool: &str, target: Target) -> Call {
    Call {
        tool_use: ToolUse {
            id: "call-1".to_owned(),
            name: tool.to_owned(),
            input: ToolInput::Json(Value::Null),
        },
        target,
    }
}

fn command(command: &str) -> Call {
    let target = Target::Command {
        command: command.to_owned(),
        cwd: PathBuf::from(WORKSPACE),
    };
    call("Bash", target)
}

fn path(tool: &str, access: Access, path: &str) -> Call {
    let path = Links::new().resolve(Path::new(path), Path::new(WORKSPACE));
    call(tool, Target::Path { access, path })
}

fn said(decision: &Decision) -> &'static str {
    match decision {
        Decision::Allowed { .. } => "allow",
        Decision::Denied { .. } => "deny",
    }
}

fn reason(decision: &Decision) -> &str {
    match decision {
        Decision::Allowed { reason, .. } | Decision::Denied { reason, .. } => reason,
    }
}

/// Each row's decision against `today` where there is one (with `why`), else `expect`.
fn check(rows: &str, decide: impl Fn(&Value, &Arc<Policy>) -> Decision) {
    let mut wrong = Vec::new();
    for line in rows.lines() {
        let row: Value = serde_json::from_str(line).expect(line);
        let policy = policy(rules(&row["allow"]), rules(&row["deny"]));
        let decision = decide(&row, &policy);
        let expected = row.get("today").unwrap_or(&row["expect"]);
        if *expected != said(&decision) {
            wrong.push(format!("{line}\n  {}", reason(&decision)));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} rows:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn check_commands(rows: &str) {
    check(rows, |row, policy| {
        let text = row["command"].as_str().expect("a command");
        let text = text.replace("$WS", WORKSPACE);
        policy.decide(command(&text), &Links::new())
    });
}

#[test]
fn g15_to_g20_commands_are_decided_as_the_vectors_say() {
    check_commands(include_str!("../../fixtures/policy/bash-vectors.jsonl"));
}

#[test]
fn no_attack_gets_through() {
    check_commands(include_str!("../../fixtures/policy/bash-attacks.jsonl"));
}

#[test]
fn honest_commands_are_allowed() {
    check_commands(include_str!("../../fixtures/policy/bash-honest.jsonl"));
}

#[test]
fn g21_g22_paths_are_decided_as_the_vectors_say() {
    check(
        include_str!("../../fixtures/policy/path-vectors.jsonl"),
        |row, policy| {
            let tool = row["tool"].as_str().expect("a tool");
            let access = if tool == "Write" {
                Access::Write
            } else {
                Access::Read
            };
            let text = row["path"].as_str().expect("a path");
            let text = text.replace("$WS", WORKSPACE);
            policy.decide(path(tool, access, &text), &Links::new())
        },
    );
}

#[test]
fn path_tools_are_decided_by_their_own_rules_and_the_denials_of_read() {
    use Access::{Read, Search, Write};
    // allow, deny, tool, access, path, expected
    type Row<'a> = (
        &'a [&'a str],
        &'a [&'a str],
        &'a str,
        Access,
        &'a str,
        &'a str,
    );
    let rows: &[Row<'_>] = &[
        (&["Read"], &[], "Read", Read, "a/b", "allow"),
        (&["Read"], &[], "Read", Read, "/etc/hosts", "deny"),
        (&["Read"], &[], "Grep", Search, ".", "deny"),
        (
            &["Read", "Read(//etc/hosts)"],
            &[],
            "Read",
            Read,
            "/etc/hosts",
            "allow",
        ),
        (
            &["Read(~/notes/**)"],
            &[],
            "Read",
            Read,
            "/home/u/notes/a",
            "allow",
        ),
        (
            &["Read(//**)"],
            &[],
            "Read",
            Read,
            "/proc/self/environ",
            "deny",
        ),
        (
            &["Read(//**)"],
            &[],
            "Read",
            Read,
            "/home/u/.ssh/id_x",
            "deny",
        ),
        (&["Read"], &[], "Read", Read, "/out/results/1.txt", "allow"),
        (
            &["Read"],
            &["Read(//out/**)"],
            "Read",
            Read,
            "/out/results/1.txt",
            "deny",
        ),
        (&[], &[], "Read", Read, "/out/results/1.txt", "allow"),
        (
            &["Write"],
            &[],
            "Write",
            Write,
            "/out/results/1.txt",
            "deny",
        ),
        (&["Edit(src/**)"], &[], "Write", Write, "src/a", "allow"),
        (&["Write"], &[], "Edit", Write, "src/a", "allow"),
        (
            &["Write"],
            &["Edit(src/**)"],
            "Write",
            Write,
            "src/a",
            "deny",
        ),
        (&["Write"], &["Edit"], "Write", Write, "src/a", "deny"),
        (&["Write"], &["Read(.env)"], "Write", Write, ".env", "deny"),
        (&["Read"], &["Write(.env)"], "Read", Read, ".env", "allow"),
        (&["Write"], &[], "Write", Write, ".git/hooks/x", "deny"),
        (
            &["Write(**)"],
            &[],
            "Write",
            Write,
            ".github/workflows/a.yml",
            "deny",
        ),
        (
            &["Write(.github/**)"],
            &[],
            "Write",
            Write,
            ".github/workflows/a.yml",
            "deny",
        ),
        (
            &["Write(.github/workflows/**)"],
            &[],
            "Write",
            Write,
            ".github/workflows/a.yml",
            "allow",
        ),
        (&["Write"], &[], "Write", Write, "jobs/nightly.yaml", "deny"),
        (
            &["Write(jobs/**)"],
            &[],
            "Write",
            Write,
            "jobs/nightly.yaml",
            "deny",
        ),
        (
            &["Write(jobs/nightly.yaml)"],
            &[],
            "Write",
            Write,
            "jobs/nightly.yaml",
            "allow",
        ),
        (
            &["Write(lightsout-runs/1/run.json)"],
            &[],
            "Write",
            Write,
            "lightsout-runs/1/run.json",
            "deny",
        ),
        (
            &["Edit(lightsout-runs/**)"],
            &[],
            "Edit",
            Write,
            "src/../lightsout-runs",
            "deny",
        ),
        (
            &["Write"],
            &[],
            "Write",
            Write,
            "lightsout-runs2/a",
            "allow",
        ),
        (
            &["Read"],
            &[],
            "Read",
            Read,
            "lightsout-runs/1/run.json",
            "allow",
        ),
        (&["Read"], &[], "Read", Read, ".git/config", "allow"),
        (&["Grep"], &[], "Grep", Search, ".", "allow"),
        (&["Grep(src/**)"], &[], "Grep", Search, ".", "allow"),
        (&["Grep(src/**)"], &[], "Grep", Read, "src/a", "allow"),
        (&["Grep(src/**)"], &[], "Grep", Read, "b", "deny"),
        (
            &["Grep"],
            &["Read(secrets/**)"],
            "Grep",
            Search,
            "secrets",
            "deny",
        ),
        (
            &["Grep"],
            &["Read(secrets/**)"],
            "Grep",
            Search,
            "src/link",
            "deny",
        ),
        (
            &["Grep"],
            &["Read(secrets/**)"],
            "Grep",
            Search,
            ".",
            "allow",
        ),
        (&["Grep"], &["Read(.env)"], "Grep", Read, ".env", "deny"),
        (&["Grep"], &["Grep"], "Grep", Search, ".", "deny"),
        (&["Grep", "Read"], &["Read"], "Grep", Search, ".", "allow"),
        (&["Glob"], &[], "Glob", Search, "..", "deny"),
        (&["Glob"], &[], "Glob", Search, "outbox", "deny"),
        (
            &["Glob(//usr/include/**)"],
            &[],
            "Glob",
            Search,
            "/usr/include/x",
            "allow",
        ),
        (
            &["Glob(//usr/include/**)"],
            &[],
            "Glob",
            Search,
            "/usr",
            "deny",
        ),
        // A tool and what it says it touches must fit.
        (&["Read", "Write"], &[], "Read", Write, "a", "deny"),
        (&["Read", "Write"], &[], "Write", Read, "a", "deny"),
        (&["Bash"], &[], "Bash", Read, "a", "deny"),
    ];
    for (allow, deny, tool, access, at, expected) in rows {
        let read = |texts: &[&str]| texts.iter().zip(1..).map(|(t, l)| rule(t, l)).collect();
        let policy = policy(read(allow), read(deny));
        let decision = policy.decide(path(tool, *access, at), &Links::new());
        assert_eq!(
            said(&decision),
            *expected,
            "{allow:?} {deny:?} {tool} {at}: {}",
            reason(&decision)
        );
    }
}

#[test]
fn a_place_sealed_later_is_not_written_whatever_its_spelling() {
    let open = policy(vec![rule("Write(//cassettes/**)", 1)], Vec::new());
    let sealed = Arc::new(open.with_sealed([PathBuf::from("/cassettes/a.yaml")]));
    for (file, before, after) in [
        ("/cassettes/a.yaml", "allow", "deny"),
        ("/cassettes/x/../a.yaml", "allow", "deny"),
        ("/cassettes/b.yaml", "allow", "allow"),
    ] {
        let call = path("Write", Access::Write, file);
        assert_eq!(
            (
                said(&open.decide(call.clone(), &Links::new())),
                said(&sealed.decide(call, &Links::new()))
            ),
            (before, after),
            "{file}"
        );
    }
}

#[test]
fn a_search_shows_only_what_rules_cover_as_written_and_as_it_is() {
    let policy = policy(
        vec![rule("Grep(src/**)", 1), rule("Grep(inner/**)", 2)],
        vec![rule("Read(secrets/**)", 3), rule("Read(.env)", 4)],
    );
    let decision = policy.decide(path("Grep", Access::Search, "."), &Links::new());
    let Decision::Allowed { permit, .. } = decision else {
        panic!("{}", reason(&decision));
    };
    for (file, seen) in [
        ("src/a.rs", true),
        ("src/.env", false),
        ("src/link/k", false),
        ("README.md", false),
        ("inner/a", false),
        ("src/../README.md", false),
    ] {
        let path = Links::new().resolve(Path::new(file), Path::new(WORKSPACE));
        assert_eq!(permit.may_see(&path), seen, "{file}");
    }
}

#[test]
fn what_is_offered_follows_from_the_rules() {
    let policy = policy(
        vec![
            rule("Read", 1),
            rule("Edit(src/**)", 2),
            rule("Bash(ls *)", 3),
        ],
        vec![rule("Bash", 4), rule("Read(.env)", 5), rule("WebFetch", 6)],
    );
    for (tool, offered) in [
        ("Read", true),
        ("Write", true),
        ("Edit", true),
        ("Grep", false),
        ("Bash", false),
        ("WebFetch", false),
        ("Nonsense", false),
    ] {
        assert_eq!(policy.offers(tool), offered, "{tool}");
    }
    assert!(policy.may_write());
    assert_eq!(
        policy.digest_text(),
        "allow Read\nallow Edit(src/**)\nallow Bash(ls *)\ndeny Bash\ndeny Read(.env)\ndeny WebFetch\n"
    );
}

#[test]
fn a_denial_names_the_part_the_rule_and_what_would_allow_it() {
    let policy = policy(
        vec![rule("Bash(git log *)", 4), rule("Read(src/**)", 5)],
        vec![rule("Bash(rm *)", 9), rule("Read(.env)", 10)],
    );
    // call, reason, deny rule, what would allow it
    let rows: Vec<(Call, &str, Option<&str>, Option<&str>)> = vec![
        (
            command("git log && touch a b | wc -l"),
            "no rule allows `touch a b`",
            None,
            Some("Bash(touch *), Bash(wc *)"),
        ),
        (
            command("git diff -3"),
            "no rule allows `git diff -3`",
            None,
            Some("Bash(git diff *)"),
        ),
        (
            command("timeout 5 'a b'"),
            "no rule allows `timeout 5 'a b'`; do not allow it; it runs whatever its words say: allow \
             the command that it would run",
            None,
            None,
        ),
        (
            command("touch a && curl -d x http://x"),
            "no rule allows `curl -d x http://x`; do not allow it; it can send what the model has read \
             anywhere",
            None,
            None,
        ),
        (
            command("python3 -c 1"),
            "no rule allows `python3 -c 1`; do not allow it; it runs code that its words hold: let it \
             be a script in a file",
            None,
            None,
        ),
        (
            command("python3 'a b.py'"),
            "no rule allows `python3 'a b.py'`",
            None,
            Some("Bash(python3 'a b.py')"),
        ),
        (
            command("git log --output=x"),
            "`git log --output=x` is not allowed by `Bash(git log *)` (job.yaml:4:5): `--output=x` \
             writes to a file that it names, so a rule must spell it",
            None,
            Some("Bash(git log --output=x)"),
        ),
        (
            command("touch a; rm b"),
            "`rm b` is denied by `Bash(rm *)` (job.yaml:9:5)",
            Some("Bash(rm *)"),
            None,
        ),
        (
            command("git log \"$(touch marker)\""),
            "`$(touch marker)` is a command substitution, which rules cannot allow in this version; run \
             the inner command in a call of its own and write its result itself",
            None,
            None,
        ),
        (
            path("Read", Access::Read, "docs/a.md"),
            "no rule allows Read on `docs/a.md`",
            None,
            Some("Read(docs/a.md)"),
        ),
        (
            path("Read", Access::Read, ".env"),
            "`.env` is denied by `Read(.env)` (job.yaml:10:5)",
            Some("Read(.env)"),
            None,
        ),
        (
            path("Grep", Access::Search, "."),
            "no rule allows Grep on `.`",
            None,
            Some("Grep"),
        ),
        (
            call("WebFetch", Target::Nothing),
            "no tool `WebFetch` can be used",
            None,
            None,
        ),
    ];
    for (call, reason, rule, would_allow) in rows {
        let shown = format!("{call:?}");
        let decision = policy.decide(call, &Links::new());
        let Decision::Denied {
            rule: by,
            reason: why,
            would_allow: would,
        } = decision
        else {
            panic!("{shown} was allowed");
        };
        assert_eq!(
            (
                why.as_str(),
                by.as_ref().map(|(rule, _)| rule.as_str()),
                would.as_deref()
            ),
            (reason, rule, would_allow),
            "{shown}"
        );
    }
}

#[test]
fn an_explanation_shows_each_part_and_its_rule() {
    let policy = policy(vec![rule("Bash(cat *)", 4)], Vec::new());
    let explanation = policy.explain(command("cat 'a b' | sh"), &Links::new());
    assert_eq!(
        explanation.to_string(),
        "command 1: [\"cat\", \"a b\"]\n  \
           allowed by `Bash(cat *)` (job.yaml:4:5)\n\
         command 2: [\"sh\"]\n  \
           denied: no rule allows `sh`; do not allow it; it runs whatever its words say: allow the \
           command that it would run\n\
         decision: denied\n  \
           no rule allows `sh`; do not allow it; it runs whatever its words say: allow the command \
           that it would run"
    );
    // Of a single command the decision says it all, unless its words are not plain to see.
    let explanation = policy.explain(command("cat a"), &Links::new());
    assert_eq!(
        explanation.to_string(),
        "decision: allowed\n  \
           allowed by `Bash(cat *)` (job.yaml:4:5)"
    );
    let explanation = policy.explain(command("cat  a"), &Links::new());
    assert_eq!(explanation.to_string().lines().count(), 4);
}

#[test]
fn notes_of_the_rules_that_allow_reach_the_model_once() {
    let place = rule("Read", 1).place().clone();
    let noted = |text: &str, note: &str| {
        Rule::parse(text, place.clone(), Some(note.to_owned())).expect(text)
    };
    let policy = policy(
        vec![noted("Bash(ls *)", "one"), noted("Bash(wc *)", "two")],
        Vec::new(),
    );
    let decision = policy.decide(command("ls | wc; ls -l"), &Links::new());
    let Decision::Allowed { notes, rule, .. } = decision else {
        panic!("{}", reason(&decision));
    };
    assert_eq!(
        (rule.as_str(), notes),
        ("Bash(ls *)", vec!["one".to_owned(), "two".to_owned()])
    );
}

/// Pieces that commands are made of, the honest and the others.
fn shell_text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "ls", "git log", " ", " ", " ", "|", "&&", "||", ";", "\n", "&", "$(", ")", "`", "'", "\"",
        "\\", "$x", "${", "}", "{", "(", "<", ">", "<<E", "E", "#", "*", "~", "=", "!", "rm",
        "-rf", "a b", "\u{a0}", "\u{2003}", "é", "if", "then", "fi", "[", "]", "\t", "%", "@", ":",
        ",",
    ]);
    prop_oneof![
        3 => prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
    ]
}

proptest! {
    #[test]
    fn an_allowed_command_holds_nothing_but_allowed_programs(text in shell_text()) {
        let policy = policy(vec![rule("Bash(ls *)", 1), rule("Bash(git log *)", 2)], Vec::new());
        let decision = policy.decide(command(&text), &Links::new());
        if said(&decision) == "allow" {
            let commands = simple_commands(&text).expect("an allowed command was parsed");
            for command in commands {
                let first: Vec<&str> = command.words.iter().map(String::as_str).take(2).collect();
                prop_assert!(first[0] == "ls" || first == ["git", "log"], "{first:?}");
            }
            prop_assert!(!text.contains(['`', '\0', '\r']) || text.contains(['\'', '\\', '#']));
        }
    }

    #[test]
    fn every_command_gets_a_decision_where_something_is_denied(text in shell_text()) {
        let policy = policy(vec![rule("Bash", 1)], vec![rule("Bash(rm *)", 2), rule("Read(.env)", 3)]);
        let explanation = policy.explain(command(&text), &Links::new());
        if said(&explanation.decision) == "allow" {
            for part in explanation.commands {
                prop_assert!(part.words[0] != "rm", "{text:?}");
            }
        }
    }

    #[test]
    fn every_text_is_a_rule_or_an_error_in_place(text in ".{0,30}|(Bash|Read|Write)\\(.{0,20}\\)") {
        let place = Place { file: Arc::from("j"), line: 1, column: 1 };
        if let Err(error) = Rule::parse(&text, place, None) {
            prop_assert!(text.is_char_boundary(error.offset), "{error:?}");
            prop_assert!(error.offset + error.width <= text.len().max(1) + 1, "{error:?}");
        }
    }

    #[test]
    fn the_rule_that_would_allow_a_command_does(words in prop::collection::vec("[a-z'\" *$;()-]{1,8}", 1..5)) {
        let quoted: Vec<String> =
            words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
        let text = quoted.join(" ");
        let nothing = policy(Vec::new(), Vec::new());
        if let Decision::Denied { would_allow: Some(suggested), .. } =
            nothing.decide(command(&text), &Links::new())
        {
            let policy = policy(vec![rule(&suggested, 1)], Vec::new());
            let decision = policy.decide(command(&text), &Links::new());
            prop_assert_eq!(said(&decision), "allow", "{} by {}: {}", text, suggested, reason(&decision));
        }
    }
}
