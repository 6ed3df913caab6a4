//! The house: which room may know which, and what the pure rooms never name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each room and the rooms it may import.
const ARROWS: &[(&str, &[&str])] = &[
    ("message", &[]),
    ("stop", &[]),
    ("schema", &[]),
    ("net", &[]),
    ("models", &["message"]),
    ("budget", &["message", "models"]),
    ("policy", &["message", "stop"]),
    ("query", &["message", "stop"]),
    ("job", &["message", "models", "policy", "schema", "stop"]),
    ("sandbox", &["job"]),
    ("workspace", &["job", "sandbox"]),
    ("provider", &["job", "message", "models", "net", "sandbox"]),
    (
        "tools",
        &[
            "job",
            "message",
            "net",
            "policy",
            "sandbox",
            "schema",
            "workspace",
        ],
    ),
    (
        "transcript",
        &["budget", "message", "models", "policy", "query", "stop"],
    ),
    (
        "report",
        &[
            "budget",
            "message",
            "models",
            "policy",
            "query",
            "stop",
            "transcript",
        ],
    ),
    (
        "run",
        &[
            "budget",
            "job",
            "message",
            "models",
            "net",
            "policy",
            "provider",
            "query",
            "sandbox",
            "schema",
            "stop",
            "tools",
            "transcript",
            "workspace",
        ],
    ),
    (
        "cli",
        &[
            "budget",
            "job",
            "message",
            "models",
            "net",
            "policy",
            "provider",
            "query",
            "report",
            "run",
            "sandbox",
            "schema",
            "stop",
            "tools",
            "transcript",
            "workspace",
        ],
    ),
];

/// Rooms without a clock, file, socket, process or await.
const PURE: &[&str] = &[
    "message", "stop", "schema", "models", "budget", "policy", "query", "job",
];

const IMPURE_NAMES: &[&str] = &[
    "std::fs",
    "std::process",
    "std::net",
    "std::env",
    "tokio",
    "ureq",
    "async ",
];

/// Crates that sit behind one room.
const BEHIND: &[(&str, &[&str])] = &[
    ("ureq", &["net"]),
    ("junit_report", &["report"]),
    ("indicatif", &["report"]),
    ("clap", &["cli"]),
    ("serde_yaml", &["job", "provider"]),
    ("tree_sitter", &["policy"]),
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every `.rs` file of a room: its path and its code without comments and test modules.
fn files_of(room: &str) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let mut pending = vec![source().join(room)];
    if let Some(file) = Some(source().join(format!("{room}.rs"))).filter(|f| f.is_file()) {
        files.push(file);
    }
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|e| e == "rs")
                && path.file_name().is_some_and(|n| n != "tests.rs")
            {
                files.push(path);
            }
        }
    }
    assert!(!files.is_empty(), "the room {room} is empty");
    files
        .into_iter()
        .map(|path| (path.clone(), code(&fs::read_to_string(path).unwrap())))
        .collect()
}

/// The lines that are compiled into the product.
fn code(text: &str) -> String {
    let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    product
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The rooms that a piece of code names as `crate::ROOM` or in `crate::{ROOM…, ROOM…}`.
fn rooms_named(code: &str) -> BTreeSet<String> {
    let word = |text: &str| {
        text.chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect::<String>()
    };
    let mut rooms = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            None => drop(rooms.insert(word(rest))),
            Some(list) => {
                let mut depth = 0;
                let mut start = true;
                for (i, c) in list.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => start = true,
                        c if start && c.is_alphabetic() => {
                            rooms.insert(word(&list[i..]));
                            start = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    rooms
}

#[test]
fn every_arrow_is_in_the_table() {
    let mut faults = Vec::new();
    for (room, allowed) in ARROWS {
        for (path, code) in files_of(room) {
            for named in rooms_named(&code) {
                let is_room = ARROWS.iter().any(|(other, _)| *other == named);
                if is_room && named != *room && !allowed.contains(&named.as_str()) {
                    faults.push(format!("{}: {room} -> {named}", path.display()));
                }
            }
        }
    }
    assert!(
        faults.is_empty(),
        "arrows against the table:\n{}",
        faults.join("\n")
    );
}

#[test]
fn the_pure_rooms_name_no_clock_file_socket_or_await() {
    let mut faults = Vec::new();
    for room in PURE {
        for (path, code) in files_of(room) {
            for name in IMPURE_NAMES {
                if code.contains(name) {
                    faults.push(format!("{}: {name}", path.display()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_crate_that_sits_behind_a_room_is_named_nowhere_else() {
    let mut faults = Vec::new();
    for (room, _) in ARROWS {
        for (path, code) in files_of(room) {
            for (name, rooms) in BEHIND {
                let used =
                    code.contains(&format!("{name}::")) || code.contains(&format!("use {name}"));
                if used && !rooms.contains(room) {
                    faults.push(format!("{}: {name}", path.display()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_room_is_in_the_table_in_lib_and_in_the_architecture() {
    let lib = fs::read_to_string(source().join("lib.rs")).unwrap();
    let architecture =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md")).unwrap();
    let declared: BTreeSet<&str> = lib
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .collect();
    let listed: BTreeSet<&str> = ARROWS.iter().map(|(room, _)| *room).collect();
    assert_eq!(declared, listed);
    for room in listed {
        assert!(
            architecture.contains(&format!("`{room}")),
            "ARCHITECTURE.md does not name `{room}`"
        );
    }
}

#[test]
fn the_reader_of_this_test_reads_imports_right() {
    let code = "use crate::a::B;\nuse crate::{c::{D, E}, f};\nlet x = crate::g::h();";
    let rooms: Vec<String> = rooms_named(code).into_iter().collect();
    assert_eq!(rooms, ["a", "c", "f", "g"]);
}
