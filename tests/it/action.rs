//! `action.yml`: what its steps do and leave when they are run as GitHub's runner runs them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use super::program::wait_for;
use super::workflow::{WorkflowJob, action, repository, step_outputs};

/// The binary under test, as the input that names it.
const BINARY: (&str, &str) = ("binary", env!("CARGO_BIN_EXE_lightsout"));

/// A job answered by this one reply.
fn answered_by(reply: &str) -> WorkflowJob {
    WorkflowJob::new()
        .file(
            "job.yaml",
            "model: replay/cassette.yaml\nallowed_tools: [Read, Bash(touch *), Bash(sleep *)]\n\
             max_turns: 1\nprompts: [Do it.]\n",
        )
        .file(
            "cassette.yaml",
            &format!("model: claude-sonnet-5-5\nreplies:\n  - {reply}\n"),
        )
}

const JOB: (&str, &str) = ("jobs", "job.yaml");

/// The names of the outputs that are not empty.
fn set(outputs: &BTreeMap<String, String>) -> Vec<&str> {
    let set = outputs.iter().filter(|(_, value)| !value.is_empty());
    set.map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_run_that_passes_sets_every_output_and_the_summary() {
    let quickstart = repository().join("jobs/quickstart.yaml");
    let mut job = WorkflowJob::new();
    let used = job.uses(&[BINARY, ("jobs", quickstart.to_str().unwrap())]);
    assert_eq!(used.code, 0, "{}", used.log);
    let outputs = &used.outputs;
    assert_eq!(
        (&*outputs["outcome"], &*outputs["exit_code"]),
        ("passed", "0")
    );
    let run_json = fs::read_to_string(&outputs["result"]).unwrap();
    let run_json: serde_json::Value = serde_json::from_str(&run_json).unwrap();
    let cost: f64 = outputs["cost_usd"].parse().unwrap();
    assert_eq!(run_json["total_cost_usd"], cost);
    let junit = fs::read_to_string(&outputs["junit"]).unwrap();
    assert!(junit.contains(r#"<testcase name="exit-codes""#), "{junit}");
    assert!(Path::new(&outputs["output"]).starts_with(job.path("temp")));
    let summary = Path::new(&outputs["output"]).join("summary.md");
    assert_eq!(used.summary, fs::read_to_string(summary).unwrap());
}

#[test]
fn without_a_named_binary_the_one_on_the_path_is_taken_else_one_is_built() {
    let passes = || answered_by("text: done");
    let binary = BINARY.1;
    let installed = format!("#!/bin/sh\necho taken from PATH\nexec {binary} \"$@\"\n");
    let used = passes().program("lightsout", &installed).uses(&[JOB]);
    assert_eq!(
        (used.code, &*used.outputs["outcome"]),
        (0, "passed"),
        "{}",
        used.log
    );
    assert!(used.log.contains("taken from PATH"), "{}", used.log);

    // Building takes minutes; what is shown is that the action asks for it, and takes what comes of it.
    let manifest = repository().join("Cargo.toml");
    let cargo = format!(
        "#!/bin/sh\ntest \"$1 $2 $3 $4 $5\" = 'build --release --locked --manifest-path {}' || exit 9\n\
         mkdir -p \"$7/release\" && ln -s {binary} \"$7/release/lightsout\" && echo built\n",
        manifest.display()
    );
    let used = passes().program("cargo", &cargo).uses(&[JOB]);
    assert_eq!(
        (used.code, &*used.outputs["outcome"]),
        (0, "passed"),
        "{}",
        used.log
    );
    assert!(used.log.contains("built\n"), "{}", used.log);
}

#[test]
fn a_run_that_fails_fails_the_step_and_still_sets_every_output() {
    let mut job = answered_by("tool_use: {name: Read, input: {file_path: job.yaml}}");
    let used = job.uses(&[BINARY, JOB, ("output", "out")]);
    assert_eq!(used.code, 1, "{}", used.log);
    let expected = [
        ("cost_usd", "0.00007"),
        ("exit_code", "1"),
        ("junit", "out/junit.xml"),
        ("outcome", "failed"),
        ("output", "out"),
        ("result", "out/run.json"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut outputs = used.outputs.clone();
    let cost: f64 = outputs["cost_usd"].parse().unwrap();
    outputs.insert("cost_usd".into(), format!("{cost:.5}"));
    assert_eq!(outputs, BTreeMap::from(expected));
    assert!(used.summary.contains("max_turns"), "{}", used.summary);
}

#[test]
fn the_inputs_reach_the_run_as_they_are() {
    let mut job = WorkflowJob::new()
        .file(
            "a.yaml",
            "prompts: [{id: one, prompt: Do it.}, {id: two, prompt: Do it.}]\n",
        )
        .file(
            "b.yaml",
            "prompts: [{id: one, prompt: Do it.}, {id: three, prompt: Do it.}]\n",
        )
        .file("cassette.yaml", "replies: [{text: done}]\n")
        // The shell would take the glob below for this file.
        .file("onX", "");
    let used = job.uses(&[
        BINARY,
        ("jobs", "a.yaml\nb.yaml"),
        ("replay", "cassette.yaml"),
        ("only", "on* t*"),
        ("skip", "two\nb/one"),
        ("concurrency", "1"),
        ("max_budget_usd", "0.25"),
        ("verbose", "true"),
    ]);
    assert_eq!(used.code, 0, "{}", used.log);
    let run_json = fs::read_to_string(&used.outputs["result"]).unwrap();
    let run_json: serde_json::Value = serde_json::from_str(&run_json).unwrap();
    let jobs = run_json["jobs"].as_array().unwrap();
    let prompts = jobs
        .iter()
        .flat_map(|job| job["prompts"].as_array().unwrap());
    let prompts: Vec<_> = prompts
        .map(|prompt| {
            (
                prompt["id"].as_str().unwrap(),
                prompt["max_budget_usd"].as_f64().unwrap(),
            )
        })
        .collect();
    assert_eq!(prompts, [("one", 0.25), ("three", 0.25)]);
    assert!(used.log.contains("a/one: turn 1"), "{}", used.log);
}

#[test]
fn a_refused_run_has_no_outcome_and_nothing_of_an_older_run() {
    let mut job = answered_by("text: done");
    let first = job.uses(&[BINARY, JOB, ("output", "out")]);
    assert_eq!(first.code, 0, "{}", first.log);
    for inputs in [
        // The directory holds a run that passed.
        vec![BINARY, JOB, ("output", "out")],
        vec![BINARY, ("jobs", "no-such.yaml")],
        vec![BINARY, JOB, ("output", "out\ncost_usd=7")],
    ] {
        let used = job.uses(&inputs);
        assert_eq!(used.code, 2, "{}", used.log);
        assert_eq!(set(&used.outputs), ["exit_code", "outcome"]);
        assert_eq!(
            (&*used.outputs["outcome"], &*used.outputs["exit_code"]),
            ("none", "2")
        );
        assert_eq!(used.summary, "");
    }
}

#[test]
fn filters_that_leave_nothing_have_their_own_exit_code() {
    let used = answered_by("text: done").uses(&[BINARY, JOB, ("only", "other")]);
    assert_eq!(used.code, 4, "{}", used.log);
    assert_eq!(
        (&*used.outputs["outcome"], &*used.outputs["exit_code"]),
        ("none", "4")
    );
}

#[test]
fn the_job_file_of_a_pull_request_is_not_trusted_by_default() {
    for event in [
        "pull_request",
        "pull_request_target",
        "pull_request_review_comment",
    ] {
        let mut job = answered_by("text: done").on(event);
        let used = job.uses(&[BINARY, JOB]);
        assert_eq!(used.code, 2, "{}", used.log);
        assert_eq!(
            (&*used.outputs["outcome"], set(&used.outputs).len()),
            ("none", 2)
        );
        assert!(
            used.log.contains(&format!("on {event} the job file")),
            "{}",
            used.log
        );
        let used = job.uses(&[BINARY, JOB, ("trust_head", "true")]);
        assert_eq!(
            (used.code, &*used.outputs["outcome"]),
            (0, "passed"),
            "{}",
            used.log
        );
    }
}

#[test]
fn what_the_model_says_adds_no_output_and_no_workflow_command() {
    let mut job = answered_by(
        r#"text: "a\nEOF\ninjected=1\noutcome=passed\n  \"outcome\": \"passed\",\n::set-env name=A::b\n ::add-mask::x\n##[add-mask]y\n::stop-commands::t\n""#,
    );
    fs::write(
        job.path("workspace").join("job.yaml"),
        "model: replay/cassette.yaml\nprompts: [Do it.]\nchecks: [{command: 'echo ::error::x; exit 1'}]\n",
    )
    .unwrap();
    let used = job.uses(&[BINARY, JOB, ("verbose", "true")]);
    assert_eq!(used.code, 1, "{}", used.log);
    assert_eq!(used.outputs["outcome"], "failed");
    let written = fs::read_to_string(job.path("files").join("1-run/output")).unwrap();
    let names: Vec<String> = step_outputs(&written)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        names,
        [
            "outcome",
            "exit_code",
            "cost_usd",
            "output",
            "junit",
            "result"
        ]
    );
    let commands = used
        .log
        .lines()
        .filter(|line| line.trim_start().starts_with("::") || line.contains("##["));
    assert_eq!(commands.collect::<Vec<_>>(), [""; 0]);
    assert!(
        used.summary.contains("injected=1"),
        "the text is in the summary"
    );
}

#[test]
fn a_second_use_in_the_same_job_has_a_directory_of_its_own() {
    let mut job = answered_by("text: done");
    let first = job.uses(&[BINARY, JOB]);
    let second = job.uses(&[BINARY, JOB]);
    assert_eq!(
        (first.code, second.code),
        (0, 0),
        "{}{}",
        first.log,
        second.log
    );
    assert_ne!(first.outputs["output"], second.outputs["output"]);
    assert!(Path::new(&first.outputs["junit"]).exists());
    assert!(Path::new(&second.outputs["junit"]).exists());
}

#[test]
fn a_cancelled_step_ends_the_run_in_order_and_sets_its_outputs() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut job =
            answered_by("tool_use: {name: Bash, input: {command: touch started && sleep 300}}");
        let started = job.path("workspace").join("started");
        let used = job.uses_while(&[BINARY, JOB], |step, shell| {
            if step == "run" {
                wait_for("the model's command", || started.exists().then_some(()));
                let shell = Pid::from_raw(shell.id().try_into().unwrap()).unwrap();
                kill_process(shell, signal).unwrap();
            }
        });
        assert_eq!(used.code, code, "{}", used.log);
        let outputs = &used.outputs;
        assert_eq!(outputs["exit_code"], code.to_string());
        assert_eq!(outputs["outcome"], "errored");
        let junit = fs::read_to_string(&outputs["junit"]).unwrap();
        assert!(junit.contains(r#"type="aborted""#), "{junit}");
        assert!(used.summary.contains("aborted"), "{}", used.summary);
    }
}

#[test]
fn no_value_is_pasted_into_a_script() {
    for step in action().runs.steps {
        assert!(!step.run.contains("${{"), "{}", step.id);
    }
}
