//! The binary, run in a directory of its own; reads like the case.
//!
//! ```ignore
//! let server = Server::start([reply().text("4")]);
//! let ran = Program::new("prompts: [What is 2 + 2?]\nmax_budget_usd: 1").against(&server).run();
//! assert_eq!(ran.code, 0);
//! ```

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::server::Server;

/// Longer than any run of a test takes; a run that hangs fails its test instead of stopping all.
const PATIENCE: Duration = Duration::from_mins(1);

/// A run to be made: a job file `job.yaml` in a workspace of its own.
pub(crate) struct Program {
    directory: TempDir,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    wrapper: Vec<String>,
    command: Vec<String>,
    executable: &'static str,
}

/// A run that has begun.
pub(crate) struct Running {
    child: Child,
    directory: TempDir,
}

/// A run that has ended.
pub(crate) struct Ran {
    /// The exit code; the negative signal if it was killed.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    directory: TempDir,
}

impl Program {
    /// `lightsout run job.yaml --output out` with this job file.
    pub(crate) fn new(job: &str) -> Self {
        Self::bare(&["run", "job.yaml", "--output", "out"]).file("job.yaml", job)
    }

    /// `lightsout` with these arguments, in an empty workspace.
    pub(crate) fn bare(command: &[&str]) -> Self {
        Self::within(tempfile::tempdir().unwrap(), command)
    }

    fn within(directory: TempDir, command: &[&str]) -> Self {
        Self {
            directory,
            arguments: Vec::new(),
            environment: Vec::new(),
            wrapper: Vec::new(),
            command: command.iter().map(|&word| word.to_owned()).collect(),
            executable: env!("CARGO_BIN_EXE_lightsout"),
        }
    }

    /// The program is started by another one, which takes its command line as arguments.
    pub(crate) fn under(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// This command line by a shell, instead of `lightsout`.
    pub(crate) fn shell(mut self, line: &str) -> Self {
        self.executable = "bash";
        self.command = vec!["-c".to_owned(), line.to_owned()];
        self
    }

    /// A file in the workspace.
    pub(crate) fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }

    /// A copy of a file of the repository's `fixtures`.
    pub(crate) fn fixture(self, path: &str, fixture: &str) -> Self {
        let content = std::fs::read(fixtures().join(fixture)).unwrap();
        self.file(path, content)
    }

    /// The model is this server.
    pub(crate) fn against(self, server: &Server) -> Self {
        self.env("ANTHROPIC_BASE_URL", &server.url())
            .env("ANTHROPIC_API_KEY", "sk-test-0123456789")
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn args(mut self, arguments: &[&str]) -> Self {
        self.arguments
            .extend(arguments.iter().map(|&argument| argument.to_owned()));
        self
    }

    /// The workspace.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The command with a clean environment, its outputs on pipes.
    #[expect(
        clippy::disallowed_methods,
        reason = "the program under test is started as a user would"
    )]
    pub(crate) fn command(&self) -> Command {
        let program = self.executable.to_owned();
        let mut words = self.wrapper.iter().chain([&program]);
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .args(&self.command)
            .args(&self.arguments)
            .current_dir(self.directory.path())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.directory.path())
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn start(self) -> Running {
        let child = self.command().spawn().unwrap();
        Running {
            child,
            directory: self.directory,
        }
    }

    pub(crate) fn run(self) -> Ran {
        self.start().wait()
    }

    /// What somebody else left in the workspace, looked at like the end of a run.
    pub(crate) fn left_behind(self) -> Ran {
        Ran {
            code: 0,
            stdout: String::new(),
            stderr: String::new(),
            directory: self.directory,
        }
    }
}

