//! The Bash tool.
//!
//! Each call is a shell of its own; only the directory in which it ended is kept for the next one.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::message::ToolSpec;
use crate::policy::{Permit, Target};
use crate::sandbox::{Cancel, Ending, Finished, OutputCap, ProcessSpec, run};

use super::shell_end::ShellEnd;
use super::{Output, Session, Tool, Touches};

/// Milliseconds a command may take unless the model asks for fewer or more.
const DEFAULT_TIMEOUT_MS: u64 = 120_000;

/// The most milliseconds a model may ask for.
const MAX_TIMEOUT_MS: u64 = 600_000;

/// What is held of an output; more than that is never saved either.
const OUTPUT_CAP: OutputCap = OutputCap {
    head: 4 * 1024 * 1024,
    tail: 4 * 1024 * 1024,
};

/// Names of the signals that end programs, for the reader of a result. Source: signal(7), x86 and ARM.
const SIGNALS: [(i32, &str); 12] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (15, "SIGTERM"),
    (24, "SIGXCPU"),
];

/// Runs a command in bash.
#[derive(Clone, Copy, Debug)]
pub struct Bash;

impl Tool for Bash {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "Bash".into(),
            description: format!(
                "Runs a command in a fresh bash and returns what it printed.\n\
                 - The working directory is kept between calls as long as it is inside the workspace; nothing else is: no variables, functions or background processes.\n\
                 - There is no terminal and no input: what asks, pages or opens an editor fails.\n\
                 - It is ended after `timeout` milliseconds ({DEFAULT_TIMEOUT_MS} by default, at most {MAX_TIMEOUT_MS}); what it leaves running is ended too.\n\
                 - To find, search, read and change files use Glob, Grep, Read, Edit and Write."
            ),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "command": {"type": "string", "description": "The command"},
                    "timeout": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_TIMEOUT_MS,
                        "description": "Milliseconds it may take",
                    },
                    "description": {
                        "type": "string",
                        "description": "What it does, in a few words",
                    },
                },
                "required": ["command"],
                "additionalProperties": false,
            }),
        }
    }

    fn touches(&self, input: &Value) -> Touches {
        Touches::Command(input["command"].as_str().unwrap_or_default().to_owned())
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn max_result_chars(&self) -> usize {
        30_000
    }

    fn run(&self, permit: &Permit, input: &Value, session: &Session, cancel: &Cancel) -> Output {
        let Target::Command { command, cwd } = &permit.call().target else {
            unreachable!("a command was judged as {:?}", permit.call().target);
        };
        if !cwd.is_dir() {
            session.set_cwd(session.workspace().root().to_owned());
            return Output::error(format!(
                "the working directory {} is gone; the next command runs in {}",
                cwd.display(),
                session.workspace().root().display()
            ));
        }
        let timeout =
            Duration::from_millis(input["timeout"].as_u64().unwrap_or(DEFAULT_TIMEOUT_MS));
        let end = match ShellEnd::new() {
            Ok(end) => end,
            Err(why) => return Output::error(format!("bash could not be started: {why}")),
        };
        let spec = ProcessSpec {
            program: session.bash().into(),
            args: vec![
                "--noprofile".into(),
                "--norc".into(),
                "-c".into(),
                script(command, &end.path()),
            ],
            cwd: cwd.clone(),
            env: session.environment().clone(),
            timeout,
            output_cap: OUTPUT_CAP,
        };
        let finished = match run(&spec, cancel) {
            Ok(finished) => finished,
            Err(error) => return Output::error(format!("bash could not be started: {error}")),
        };
        let left = keep_cwd(&end, session);
        end.remove(session.bash());
        output(&finished, timeout, left, session)
    }
}

/// The command, with a trap before it that notes where the shell ends, also after `exit` and `set -e`.
fn script(command: &str, end_file: &Path) -> std::ffi::OsString {
    let mut trap = b"builtin pwd -P 2>/dev/null >|".to_vec();
    trap.extend(quoted(end_file.as_os_str()));
    let mut script = b"trap -- ".to_vec();
    script.extend(quoted(OsStr::from_bytes(&trap)));
    // On the command's own first line, so that bash counts its lines from 1.
    script.extend(b" EXIT;");
    script.extend(command.as_bytes());
    std::ffi::OsString::from_vec(script)
}

