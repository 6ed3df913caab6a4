//! Acceptance cases: files, searches, commands and what they see.

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::cases::{assert_passed, job, run};
use super::program::{Program, Ran};
use super::server::{Server, reply};

/// Lets the model make these calls, one a turn; the run must pass.
fn calls(program: Program, calls: &[(&str, Value)]) -> Ran {
    let asked = calls
        .iter()
        .map(|(tool, input)| reply().tool_use(tool, input.clone()));
    let (ran, _) = run(program, asked.chain([reply().text("done")]));
    assert_passed(&ran);
    assert_eq!(ran.tool_results().len(), calls.len());
    ran
}

fn edit(file: &str, old: &str, new: &str) -> (&'static str, Value) {
    (
        "Edit",
        json!({"file_path": file, "old_string": old, "new_string": new}),
    )
}

fn read(file: &str) -> (&'static str, Value) {
    ("Read", json!({"file_path": file}))
}

fn bytes(ran: &Ran, file: &str) -> Vec<u8> {
    std::fs::read(ran.path().join(file)).unwrap()
}

#[test]
fn g38_bytes_that_an_edit_did_not_touch_stay() {
    let program = Program::new(&job("Read, Edit, Grep")).fixture("latin1.txt", "files/latin1.txt");
    let before = std::fs::read(program.path().join("latin1.txt")).unwrap();
    let grep = json!({"pattern": "const", "path": "latin1.txt", "output_mode": "content"});
    let ran = calls(
        program,
        &[
            read("latin1.txt"),
            edit("latin1.txt", "const x = 1;", "const x = 2;"),
            ("Grep", grep),
        ],
    );
    let results = ran.tool_results();
    assert!(results[0].0.contains("not UTF-8"), "{}", results[0].0);
    assert!(!results[1].1, "{}", results[1].0);
    let expected = [b"const x = 2;", &before[12..]].concat();
    assert_eq!(bytes(&ran, "latin1.txt"), expected);
    assert!(results[2].0.contains("const y = 2;"), "{}", results[2].0);
    assert!(results[2].0.contains("not UTF-8"), "{}", results[2].0);
}

#[test]
fn g39_crlf_stays_crlf() {
    let program = Program::new(&job("Read, Edit")).fixture("crlf.ts", "files/crlf.ts");
    let ran = calls(
        program,
        &[
            read("crlf.ts"),
            edit(
                "crlf.ts",
                "const a = 1;\nconst b = 2;",
                "const a = 1;\nconst b = 3;",
            ),
        ],
    );
    assert!(!ran.tool_results()[1].1, "{}", ran.tool_results()[1].0);
    let expected = "const a = 1;\r\nconst b = 3;\r\nconst c = 3;\r\n";
    assert_eq!(String::from_utf8(bytes(&ran, "crlf.ts")).unwrap(), expected);
}

