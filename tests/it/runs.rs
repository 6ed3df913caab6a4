//! Runs as people start them: options, several files, cassettes, checks, and a disk that is full.

use serde_json::{Value, json};

use super::cases::{assert_end, assert_passed, job, run};
use super::program::{Program, Ran};
use super::server::{Server, reply};
use super::xml::elements;

/// Removes what differs between two runs of the same job: ids, times, and who answered.
fn without_times_and_ids(mut run: Value) -> Value {
    fn strip(value: &mut Value) {
        const DIFFERENT: [&str; 6] = [
            "run_id",
            "session_id",
            "started_at",
            "duration_ms",
            "duration_api_ms",
            "model",
        ];
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| !DIFFERENT.contains(&name.as_str()));
                fields.values_mut().for_each(strip);
            }
            Value::Array(values) => values.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut run);
    run
}

#[test]
fn a_recorded_run_replays_without_a_request_to_the_same_results() {
    let server = Server::start([
        reply()
            .thinking("Hm.")
            .tool_use("Read", json!({"file_path": "a.txt"})),
        reply().tool_use("Bash", json!({"command": "touch marker"})),
        reply().text("It says alpha."),
    ]);
    let recorded = Program::new(&job("Read"))
        .file("a.txt", "alpha\n")
        .args(&["--record", "cassette"])
        .against(&server)
        .run();
    assert_eq!(server.finish().len(), 3);
    assert_end(&recorded, 1, "failed", "permission_denied");
    let first = without_times_and_ids(recorded.run_json());
    let nobody = Server::start([]);
    let replayed = recorded
        .then(&[
            "run", "job.yaml", "--output", "again", "--replay", "cassette",
        ])
        .env("ANTHROPIC_BASE_URL", &nobody.url())
        .run();
    assert_eq!(nobody.finish().len(), 0);
    assert_eq!(replayed.code, 1, "{}", replayed.stderr);
    let second: Value = serde_json::from_str(&replayed.read("again/run.json")).unwrap();
    assert_eq!(without_times_and_ids(second), first);
}

#[test]
fn format_json_prints_run_json() {
    let program = Program::new(&job("")).args(&["--format", "json"]);
    let (ran, _) = run(program, [reply().text("4")]);
    assert_passed(&ran);
    assert_eq!(ran.stdout, ran.read("out/run.json"));
    assert_eq!(ran.run_json()["jobs"][0]["prompts"][0]["result"], "4");
}

#[test]
fn quiet_says_nothing_unless_something_did_not_pass() {
    let quiet = |rules: &str| Program::new(&job(rules)).args(&["--quiet"]);
    let (ran, _) = run(quiet("Bash(true)"), [reply().text("4")]);
    assert_passed(&ran);
    assert_eq!((&*ran.stdout, &*ran.stderr), ("", ""));
    let denied = [
        reply().tool_use("Bash", json!({"command": "touch marker"})),
        reply().text("I could not"),
    ];
    let (ran, _) = run(quiet("Bash(true)"), denied);
    assert_end(&ran, 1, "failed", "permission_denied");
    assert!(
        ran.stderr.contains("permission_denied") && ran.stderr.contains("touch marker"),
        "{}",
        ran.stderr
    );
}

const THREE: &str = "prompts:\n  - {id: a, prompt: A}\n  - {id: b, prompt: B}\n  - {id: bc, prompt: C}\nmax_budget_usd: 1\n";