/// One word for the shell, whatever it holds.
fn quoted(word: &OsStr) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend(br"'\''"),
            byte => quoted.push(byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Keeps the directory in which the shell ended, if it is inside the workspace; else returns it.
/// A shell that was killed, or that set an EXIT trap of its own, did not say: then all stays as it was.
fn keep_cwd(end: &ShellEnd, session: &Session) -> Option<PathBuf> {
    let mut path = end.read()?;
    if path.pop() != Some(b'\n') {
        return None;
    }
    let cwd = fs::canonicalize(OsStr::from_bytes(&path)).ok()?;
    if session.workspace().contains(&cwd) {
        session.set_cwd(cwd);
        return None;
    }
    Some(cwd)
}

fn output(
    finished: &Finished,
    timeout: Duration,
    left_for: Option<PathBuf>,
    session: &Session,
) -> Output {
    let mut text = finished.output.text();
    text.truncate(text.trim_end().len());
    let mut say = |line: std::fmt::Arguments<'_>| {
        if !text.is_empty() {
            text.push('\n');
        }
        let _ = text.write_fmt(line);
    };
    match finished.ending {
        Ending::Exited(0) => {}
        Ending::Exited(code) => say(format_args!("Exit code {code}")),
        Ending::Signalled(signal) => say(format_args!("Killed by {}", signal_name(signal))),
        Ending::TimedOut => say(format_args!("Killed after {} (timeout)", seconds(timeout))),
        Ending::Cancelled => say(format_args!("Killed: the run was ended")),
    }
    if !finished.left_running.is_empty() {
        let left = finished.left_running.join(", ");
        say(format_args!("Left running and ended: {left}"));
    }
    if let Some(left_for) = left_for {
        say(format_args!(
            "{} is outside the workspace; the next command runs in {}",
            left_for.display(),
            session.cwd().display()
        ));
    }
    Output {
        is_error: finished.ending != Ending::Exited(0),
        structured: structured(finished),
        ..Output::text(text, Value::Null)
    }
}

fn structured(finished: &Finished) -> Value {
    let (exit_code, signal) = match finished.ending {
        Ending::Exited(code) => (Some(code), None),
        Ending::Signalled(signal) => (None, Some(signal)),
        Ending::TimedOut | Ending::Cancelled => (None, None),
    };
    json!({
        "exit_code": exit_code,
        "signal": signal,
        "timed_out": finished.ending == Ending::TimedOut,
        "cancelled": finished.ending == Ending::Cancelled,
        "output_bytes": finished.output.total,
        "output_bytes_left_out": finished.output.left_out(),
        "duration_ms": u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX),
        "left_running": finished.left_running,
    })
}

