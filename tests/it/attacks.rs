//! Programs and paths that work against the run they are part of: what they may not get from it, and what
//! it must not suffer from them.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::process::Signal;
use serde_json::json;

use super::cases::{assert_passed, is_running, job, run};
use super::program::{Program, Ran, Running, wait_for};
use super::server::{Server, reply};

/// Runs these commands, one a turn; the run must pass.
fn commands(program: Program, commands: &[&str]) -> Ran {
    let asked = commands
        .iter()
        .map(|command| reply().tool_use("Bash", json!({"command": command})));
    let (ran, _) = run(program, asked.chain([reply().text("done")]));
    assert_passed(&ran);
    ran
}

/// A run that is in the middle of this command, which writes its number to `pid`; and that number.
fn in_the_middle_of(command: &str) -> (Running, Server, i32) {
    let server = Server::start([reply().tool_use("Bash", json!({"command": command}))]);
    let running = Program::new(&job("Bash")).against(&server).start();
    let pid_file = running.path().join("pid");
    let pid = wait_for("the command to run", || {
        std::fs::read_to_string(&pid_file).ok()?.trim().parse().ok()
    });
    (running, server, pid)
}

/// Whether a process is gone, or a zombie that nobody waits for.
fn has_ended(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

#[test]
fn two_signals_in_a_row_leave_nothing_alive() {
    let command = "trap '' TERM; setsid sleep 300.41 & (sleep 300.42) & echo $$ >pid; sleep 300.43";
    let (running, server, pid) = in_the_middle_of(command);
    wait_for("all to run", || {
        let all = ["300.41", "300.42", "300.43"];
        all.iter()
            .all(|time| is_running(&format!("sleep {time}")))
            .then_some(())
    });
    running.signal(Signal::INT);
    running.signal(Signal::TERM);
    let ran = running.wait();
    assert!(matches!(ran.code, 130 | 143), "{}", ran.code);
    assert!(!is_running("sleep 300.4"));
    assert!(has_ended(pid));
    drop(server);
}

#[test]
fn the_shell_dies_with_a_runner_that_is_killed() {
    let (running, server, pid) = in_the_middle_of("mkfifo pipe; echo $$ >pid; read line <pipe");
    assert!(!has_ended(pid));
    running.signal(Signal::KILL);
    assert_eq!(running.wait().code, -9);
    wait_for("the end of the shell", || has_ended(pid).then_some(()));
    drop(server);
}

#[test]
fn a_name_that_is_no_utf_8_is_shown_as_far_as_it_can_be() {
    let bash = |command: &str| reply().tool_use("Bash", json!({"command": command}));
    let job = job("Bash, Read, Grep, Glob, Write, Edit").replace("max_turns: 5", "max_turns: 20");
    let (ran, _) = run(
        Program::new(&job),
        [
            bash("mkdir $'d\\xff' && ln -s $'d\\xff' l && echo text | tee l/f >l/$'g\\xfe'"),
            reply().tool_use("Read", json!({"file_path": "l/f"})),
            reply().tool_use("Read", json!({"file_path": "l/none"})),
            reply().tool_use("Read", json!({"file_path": "l"})),
            reply().tool_use("Grep", json!({"pattern": "text", "path": "l"})),
            reply().tool_use("Grep", json!({"pattern": "text", "output_mode": "content"})),
            reply().tool_use("Glob", json!({"pattern": "**", "path": "l"})),
            reply().tool_use("Write", json!({"file_path": "l/new/n", "content": "new"})),
            reply().tool_use(
                "Edit",
                json!({"file_path": "l/f", "old_string": "text", "new_string": "word"}),
            ),
            bash("cd l"),
            bash("cat f new/n"),
            bash("cd missing"),
            reply().text("done"),
        ],
    );
    assert_passed(&ran);
    let results = ran.tool_results();
    let texts: Vec<&str> = results.iter().map(|(text, _)| text.as_str()).collect();
    let errors: Vec<bool> = results.iter().map(|(_, is_error)| *is_error).collect();
    let expected_errors = [
        false, false, true, true, false, false, false, false, false, false, false, true,
    ];
    assert_eq!(errors, expected_errors, "{texts:#?}");
    assert!(texts[1].ends_with("text"), "{}", texts[1]);
    assert_eq!(texts[4], "l/f\nl/g\u{fffd}");
    assert!(texts[5].contains("d\u{fffd}/f:1:text"), "{}", texts[5]);
    assert_eq!(texts[6], "l/f\nl/g\u{fffd}");
    assert_eq!(texts[7], "created l/new/n (1 lines)");
    assert_eq!(texts[10], "word\nnew");
    let cwds: Vec<String> = ran
        .transcript("job/prompt-1")
        .iter()
        .filter_map(|line| Some(line["derived"]["cwd"].as_str()?.to_owned()))
        .collect();
    assert!(cwds.last().unwrap().ends_with("/d\u{fffd}"), "{cwds:?}");
}

#[test]
fn a_record_that_was_touched_is_none() {
    let transcript = "out/job/prompt-1/transcript.jsonl";
    for (command, message) in [
        (format!("rm {transcript}"), "was removed by somebody else"),
        (
            format!("cp {transcript} t && mv t {transcript}"),
            "was replaced by somebody else",
        ),
        (
            format!("rm {transcript} && mkfifo {transcript}"),
            "was replaced by somebody else",
        ),
        (format!(": >{transcript}"), "was changed by somebody else: "),
    ] {
        let answers = [
            reply().tool_use("Bash", json!({"command": command})),
            reply().text("All is well."),
        ];
        let (ran, _) = run(Program::new(&job("Bash")), answers);
        assert_eq!(ran.code, 3, "{command}: {}", ran.stderr);
        let (outcome, reason, said) = ran.end();
        assert_eq!(
            (&*outcome, &*reason),
            ("errored", "record_failed"),
            "{command}"
        );
        assert!(said.contains(message), "{command}: {said}");
        assert!(!ran.stderr.contains("PASS"), "{command}: {}", ran.stderr);
        assert!(ran.junit().contains("type=\"record_failed\""), "{command}");
        // What was written is not lost with the file.
        let document = ran.read("out/job/prompt-1/transcript.json");
        assert!(document.contains("record_failed"), "{command}");
    }
}

#[test]
fn the_runner_s_environment_is_not_for_its_children_to_read() {
    // Root may read everything, so root's run is another user's.
    let is_root = rustix::process::geteuid().is_root();
    let server = Server::start([
        reply().tool_use(
            "Bash",
            json!({"command": "cat /proc/$PPID/environ; echo; cat /proc/self/environ"}),
        ),
        reply().text("done"),
    ]);
    let mut program = Program::new(&job("Bash"))
        .against(&server)
        .file(
            "lightsout",
            std::fs::read(env!("CARGO_BIN_EXE_lightsout")).unwrap(),
        )
        .env("NO_SECRET", "in-the-runner-alone")
        .shell("exec ./lightsout run job.yaml --output out");
    set_mode(&program.path().join("lightsout"), 0o755);
    if is_root {
        hand_over(program.path(), 65_534);
        program = program.under(&[
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ]);
    }
    let ran = program.run();
    server.finish();
    assert_passed(&ran);
    let (text, _) = &ran.tool_results()[0];
    assert!(text.contains("Permission denied"), "{text}");
    assert!(!text.contains("in-the-runner-alone"), "{text}");
    assert!(
        text.contains("LIGHTSOUT_CALL="),
        "its own it may read: {text}"
    );
    if is_root {
        let owner = std::fs::metadata(ran.path().join("out/run.json")).unwrap();
        assert_eq!(owner.uid(), 65_534, "the run was not root's");
    }
}

/// Gives a directory and what is in it to a user.
fn hand_over(directory: &Path, user: u32) {
    for entry in std::fs::read_dir(directory).unwrap() {
        std::os::unix::fs::chown(entry.unwrap().path(), Some(user), Some(user)).unwrap();
    }
    std::os::unix::fs::chown(directory, Some(user), Some(user)).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_temporary_directory_that_is_not_there_is_named() {
    let program = Program::new(&job("Bash")).env("TMPDIR", "/no/such/place");
    let ran = commands(program, &["echo hi"]);
    let text = "bash could not be started: the temporary directory /no/such/place (TMPDIR of the runner) does not exist";
    assert_eq!(ran.tool_results(), [(text.to_owned(), true)]);
}

#[test]
fn a_bash_in_the_job_s_path_is_not_the_one_that_is_started() {
    let program = Program::new(&job("Bash"));
    let workspace = program.path().display().to_string();
    let job = format!(
        "{}checks: [{{command: echo checked}}]\nenv: {{set: {{PATH: \"{workspace}/bin:/usr/bin:/bin\"}}}}\n",
        job("Bash")
    );
    let program = program
        .file("job.yaml", job)
        .file("bin/bash", "#!/bin/sh\ntouch planted\n");
    set_mode(&program.path().join("bin/bash"), 0o755);
    let ran = commands(program, &["echo hi", "command -v bash"]);
    let results = ran.tool_results();
    assert_eq!(results[0], ("hi".to_owned(), false));
    assert_eq!(
        results[1].0,
        format!("{workspace}/bin/bash"),
        "the job's PATH is the command's own"
    );
    assert_eq!(ran.prompt(0)["checks"][0]["passed"], true);
    assert!(!ran.path().join("planted").exists());
}

#[test]
fn a_record_that_was_touched_says_how_the_prompt_had_ended() {
    let job = job("Bash").replace("max_turns: 5", "max_turns: 1");
    let command = "rm out/job/prompt-1/transcript.jsonl";
    let answers = [reply().tool_use("Bash", json!({"command": command}))];
    let server = Server::start(answers);
    let ran = Program::new(&job).against(&server).run();
    server.finish();
    let (_, reason, said) = ran.end();
    assert_eq!(reason, "record_failed");
    assert!(
        said.contains("the prompt itself had ended as max_turns: "),
        "{said}"
    );
}