#[test]
fn only_and_skip_choose_prompts() {
    for (arguments, expected) in [
        (&["--only", "b"][..], &["b"][..]),
        (&["--only", "job/b*"], &["b", "bc"]),
        (&["--skip", "b*"], &["a"]),
        (&["--only", "b*", "--skip", "b"], &["bc"]),
    ] {
        let server = Server::answering(|_| reply().text("ok"));
        let ran = Program::new(THREE).args(arguments).against(&server).run();
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(server.finish().len(), expected.len());
        let run = ran.run_json();
        let prompts = run["jobs"][0]["prompts"].as_array().unwrap();
        let ids: Vec<&str> = prompts
            .iter()
            .map(|prompt| prompt["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, expected);
        let cases = elements(&ran.junit());
        assert_eq!(
            cases.iter().filter(|case| case.name == "testcase").count(),
            expected.len()
        );
    }
}

/// Runs what must be refused: nothing is sent, and nothing is on standard output.
fn refused(program: Program, code: i32, says: &[&str]) -> Ran {
    let server = Server::start([]);
    let ran = program.env("ANTHROPIC_BASE_URL", &server.url()).run();
    assert_eq!(server.finish().len(), 0);
    assert_eq!(ran.code, code, "{}", ran.stderr);
    assert_eq!(ran.stdout, "");
    for words in says {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    ran
}

const KEY: (&str, &str) = ("ANTHROPIC_API_KEY", "sk-test-0123456789");

#[test]
fn filters_that_leave_nothing_have_an_exit_code_of_their_own() {
    let nothing_left = "--only and --skip leave no prompt";
    for (arguments, says) in [
        (
            &["--only", "d"][..],
            "no prompt is named by --only d; the prompts are",
        ),
        (
            &["--only", "a", "--only", "d"],
            "no prompt is named by --only d",
        ),
        (&["--skip", "*"], nothing_left),
        (&["--only", "a", "--skip", "a"], nothing_left),
    ] {
        let program = Program::new(THREE).args(arguments).env(KEY.0, KEY.1);
        let ran = refused(program, 4, &[says]);
        assert!(!ran.path().join("out").exists());
    }
}

#[test]
fn two_job_files_of_one_name_are_refused() {
    let program = Program::bare(&["run", "a/job.yaml", "b/job.yaml", "--output", "out"])
        .file("a/job.yaml", job(""))
        .file("b/job.yaml", job(""))
        .env(KEY.0, KEY.1);
    refused(program, 2, &["b/job.yaml", "a/job.yaml", "name"]);
}

#[test]
fn an_output_directory_that_holds_something_is_refused() {
    let program = Program::new(&job(""))
        .file("out/run.json", "{}")
        .env(KEY.0, KEY.1);
    let ran = refused(program, 2, &["out is not empty"]);
    assert_eq!(ran.read("out/run.json"), "{}");
}

#[test]
fn a_missing_key_is_found_before_anything_is_sent() {
    let ran = refused(Program::new(&job("")), 2, &["ANTHROPIC_API_KEY"]);
    assert!(!ran.path().join("out").exists());
}

#[test]
fn a_failing_check_fails_the_prompt_and_is_a_case_of_its_own() {
    let job = format!(
        "{}checks:\n  - command: test -e a.txt\n  - command: echo looked; exit 7\n",
        job("")
    );
    let (ran, _) = run(Program::new(&job).file("a.txt", ""), [reply().text("ok")]);
    assert_end(&ran, 1, "failed", "checks_failed");
    assert!(ran.end().2.contains("exited with 7"), "{}", ran.end().2);
    let checks = ran.prompt(0)["checks"].clone();
    assert_eq!(
        (&checks[0]["passed"], &checks[1]["passed"]),
        (&json!(true), &json!(false))
    );
    let elements = elements(&ran.junit());
    let cases = elements.iter().filter(|element| element.name == "testcase");
    let names: Vec<&str> = cases.map(|case| case.attribute("name")).collect();
    assert_eq!(names, ["prompt-1", "prompt-1/check-1", "prompt-1/check-2"]);
    let failures: Vec<&str> = elements
        .iter()
        .filter(|element| element.name == "failure")
        .map(|failure| failure.attribute("type"))
        .collect();
    assert_eq!(failures, ["checks_failed", "check_failed"]);
    assert!(ran.junit().contains("looked"));
}

/// A file that may not grow stands for a disk that is full: the error comes in the middle of a write.
const SMALL_DISK: [&str; 3] = [
    "bash",
    "-c",
    "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"",
];

#[test]
fn g50_a_full_disk_is_an_error_that_keeps_the_answer() {
    let answer = "x".repeat(200_000);
    let program = Program::new(&job("")).under(&SMALL_DISK);
    let (ran, _) = run(program, [reply().text(&answer)]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("record_failed"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("out/job/prompt-1"),
        "the path is named: {}",
        ran.stderr
    );
    assert_eq!(ran.stdout, format!("{answer}\n"));
    let transcript = ran.read("out/job/prompt-1/transcript.jsonl");
    let whole = transcript
        .lines()
        .filter(|line| serde_json::from_str::<Value>(line).is_ok());
    let whole = whole.count();
    assert!(
        whole >= 3 && whole + 1 >= transcript.lines().count(),
        "{whole}"
    );
}

#[test]
fn a_fault_does_not_show_a_secret_and_a_good_file_without_a_key_is_warned_of() {
    let job = "prompts: [tell hunter2hunter2]\nmax_turn: 3\nmax_budget_usd: 1\n";
    let validate = |job: &str| Program::bare(&["validate", "job.yaml"]).file("job.yaml", job);
    let faulty = validate(&job.replace("max_turn: 3", "max_turn: hunter2hunter2"))
        .env("MY_TOKEN", "hunter2hunter2")
        .run();
    assert_eq!(faulty.code, 2);
    assert!(
        faulty.stderr.contains("***") && !faulty.stderr.contains("hunter2"),
        "{}",
        faulty.stderr
    );
    let good = validate(&job.replace("max_turn", "max_turns")).run();
    assert_eq!(good.code, 0, "{}", good.stderr);
    assert!(
        good.stderr.contains("warning: no key for the model"),
        "{}",
        good.stderr
    );
}

#[test]
fn the_record_of_a_run_is_not_the_models_to_write() {
    let write = |path: &str| {
        format!("- {{tool_use: {{name: Write, input: {{file_path: {path}, content: forged}}}}}}\n")
    };
    let cassette = [
        "out/run.json",
        "out/job/other/transcript.jsonl",
        "cassette.yaml",
        "new.txt",
    ]
    .map(write)
    .concat();
    let ran = Program::new("model: replay/cassette.yaml\nallowed_tools: [Write]\nprompts: [hi]\n")
        .file(
            "cassette.yaml",
            format!("replies:\n{cassette}- text: done\n"),
        )
        .run();
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let denied = ran.prompt(0)["permission_denials"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(denied, 3, "{}", ran.stderr);
    assert_eq!(ran.read("new.txt"), "forged");
    assert!(!ran.path().join("out/job/other").exists());
}