fn signal_name(signal: i32) -> String {
    match SIGNALS.iter().find(|(number, _)| *number == signal) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("signal {signal}"),
    }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::session::testing::Bench;
    use super::*;
    use crate::message::ResultContent;

    fn bash(bench: &Bench, command: &str) -> (String, bool) {
        bench.call("Bash", json!({"command": command}))
    }

    #[test]
    fn what_was_printed_comes_back_with_how_it_ended() {
        let bench = Bench::new();
        for (command, expected, is_error) in [
            ("echo out; echo err >&2; echo out", "out\nerr\nout", false),
            ("echo no; exit 3", "no\nExit code 3", true),
            ("false", "Exit code 1", true),
            ("set -e; echo a; false; echo b", "a\nExit code 1", true),
            ("kill -TERM $$", "Killed by SIGTERM", true),
            ("# only a comment", "(no output)", false),
            ("printf 'a\\377b'", "a\u{FFFD}b", false),
            ("echo 'it'\\''s'", "it's", false),
            ("cat <<E\nhere\nE", "here", false),
        ] {
            assert_eq!(
                bash(&bench, command),
                (expected.into(), is_error),
                "{command}"
            );
        }
        let (text, is_error) = bash(&bench, "echo 'open");
        assert!(
            is_error && text.contains("line 1") && text.ends_with("Exit code 2"),
            "{text}"
        );
    }

    #[test]
    fn g30_silence_is_said() {
        let bench = Bench::new();
        assert_eq!(bash(&bench, "true"), ("(no output)".into(), false));
    }

    #[test]
    fn the_directory_is_kept_inside_the_workspace() {
        let bench = Bench::new();
        bench.write("it's a dir/f", "");
        symlink("it's a dir", bench.root.join("link")).unwrap();
        let root = bench.root.display().to_string();
        let sub = format!("{root}/it's a dir");
        for (command, expected) in [
            ("pwd", &root),
            ("cd link; exit 0", &"(no output)".to_owned()),
            ("pwd", &sub),
            ("pwd() { echo fooled; }; (cd /); builtin pwd", &sub),
            ("cd ..; trap 'echo own' EXIT", &"own".to_owned()),
            ("pwd", &sub),
            ("cd ..", &"(no output)".to_owned()),
            ("pwd", &root),
        ] {
            assert_eq!(
                bash(&bench, command),
                (expected.clone(), false),
                "{command}"
            );
        }
        let outside = format!("/ is outside the workspace; the next command runs in {root}");
        assert_eq!(bash(&bench, "cd /"), (outside, false));
        assert_eq!(bash(&bench, "pwd"), (root.clone(), false));

        bash(&bench, "mkdir gone; cd gone");
        fs::remove_dir(bench.root.join("gone")).unwrap();
        let gone =
            format!("the working directory {root}/gone is gone; the next command runs in {root}");
        assert_eq!(bash(&bench, "pwd"), (gone, true));
        assert_eq!(bash(&bench, "pwd"), (root, false));
    }

    #[test]
    fn what_the_command_puts_where_the_shell_would_say_its_directory_is_not_taken() {
        let bench = Bench::new();
        bench.write("sub/f", "");
        bench.write("said", format!("{}/sub\n", bench.root.display()));
        let root = bench.root.display().to_string();
        let find = "f=$(tr '\\0' '\\n' </proc/$$/cmdline | grep -ao \"/[^']*/cwd\" | head -n 1); d=${f%/cwd}";
        for put in [
            "mkfifo $f",
            "ln -s $PWD/said $f",
            "mkdir $f",
            "yes | head -c 100000 >$f",
            "mkdir -p $d/closed/x; chmod 0 $d/closed",
            "rm -r $d; ln -s $PWD $d",
            "mkdir -p $d/$(printf 'd/%.0s' {1..100})",
        ] {
            let command = format!("{find}; echo $f; trap - EXIT; {put}");
            let output = bench.run("Bash", json!({"command": command}));
            assert!(!output.is_error, "{put}: {output:?}");
            assert!(output.structured["duration_ms"].as_u64().unwrap() < 30_000);
            let [ResultContent::Text(text)] = &output.content[..] else {
                panic!("{output:?}")
            };
            let directory = text.trim().strip_suffix("/cwd").unwrap();
            assert!(directory.len() > 1, "{text}");
            assert!(fs::symlink_metadata(directory).is_err(), "{put}: {text}");
            assert_eq!(bash(&bench, "pwd"), (root.clone(), false), "{put}");
        }
        assert!(bench.root.join("sub/f").exists());
    }

    #[test]
    fn g02_what_is_left_running_is_ended_and_named() {
        let bench = Bench::new();
        let (text, is_error) = bash(&bench, "sleep 300 & echo started");
        let (shown, named) = text.split_once('\n').unwrap();
        assert_eq!((shown, is_error), ("started", false));
        assert!(named.starts_with("Left running and ended: "), "{text}");
        assert!(named.contains(" (process "), "{text}");
    }

    #[test]
    fn g03_a_timeout_is_told_as_what_it_is() {
        let bench = Bench::new();
        let command = r#"trap "" TERM; (sleep 300) & echo 1; sleep 300"#;
        let output = bench.call("Bash", json!({"command": command, "timeout": 200}));
        assert_eq!(output, ("1\nKilled after 0.2 s (timeout)".into(), true));
        assert_eq!(seconds(Duration::from_secs(2)), "2 s");
    }

    #[test]
    fn g04_an_editor_fails_instead_of_waiting() {
        let bench = Bench::new();
        let (text, is_error) = bash(
            &bench,
            "git init -q . && echo a >f && git add f && \
             git -c user.name=n -c user.email=e commit",
        );
        assert!(is_error && text.ends_with("Exit code 1"), "{text}");
        let (text, is_error) = bash(&bench, "read x </dev/tty");
        assert!(is_error && text.contains("/dev/tty"), "{text}");
    }

    #[test]
    fn g42_of_a_flood_the_end_is_shown() {
        let bench = Bench::new();
        let (text, is_error) = bash(&bench, "yes | head -c 20000000; echo LAST-LINE; exit 3");
        assert!(is_error && text.ends_with("y\nLAST-LINE\nExit code 3"));
        assert!(text.chars().count() <= 30_000 && text.starts_with("y\ny\n"));
        let saved = fs::read_to_string(bench.outside().join("results/toolu_1.txt")).unwrap();
        assert!(saved.contains("\n\n[… 11611402 bytes left out …]\n\n"));
    }

    #[test]
    fn g46_the_environment_is_the_session_s() {
        let bench = Bench::new();
        let (text, _) = bash(&bench, "env");
        assert!(
            text.contains("GIT_EDITOR=false") && !text.contains("CARGO"),
            "{text}"
        );
    }
}
