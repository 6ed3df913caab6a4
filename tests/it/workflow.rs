//! GitHub's runner, as far as a composite action needs it.
//!
//! Source of the runner's behaviour: GitHub documentation, "Workflow syntax" (`shell: bash`) and
//! "Workflow commands" (`GITHUB_OUTPUT`); the runner's `CompositeActionHandler`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use serde::Deserialize;
use tempfile::TempDir;

use super::program::wait_for;

#[derive(Deserialize)]
pub(crate) struct Action {
    inputs: BTreeMap<String, Input>,
    outputs: BTreeMap<String, Output>,
    pub(crate) runs: Runs,
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
pub(crate) struct Runs {
    using: String,
    pub(crate) steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) id: String,
    shell: String,
    env: BTreeMap<String, String>,
    pub(crate) run: String,
}

pub(crate) fn action() -> Action {
    let text = fs::read_to_string(repository().join("action.yml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A workflow job: its workspace and its `RUNNER_TEMP`, in which the action may be used several times.
pub(crate) struct WorkflowJob {
    directory: TempDir,
    event: &'static str,
    uses: usize,
}

/// What one use of the action came to.
pub(crate) struct Used {
    /// Of the step that failed, else 0.
    pub(crate) code: i32,
    pub(crate) outputs: BTreeMap<String, String>,
    pub(crate) summary: String,
    /// Standard output and error of all steps, as in the log.
    pub(crate) log: String,
}

impl WorkflowJob {
    pub(crate) fn new() -> Self {
        let job = Self {
            directory: tempfile::tempdir().unwrap(),
            event: "push",
            uses: 0,
        };
        for directory in ["workspace", "temp", "files", "bin"] {
            fs::create_dir(job.path(directory)).unwrap();
        }
        job
    }

    pub(crate) fn on(mut self, event: &'static str) -> Self {
        self.event = event;
        self
    }

    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        fs::write(self.path("workspace").join(name), text).unwrap();
        self
    }

    /// A program on the machine's PATH.
    pub(crate) fn program(self, name: &str, script: &str) -> Self {
        let path = self.path("bin").join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn uses(&mut self, inputs: &[(&str, &str)]) -> Used {
        self.uses_while(inputs, |_, _| {})
    }

    /// Uses the action; `meanwhile` is told of each step that has begun, with its id.
    pub(crate) fn uses_while(
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
        // A shell cannot trap what was ignored when it began, as SIGINT is below a job in the background.
        Command::new("env")
            .args(["--default-signal", "bash"])
            .args(["--noprofile", "--norc", "-eo", "pipefail"])
            .arg(script)
            .current_dir(self.path("workspace"))
            .env_clear()
            .env(
                "PATH",
                format!(
                    "{}:/usr/local/bin:/usr/bin:/bin",
                    self.path("bin").display()
                ),
            )
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
pub(crate) fn step_outputs(text: &str) -> Vec<(String, String)> {
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