impl Running {
    pub(crate) fn id(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// The workspace.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Sends a signal by name, such as `TERM`.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.id()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// The most memory the program held at once until it ended, in bytes: join the thread after the end.
    pub(crate) fn peak_memory(&self) -> std::thread::JoinHandle<u64> {
        let status = format!("/proc/{}/status", self.id());
        std::thread::spawn(move || {
            let mut peak = 0;
            // The figure only grows, and is gone when the process has ended.
            while let Some(kilobytes) = std::fs::read_to_string(&status).ok().and_then(|status| {
                let line = status
                    .lines()
                    .find_map(|line| line.strip_prefix("VmHWM:"))?;
                line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
            }) {
                peak = kilobytes * 1024;
                std::thread::sleep(Duration::from_millis(5));
            }
            peak
        })
    }

    /// Waits for the end before it reads anything.
    pub(crate) fn wait_unread(mut self) -> Ran {
        wait_for("the end of the run", || self.child.try_wait().unwrap());
        self.wait()
    }

    pub(crate) fn wait(mut self) -> Ran {
        let stdout = drain(self.child.stdout.take().unwrap());
        let stderr = drain(self.child.stderr.take().unwrap());
        let status = wait_for("the end of the run", || self.child.try_wait().unwrap());
        let code = status
            .code()
            .unwrap_or_else(|| -std::os::unix::process::ExitStatusExt::signal(&status).unwrap());
        Ran {
            code,
            stdout: stdout.join().unwrap(),
            stderr: stderr.join().unwrap(),
            directory: self.directory,
        }
    }
}

fn drain(mut pipe: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Asks again and again until there is an answer.
#[expect(
    clippy::disallowed_methods,
    reason = "the patience of a test is no time of the product"
)]
pub(crate) fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Ran {
    /// The workspace.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// `lightsout` with these arguments in what this run left behind.
    pub(crate) fn then(self, command: &[&str]) -> Program {
        Program::within(self.directory, command)
    }

    /// A file of the workspace as text.
    pub(crate) fn read(&self, path: &str) -> String {
        let path = self.path().join(path);
        std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}\n{}", path.display(), self.stderr))
    }

    pub(crate) fn run_json(&self) -> Value {
        serde_json::from_str(&self.read("out/run.json")).unwrap()
    }

    /// The record of the first job's prompt at `index`.
    pub(crate) fn prompt(&self, index: usize) -> Value {
        self.run_json()["jobs"][0]["prompts"][index].clone()
    }

    pub(crate) fn junit(&self) -> String {
        self.read("out/junit.xml")
    }

    /// Outcome, reason, and message of the first prompt.
    pub(crate) fn end(&self) -> (String, String, String) {
        let prompt = self.prompt(0);
        let text = |key: &str| prompt[key].as_str().unwrap().to_owned();
        (text("outcome"), text("reason"), text("message"))
    }

    /// The lines of the transcript at this place, such as `job/prompt-1`.
    pub(crate) fn transcript(&self, place: &str) -> Vec<Value> {
        let lines = self.read(&format!("out/{place}/transcript.jsonl"));
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// What the first prompt's tool results say, in the order in which they were recorded: text and
    /// whether it is an error.
    pub(crate) fn tool_results(&self) -> Vec<(String, bool)> {
        self.tool_results_of("job/prompt-1")
    }

    /// The same of the prompt at this place.
    pub(crate) fn tool_results_of(&self, place: &str) -> Vec<(String, bool)> {
        let blocks = self.transcript(place).into_iter().filter_map(|line| {
            let block = line["message"]["content"].as_array()?.first()?.clone();
            (block["type"] == "tool_result").then_some(block)
        });
        blocks
            .map(|block| {
                let text = block["content"]
                    .as_str()
                    .map_or_else(|| block["content"].to_string(), str::to_owned);
                (text, block["is_error"] == true)
            })
            .collect()
    }

    /// Every call of the first prompt's transcript has exactly one result, and the last line is `result`.
    pub(crate) fn assert_transcript_is_whole(&self) {
        self.assert_whole("job/prompt-1");
    }

    /// The same of the prompt at this place.
    pub(crate) fn assert_whole(&self, place: &str) {
        let lines = self.transcript(place);
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        for block in lines
            .iter()
            .filter_map(|line| line["message"]["content"].as_array())
            .flatten()
        {
            match block["type"].as_str() {
                Some("tool_use") => calls.push(block["id"].as_str().unwrap().to_owned()),
                Some("tool_result") => {
                    results.push(block["tool_use_id"].as_str().unwrap().to_owned());
                }
                _ => {}
            }
        }
        calls.sort();
        results.sort();
        assert_eq!(calls, results, "calls and results do not pair");
        assert_eq!(lines.last().unwrap()["type"], "result");
    }
}

/// The repository's `fixtures`.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}
