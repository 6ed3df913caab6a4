//! `action.yml`, its steps run as GitHub's runner runs those of a composite action.
//!
//! Source of the runner's behaviour: GitHub documentation, "Workflow syntax" (`shell: bash`) and
//! "Workflow commands" (`GITHUB_OUTPUT`); the runner's `CompositeActionHandler`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tempfile::TempDir;

use super::program::wait_for;

#[derive(Deserialize)]
struct Action {
    inputs: BTreeMap<String, Input>,
    outputs: BTreeMap<String, Output>,
    runs: Runs,
}

#[derive(Deserialize)]
struct Input {
    #[serde(default)]
    required: bool,
    default: Option<String>,
}

#[derive(Deserialize)]
struct Output {
    value: String,
}

#[derive(Deserialize)]
struct Runs {
    using: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    id: String,
    shell: String,
    env: BTreeMap<String, String>,
    run: String,
}

fn action() -> Action {
    let text = fs::read_to_string(repository().join("action.yml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A workflow job: its workspace and its `RUNNER_TEMP`, in which the action may be used several times.
struct WorkflowJob {
    directory: TempDir,
    event: &'static str,
    uses: usize,
}

/// What one use of the action came to.
struct Used {
    /// Of the step that failed, else 0.
    code: i32,
    outputs: BTreeMap<String, String>,
    summary: String,
    /// Standard output and error of all steps, as in the log.
    log: String,
}

impl WorkflowJob {
    fn new() -> Self {
        let job = Self {
            directory: tempfile::tempdir().unwrap(),
            event: "push",
            uses: 0,
        };
        for directory in ["workspace", "temp", "files"] {
            fs::create_dir(job.path(directory)).unwrap();
        }
        job
    }

    fn on(mut self, event: &'static str) -> Self {
        self.event = event;
        self
    }

    fn file(self, name: &str, text: &str) -> Self {
        fs::write(self.path("workspace").join(name), text).unwrap();
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn uses(&mut self, inputs: &[(&str, &str)]) -> Used {
        self.uses_while(inputs, |_, _| {})
    }

    /// Uses the action; `meanwhile` is told of each step that has begun, with its id.
    fn uses_while(
        &mut self,
        inputs: &[(&str, &str)],
        meanwhile: impl Fn(&str, &mut Child),
    ) -> Used {
        let action = action();
        assert_eq!(action.runs.using, "composite");
        self.uses += 1;
        let mut known = values(&action, inputs);
        let summary = self.path("files").join(format!("{}-summary", self.uses));
        File::create(&summary).unwrap();
        let (mut code, mut log) = (0, String::new());
        for step in &action.runs.steps {
            assert_eq!(step.shell, "bash");
            let files = self
                .path("files")
                .join(format!("{}-{}", self.uses, step.id));
            fs::create_dir(&files).unwrap();
            let mut child = self.start(step, &known, &files, &summary);
            meanwhile(&step.id, &mut child);
            let status: ExitStatus = wait_for("the end of a step", || child.try_wait().unwrap());
            log += &fs::read_to_string(files.join("log")).unwrap();
            let written = fs::read_to_string(files.join("output")).unwrap();
            for (name, value) in step_outputs(&written) {
                known.insert(format!("steps.{}.outputs.{name}", step.id), value);
            }
            code = status.code().expect("the shell exits");
            if code != 0 {
                break;
            }
        }
        let outputs = action.outputs.iter();
        let outputs = outputs.map(|(name, output)| (name.clone(), expand(&output.value, &known)));
        Used {
            code,
            outputs: outputs.collect(),
            summary: fs::read_to_string(summary).unwrap(),
            log,
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the steps are started as GitHub's runner starts them"
    )]
    fn start(
        &self,
        step: &Step,
        known: &BTreeMap<String, String>,
        files: &Path,
        summary: &Path,
    ) -> Child {
        let script = files.join("script.sh");
        fs::write(&script, &step.run).unwrap();
        File::create(files.join("output")).unwrap();
        let log = File::create(files.join("log")).unwrap();
        let env = step.env.iter();
        Command::new("bash")
            .args(["--noprofile", "--norc", "-eo", "pipefail"])
            .arg(script)
            .current_dir(self.path("workspace"))
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.path("files"))
            .env("CI", "true")
            .env("GITHUB_ACTIONS", "true")
            .env("GITHUB_EVENT_NAME", self.event)
            .env("GITHUB_ACTION_PATH", repository())
            .env("GITHUB_WORKSPACE", self.path("workspace"))
            .env("RUNNER_TEMP", self.path("temp"))
            .env("GITHUB_OUTPUT", files.join("output"))
            .env("GITHUB_STEP_SUMMARY", summary)
            .envs(env.map(|(name, value)| (name, expand(value, known))))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap()
    }
}

/// The inputs by their names in expressions: as given, else by default.
fn values(action: &Action, given: &[(&str, &str)]) -> BTreeMap<String, String> {
    for (name, _) in given {
        assert!(
            action.inputs.contains_key(*name),
            "the action has no input {name}"
        );
    }
    let value = |name: &str, input: &Input| {
        let given = given.iter().find(|(given, _)| *given == name);
        let value = given.map(|(_, value)| (*value).to_owned());
        assert!(value.is_some() || !input.required, "{name} is required");
        value.or_else(|| input.default.clone()).unwrap_or_default()
    };
    let inputs = action.inputs.iter();
    inputs
        .map(|(name, input)| (format!("inputs.{name}"), value(name, input)))
        .collect()
}

/// Replaces `${{ … }}`; an output that no step has set is empty.
fn expand(text: &str, known: &BTreeMap<String, String>) -> String {
    let Some((before, rest)) = text.split_once("${{") else {
        return text.to_owned();
    };
    let (expression, after) = rest.split_once("}}").unwrap();
    let expression = expression.trim();
    let value = match known.get(expression) {
        Some(value) => value.as_str(),
        None if expression.starts_with("steps.") => "",
        None => panic!("the action has no {expression}"),
    };
    format!("{before}{value}{}", expand(after, known))
}

/// Reads a `GITHUB_OUTPUT` file: `name=value`, or `name<<DELIMITER`, lines and `DELIMITER`; what comes
/// first in the line decides.
fn step_outputs(text: &str) -> Vec<(String, String)> {
    let mut outputs = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let (equals, heredoc) = (line.find('='), line.find("<<"));
        match (equals, heredoc) {
            (Some(equals), heredoc) if heredoc.is_none_or(|heredoc| equals < heredoc) => {
                outputs.push((line[..equals].to_owned(), line[equals + 1..].to_owned()));
            }
            (_, Some(heredoc)) => {
                let delimiter = &line[heredoc + 2..];
                let value: Vec<&str> = lines
                    .by_ref()
                    .take_while(|line| *line != delimiter)
                    .collect();
                outputs.push((line[..heredoc].to_owned(), value.join("\n")));
            }
            _ => panic!("{line} is no output"),
        }
    }
    outputs
}

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
