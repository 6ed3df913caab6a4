//! The jobs that people copy: each is valid, and each runs on a cassette in a small repository, where its
//! rules meet calls that they allow and calls that they deny.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::program::{Program, Ran, fixtures};

/// The repository's `jobs`.
fn jobs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("jobs")
}

fn job_files() -> Vec<PathBuf> {
    let entries = fs::read_dir(jobs()).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// `lightsout run` of the job in a copy of a small repository: `main` with a program and its README, and a
/// branch that adds `src/half.rs`.
fn in_a_repository(job: &str, cassette: &str) -> Program {
    let cassette = fixtures().join("cassettes").join(cassette);
    let command = ["run", &format!("jobs/{job}"), "--output", "out", "--replay"];
    let program = Program::bare(&command)
        .args(&[cassette.to_str().unwrap()])
        .file(&format!("jobs/{job}"), fs::read(jobs().join(job)).unwrap())
        .file("README.md", "This program doubles numbers.\n")
        .file(".gitignore", ".env\n/out\n/fake\n/ran\n")
        .file(".env", "API_KEY=hunter2hunter2\n")
        .file("src/models/models.json", "{}\n");
    git(
        program.path(),
        &["init", "--quiet", "--initial-branch=main"],
    );
    commit(program.path(), "begin");
    git(
        program.path(),
        &["update-ref", "refs/remotes/origin/main", "HEAD"],
    );
    let program = program.file(
        "src/half.rs",
        "// FIXME: odd numbers\npub fn half(n: u32) -> u32 { return n / 2; }\n",
    );
    commit(program.path(), "halve numbers");
    program
}

/// A `cargo` first on PATH that notes how it was called and does what `script` says.
fn with_cargo(program: Program, script: &str) -> Program {
    let program = program.file(
        "fake/cargo",
        format!("#!/bin/sh\necho \"cargo $*\" >> ran\n{script}\n"),
    );
    let fake = program.path().join("fake");
    fs::set_permissions(fake.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", fake.display());
    program.env("PATH", &path)
}

fn commit(repository: &Path, message: &str) {
    git(repository, &["add", "--all"]);
    git(repository, &["commit", "--quiet", "--message", message]);
}

#[expect(
    clippy::disallowed_methods,
    reason = "the workspace of a test is made with git"
)]
fn git(repository: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@example.org"])
        .args(arguments)
        .current_dir(repository)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .status()
        .unwrap();
    assert!(status.success(), "git {arguments:?}");
}

/// Each prompt's id, outcome and reason.
fn ends(ran: &Ran) -> Vec<(String, String, String)> {
    let run_json = ran.run_json();
    let prompts = run_json["jobs"][0]["prompts"].as_array().unwrap().clone();
    let text = |prompt: &serde_json::Value, key: &str| prompt[key].as_str().unwrap().to_owned();
    prompts
        .iter()
        .map(|prompt| {
            (
                text(prompt, "id"),
                text(prompt, "outcome"),
                text(prompt, "reason"),
            )
        })
        .collect()
}

fn end(id: &str, outcome: &str, reason: &str) -> (String, String, String) {
    (id.to_owned(), outcome.to_owned(), reason.to_owned())
}

/// Each result of a prompt in the order of its calls: the tool and `denied`, `error` or `ok`.
fn results(ran: &Ran, place: &str) -> Vec<String> {
    let lines = ran.transcript(place);
    let blocks = || {
        let contents = lines
            .iter()
            .filter_map(|line| line["message"]["content"].as_array());
        contents.flatten()
    };
    let result_of = |id: &serde_json::Value| {
        let mut results = blocks().filter(|block| block["tool_use_id"] == *id);
        results.next().expect("every call has its result")
    };
    let denied: Vec<&serde_json::Value> = lines
        .iter()
        .filter(|line| line["subtype"] == "permission" && line["decision"] == "denied")
        .map(|line| &line["tool_use_id"])
        .collect();
    let calls = blocks().filter(|block| block["type"] == "tool_use");
    calls
        .map(|call| {
            let word = match (denied.contains(&&call["id"]), result_of(&call["id"])) {
                (true, _) => "denied",
                (false, result) if result["is_error"] == true => "error",
                (false, _) => "ok",
            };
            format!("{} {word}", call["name"].as_str().unwrap())
        })
        .collect()
}

#[test]
fn every_job_is_valid() {
    for file in job_files() {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let ran = Program::bare(&["validate", file.to_str().unwrap()]).run();
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(
            ran.stdout.contains(&format!(": ok, job `{name}`")),
            "{}",
            ran.stdout
        );
        assert!(!ran.stderr.contains(": warning: "), "{}", ran.stderr);
    }
}