#[test]
fn g40_replacement_text_is_literal() {
    let (old, new) = (r#"log("done");"#, r#"log("$& $1 $$ ${x} \\1");"#);
    let program = Program::new(&job("Read, Edit").replace("max_turns: 5", "max_turns: 6"))
        .file("once.js", format!("a();\n{old}\n"))
        .file("all.js", format!("{old}\n{old}\n"));
    let (tool, mut all) = edit("all.js", old, new);
    all["replace_all"] = true.into();
    let ran = calls(
        program,
        &[
            read("once.js"),
            edit("once.js", old, new),
            read("all.js"),
            (tool, all),
        ],
    );
    assert_eq!(ran.read("once.js"), format!("a();\n{new}\n"));
    assert_eq!(ran.read("all.js"), format!("{new}\n{new}\n"));
}

#[test]
fn g41_a_pattern_with_a_leading_dash_is_text() {
    let program =
        Program::new(&job("Grep")).file("notes.md", "use --pdf-engine here\nat -77 degrees\n");
    let grep = |pattern: &str| {
        (
            "Grep",
            json!({"pattern": pattern, "output_mode": "content"}),
        )
    };
    let ran = calls(program, &[grep("--pdf-engine"), grep("-77")]);
    let results = ran.tool_results();
    assert!(
        results[0].0.contains("use --pdf-engine here") && !results[0].1,
        "{}",
        results[0].0
    );
    assert!(
        results[1].0.contains("at -77 degrees") && !results[1].1,
        "{}",
        results[1].0
    );
}

#[test]
fn g41_a_pipe_and_a_device_hold_nothing_up() {
    let program = Program::new(&job("Grep, Read, Read(//dev/zero)")).file("run/a.txt", "needle\n");
    mknodat(
        CWD,
        program.path().join("run/pipe"),
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let grep = json!({"pattern": "needle", "path": ".", "glob": "run/*"});
    let server = Server::start([
        reply().tool_use("Grep", grep),
        reply().tool_use("Read", json!({"file_path": "run/pipe"})),
        reply().tool_use("Read", json!({"file_path": "/dev/zero"})),
        reply().text("done"),
    ]);
    let ran = program.against(&server).run();
    server.finish();
    let results = ran.tool_results();
    assert!(
        results[0].0.contains("run/a.txt") && !results[0].1,
        "{}",
        results[0].0
    );
    assert!(
        results[1].1 && results[1].0.contains("not a regular file"),
        "{}",
        results[1].0
    );
    assert!(results[2].1, "{}", results[2].0);
    assert!(ran.prompt(0)["duration_ms"].as_u64().unwrap() < 10_000);
}

const MEBIBYTE: u64 = 1 << 20;

#[test]
fn g42_endless_output_is_held_in_bounded_memory_and_its_end_is_shown() {
    let command = "yes | head -c 400000000; echo LAST-LINE; exit 3";
    let server = Server::start([
        reply().tool_use("Bash", json!({"command": command})),
        reply().text("done"),
    ]);
    let running = Program::new(&job("Bash")).against(&server).start();
    let peak = running.peak_memory();
    let ran = running.wait();
    server.finish();
    assert_passed(&ran);
    let (text, is_error) = &ran.tool_results()[0];
    assert!(*is_error && text.starts_with("y\ny\n"), "{text}");
    assert!(
        text.contains("LAST-LINE\nExit code 3"),
        "{}",
        &text[text.len().saturating_sub(300)..]
    );
    let lost = 400_000_010 - 8 * MEBIBYTE;
    let says =
        format!("that is without {lost} bytes of the output, which were not kept; the rest is in");
    assert!(text.contains(&says), "{}", text.replace("y\n", ""));
    assert!(text.chars().count() <= 31_000);
    let structured = ran
        .transcript("job/prompt-1")
        .into_iter()
        .find_map(|line| line.get("tool_use_result").cloned())
        .unwrap();
    assert_eq!(
        (&structured["exit_code"], &structured["output_bytes"]),
        (&json!(3), &json!(400_000_010))
    );
    let peak = peak.join().unwrap();
    assert!((MEBIBYTE..200 * MEBIBYTE).contains(&peak), "{peak} bytes");
}

#[test]
fn g42_a_long_line_is_cut_between_characters() {
    let program = Program::new(&job("Bash"));
    let ran = calls(
        program,
        &[("Bash", json!({"command": "printf '🚀%.0s' {1..50000}"}))],
    );
    let (text, is_error) = &ran.tool_results()[0];
    assert!(!is_error && text.starts_with('🚀') && text.ends_with('🚀'));
    assert!(!text.contains('\u{fffd}'));
    assert!(
        text.contains("characters (200000 bytes) left out"),
        "{}",
        text.replace('🚀', "")
    );
}

#[test]
fn g46_a_command_gets_no_key_and_what_the_job_names() {
    let answers = || {
        [
            reply().tool_use("Bash", json!({"command": "env"})),
            reply().text("done"),
        ]
    };
    let with = |job: &str| {
        let program = Program::new(job)
            .env("GH_TOKEN", "gh-1234567890")
            .env("LANG", "C.UTF-8");
        let (ran, _) = run(program, answers());
        assert_passed(&ran);
        let lines = ran.tool_results().remove(0).0;
        let mut names: Vec<String> = lines
            .lines()
            .filter_map(|line| Some(line.split_once('=')?.0.to_owned()))
            .collect();
        names.sort();
        (names, lines)
    };
    let (names, _) = with(&job("Bash"));
    for name in ["PATH", "HOME", "LANG"] {
        assert!(
            names.iter().any(|got| got == name),
            "{name} is missing: {names:?}"
        );
    }
    for name in ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "GH_TOKEN"] {
        assert!(
            names.iter().all(|got| got != name),
            "{name} is there: {names:?}"
        );
    }
    let (names, lines) = with(&format!(
        "{}env: {{pass: [GH_TOKEN], set: {{CI: \"1\"}}}}\n",
        job("Bash")
    ));
    assert!(names.iter().any(|name| name == "GH_TOKEN"), "{names:?}");
    assert!(
        lines.contains("CI=1") && !lines.contains("gh-1234567890"),
        "{lines}"
    );
}
