//! Acceptance cases: what the rules decide, seen by what happened.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::cases::rows;
use super::program::{Program, Ran};
use super::server::{Server, reply};

/// Runs one prompt a row, named `row-N`, with the row's rules: it calls the tool once and then ends.
fn run_rows(
    rows: &[Value],
    program: Program,
    workspace: impl Fn(usize) -> String,
    call: impl Fn(&Value) -> (String, Value),
) -> Ran {
    let prompts = rows.iter().enumerate().map(|(row, rules)| {
        json!({
            "id": format!("row-{row}"),
            "prompt": row.to_string(),
            "allowed_tools": rules["allow"],
            "denied_tools": rules["deny"],
            "workspace": {"dir": workspace(row)},
        })
    });
    let prompts: Vec<Value> = prompts.collect();
    let calls: Vec<(String, Value)> = rows.iter().map(call).collect();
    let server = Server::answering(move |request| {
        let messages = request.body["messages"].as_array().unwrap();
        let row: usize = messages[0]["content"][0]["text"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        let (tool, input) = calls[row].clone();
        match messages.len() {
            1 => reply().tool_use(&tool, input),
            _ => reply().text("done"),
        }
    });
    let job = format!("prompts: {}\nmax_budget_usd: 1\n", json!(prompts));
    let ran = program.file("job.yaml", job).against(&server).run();
    assert_eq!(server.finish().len(), rows.len() * 2, "{}", ran.stderr);
    ran
}

/// What was decided of the row's call, and what the model was told.
fn decision(ran: &Ran, row: usize) -> (String, String, bool) {
    let place = format!("job/row-{row}");
    ran.assert_whole(&place);
    let lines = ran.transcript(&place);
    let decision = lines
        .iter()
        .find(|line| line["subtype"] == "permission")
        .unwrap();
    let decision = decision["decision"].as_str().unwrap().to_owned();
    let [(text, is_error)] = &ran.tool_results_of(&place)[..] else {
        panic!("{place} has not one result");
    };
    (decision, text.clone(), *is_error)
}

/// `allowed` or `denied`: what the row expects, or what it is known to give today instead.
fn expected(row: &Value) -> &'static str {
    match row.get("today").unwrap_or(&row["expect"]).as_str() {
        Some("allow") => "allowed",
        Some("deny") => "denied",
        other => panic!("{other:?}"),
    }
}

/// What the model is told was refused of the row with this note.
fn refused_part(note: &str) -> &'static str {
    match note {
        "pipe target not allowed" => "`sh`",
        "background separator" => "`&`",
        "command substitution" => "`$(touch marker)`",
        "cd does not carry the rest" => "python3 x.py",
        "escaped semicolon ends -exec, it is no separator" => "find",
        _ => "touch marker",
    }
}

/// Runs the rows, each as a Bash call in a workspace `ws-N` of its own, in which no marker may appear.
fn run_commands(rows: &[Value]) -> Ran {
    let mut program = Program::bare(&["run", "job.yaml", "--output", "out"]);
    for row in 0..rows.len() {
        program = program.file(&format!("ws-{row}/sub/x.py"), "open('../marker', 'w')");
    }
    let call = |row: &Value| ("Bash".to_owned(), json!({"command": row["command"]}));
    let ran = run_rows(rows, program, |row| format!("ws-{row}"), call);
    for (number, row) in rows.iter().enumerate() {
        let (decision, text, is_error) = decision(&ran, number);
        assert_eq!(decision, expected(row), "{row}: {text}");
        assert!(is_error || decision == "allowed", "{row}: {text}");
        for place in ["marker", "sub/marker"] {
            let marker = ran.path().join(format!("ws-{number}/{place}"));
            assert!(!marker.exists(), "{row}");
        }
    }
    ran
}

#[test]
fn g15_no_separator_and_no_substitution_carries_an_unallowed_command() {
    let about = [
        "list",
        "semicolon",
        "pipe",
        "separator",
        "substitution",
        "every part",
        "does not carry",
    ];
    let is_about = |row: &Value| {
        let note = row["note"].as_str().unwrap();
        about.iter().any(|word| note.contains(word))
    };
    let rows = rows("policy/bash-vectors.jsonl");
    let rows: Vec<Value> = rows.into_iter().filter(is_about).collect();
    assert_eq!(rows.len(), 11, "a row about separators is missing");
    let ran = run_commands(&rows);
    for (number, row) in rows.iter().enumerate() {
        let (decision, text, _) = decision(&ran, number);
        let part = refused_part(row["note"].as_str().unwrap());
        assert!(
            decision == "allowed" || text.contains(part),
            "{row}: {text}"
        );
    }
}