#[test]
fn the_review_reads_the_change_and_nothing_secret() {
    let ran = in_a_repository("pull-request-review.yaml", "pull-request-review.yaml").run();
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(
        ends(&ran),
        [
            end("correctness", "passed", "completed"),
            end("tests", "passed", "completed")
        ]
    );
    assert_eq!(
        results(&ran, "pull-request-review/correctness"),
        [
            "Bash ok",
            "Bash ok",
            "Read ok",
            "Glob ok",
            "Read denied",
            "Grep ok",
            "Bash denied",
            "Write denied"
        ]
    );
    assert_eq!(results(&ran, "pull-request-review/tests"), ["Bash ok"]);
    let transcript = ran.read("out/pull-request-review/correctness/transcript.jsonl");
    assert!(transcript.contains("+pub fn half"), "the diff was read");
    assert!(
        !transcript.contains("hunter2"),
        "neither Read nor Grep shows .env"
    );
    assert!(!ran.path().join("review.txt").exists());
}

#[test]
fn the_triage_reads_and_fails_when_the_model_tries_to_write() {
    let ran = in_a_repository("nightly-triage.yaml", "nightly-triage.yaml")
        .args(&["--quiet"])
        .run();
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert_eq!(
        ends(&ran),
        [
            end("markers", "passed", "completed"),
            end("documents", "failed", "permission_denied")
        ]
    );
    assert_eq!(
        results(&ran, "nightly-triage/markers"),
        ["Grep ok", "Bash ok"]
    );
    assert_eq!(
        results(&ran, "nightly-triage/documents"),
        ["Read ok", "Glob ok", "Bash denied"]
    );
    assert_eq!(ran.read("README.md"), "This program doubles numbers.\n");
    assert!(
        ran.stderr.contains("FAIL nightly-triage/documents"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_triage_says_nothing_when_all_is_well() {
    let ran = in_a_repository("nightly-triage.yaml", "nightly-triage.yaml")
        .args(&["--quiet", "--only", "markers"])
        .run();
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (0, "", ""));
}

#[test]
fn the_gate_lets_the_model_mend_and_runs_the_checks() {
    let program = in_a_repository("pre-merge-gate.yaml", "pre-merge-gate.yaml");
    let ran = with_cargo(program, "exit 0").run();
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ends(&ran), [end("mend", "passed", "completed")]);
    assert_eq!(
        results(&ran, "pre-merge-gate/mend"),
        ["Bash ok", "Read ok", "Edit ok", "Bash ok"]
    );
    assert!(ran.read("src/half.rs").contains("{ n / 2 }"));
    assert_eq!(
        ran.read("ran"),
        "cargo fmt --all\n\
         cargo clippy --all-targets\n\
         cargo test\n\
         cargo fmt --all --check\n\
         cargo clippy --all-targets -- -D warnings\n\
         cargo test\n"
    );
}

#[test]
fn the_gate_fails_when_a_check_does_whatever_the_model_says() {
    let program = in_a_repository("pre-merge-gate.yaml", "pre-merge-gate.yaml");
    let ran = with_cargo(program, "[ \"$1\" != test ]").run();
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert_eq!(ends(&ran), [end("mend", "failed", "checks_failed")]);
    let checks = ran.prompt(0)["checks"].clone();
    let passed: Vec<bool> = checks
        .as_array()
        .unwrap()
        .iter()
        .map(|check| check["passed"].as_bool().unwrap())
        .collect();
    assert_eq!(passed, [true, true, false]);
}

#[test]
fn the_gate_fails_when_the_model_tries_to_pass_by_other_means() {
    let program = in_a_repository("pre-merge-gate.yaml", "pre-merge-gate-cheats.yaml");
    let ran = with_cargo(program, "exit 0").run();
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert_eq!(ends(&ran), [end("mend", "failed", "permission_denied")]);
    assert_eq!(
        results(&ran, "pre-merge-gate/mend"),
        [
            "Read ok",
            "Edit denied",
            "Write denied",
            "Bash denied",
            "Bash denied",
            "Bash denied"
        ]
    );
    assert_eq!(ran.read("src/models/models.json"), "{}\n");
    assert_eq!(
        ran.read("jobs/pre-merge-gate.yaml"),
        fs::read_to_string(jobs().join("pre-merge-gate.yaml")).unwrap()
    );
}