#[test]
fn g15_no_known_attack_leaves_a_marker() {
    let rows = rows("policy/bash-attacks.jsonl");
    let leaves_a_marker = |row: &Value| row["command"].as_str().unwrap().contains("marker");
    let rows: Vec<Value> = rows.into_iter().filter(leaves_a_marker).collect();
    assert!(rows.len() > 40, "{}", rows.len());
    run_commands(&rows);
}

#[test]
fn g15_the_marker_of_an_allowed_command_appears() {
    let row =
        json!({"allow": ["Bash(touch:*)"], "deny": [], "command": "touch marker && touch marker"});
    let program = Program::bare(&["run", "job.yaml", "--output", "out"]).file("ws/a", "");
    let call = |row: &Value| ("Bash".to_owned(), json!({"command": row["command"]}));
    let ran = run_rows(&[row], program, |_| "ws".into(), call);
    assert_eq!(decision(&ran, 0).0, "allowed");
    assert!(ran.path().join("ws/marker").exists());
}

/// A workspace `ws` with everything that the rows name, and its links.
fn workspace_of_the_rows() -> Program {
    let mut program = Program::bare(&["run", "job.yaml", "--output", "out"])
        .file("outside.txt", "CONTENT")
        .file("elsewhere/k", "CONTENT");
    for file in [
        "src/a.rs",
        "src/sub/b.rs",
        ".env",
        "srcx/a.rs",
        "secrets/k",
        "docs/v1..v2.md",
        "..hidden/file",
        "out/k",
    ] {
        program = program.file(&format!("ws/{file}"), "CONTENT");
    }
    let ws = program.path().join("ws");
    for (link, target) in [
        ("src/link", "../secrets"),
        ("outbox", "../elsewhere"),
        ("inner", "out"),
    ] {
        symlink(target, ws.join(link)).unwrap();
    }
    program
}

#[test]
fn g21_paths_are_judged_by_where_they_lead() {
    let rows: Vec<Value> = rows("policy/path-vectors.jsonl");
    let rows: Vec<Value> = rows
        .into_iter()
        .filter(|row| row["tool"] == "Read")
        .collect();
    assert_eq!(rows.len(), 14, "a Read row is missing");
    let program = workspace_of_the_rows();
    let ws = program.path().join("ws").display().to_string();
    let call = move |row: &Value| {
        let path = row["path"].as_str().unwrap().replace("$WS", &ws);
        ("Read".to_owned(), json!({"file_path": path}))
    };
    let ran = run_rows(&rows, program, |_| "ws".into(), call);
    for (number, row) in rows.iter().enumerate() {
        let (decision, text, is_error) = decision(&ran, number);
        assert_eq!(decision, expected(row), "{row}: {text}");
        assert_eq!(
            text.contains("CONTENT"),
            decision == "allowed",
            "{row}: {text}"
        );
        assert_eq!(is_error, decision == "denied", "{row}: {text}");
    }
}

#[test]
fn g22_a_link_that_leads_out_takes_no_tool_with_it() {
    let rows: Vec<Value> = [
        ("Write", json!({"file_path": "outbox/new.txt", "content": "x"}), "deny"),
        ("Read", json!({"file_path": "outbox/k"}), "deny"),
        ("Edit", json!({"file_path": "outbox/k", "old_string": "CONTENT", "new_string": "x"}), "deny"),
        ("Glob", json!({"pattern": "*", "path": "outbox"}), "deny"),
        ("Grep", json!({"pattern": "CONTENT", "path": "outbox"}), "deny"),
        ("Write", json!({"file_path": "inner/new.txt", "content": "x"}), "allow"),
        ("Read", json!({"file_path": "inner/k"}), "allow"),
    ]
    .into_iter()
    .map(|(tool, input, expect)| {
        json!({"tool": tool, "input": input, "expect": expect, "allow": [tool], "deny": []})
    })
    .collect();
    let call = |row: &Value| {
        (
            row["tool"].as_str().unwrap().to_owned(),
            row["input"].clone(),
        )
    };
    let ran = run_rows(&rows, workspace_of_the_rows(), |_| "ws".into(), call);
    for (number, row) in rows.iter().enumerate() {
        assert_eq!(decision(&ran, number).0, expected(row), "{row}");
    }
    assert!(!ran.path().join("elsewhere/new.txt").exists());
    assert_eq!(ran.read("elsewhere/k"), "CONTENT");
    assert_eq!(ran.read("ws/out/new.txt"), "x");
}
