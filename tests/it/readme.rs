//! README and ARCHITECTURE say what is so: their commands run, their lists are the program's, the files
//! they name exist.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use lightsout::stop::{Finding, Outcome, StopReason, exit};

use super::program::{Program, Ran};
use super::server::{Server, reply};

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    fs::read_to_string(repository().join(file)).unwrap()
}

/// The fenced blocks of README in this language.
fn blocks(language: &str) -> Vec<String> {
    let readme = read("README.md");
    let fence = format!("```{language}\n");
    let blocks = readme.split(&fence).skip(1);
    blocks
        .map(|rest| rest.split_once("```").unwrap().0.to_owned())
        .collect()
}

/// Every command of README, in its order, without prompts, comments and schedules.
fn commands() -> Vec<String> {
    let mut commands = Vec::new();
    for language in ["console", "sh", "crontab"] {
        for block in blocks(language) {
            commands.extend(block.lines().map(|line| {
                let command = line.strip_prefix("$ ").unwrap_or(line);
                let command = command.split("    # ").next().unwrap();
                command
                    .strip_prefix("17 3 * * *  ")
                    .unwrap_or(command)
                    .trim()
                    .to_owned()
            }));
        }
    }
    commands
}

/// Runs a command of README by a shell, `lightsout` being the binary under test.
fn run(command: &str, program: Program) -> Ran {
    assert!(
        commands().iter().any(|of_readme| of_readme == command),
        "README has no `{command}`"
    );
    let command = command
        .replace("cargo run --release --", "lightsout")
        // The key is the test's, and cron's way to write a percent sign is not the shell's.
        .replace("ANTHROPIC_API_KEY=... ", "")
        .replace("\\%", "%")
        .replace("/srv/app/", "");
    let bin = program.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_lightsout"), bin.join("lightsout")).unwrap();
    program
        .env(
            "PATH",
            &format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()),
        )
        .shell(&command)
        .run()
}

/// A directory with the first job file of README.
fn with_its_job() -> Program {
    Program::bare(&[]).file("job.yaml", &blocks("yaml")[0])
}

fn with_job(name: &str) -> Program {
    let path = format!("jobs/{name}");
    Program::bare(&[]).file(&path, read(&path))
}

#[test]
fn no_command_is_left_untried() {
    assert_eq!(
        commands(),
        [
            "cargo run --release -- run jobs/quickstart.yaml",
            // Runs this test, by the step of CI that takes the command from README.
            "cargo test",
            // Sets what `Program::against` sets.
            "export ANTHROPIC_API_KEY=...",
            "lightsout validate job.yaml",
            "lightsout explain job.yaml 'Bash(git log -3 | sh)'",
            "lightsout run job.yaml",
            "lightsout run jobs/pre-merge-gate.yaml || exit 1",
            "ANTHROPIC_API_KEY=... lightsout run --quiet --output \"$HOME/triage/$(date +\\%F-\\%H\\%M)\" \
             /srv/app/jobs/nightly-triage.yaml",
        ]
    );
}

#[test]
fn the_first_command_runs_and_leaves_what_is_promised() {
    let program = with_job("quickstart.yaml")
        .fixture(
            "fixtures/cassettes/quickstart.yaml",
            "cassettes/quickstart.yaml",
        )
        .file("src/stop.rs", read("src/stop.rs"))
        .file("README.md", read("README.md"));
    let ran = run("cargo run --release -- run jobs/quickstart.yaml", program);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("0 `PASSED`"), "{}", ran.stdout);
    for file in ["run.json", "junit.xml", "summary.md"] {
        assert_ne!(ran.read(&format!("lightsout-runs/latest/{file}")), "");
    }
    for file in ["transcript.jsonl", "transcript.json"] {
        assert_ne!(
            ran.read(&format!(
                "lightsout-runs/latest/quickstart/exit-codes/{file}"
            )),
            ""
        );
    }
}

#[test]
fn its_job_is_valid() {
    let ran = run("lightsout validate job.yaml", with_its_job());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.stdout, "job.yaml: ok, job `job` with 1 prompt\n");
}

#[test]
fn its_job_is_explained() {
    let ran = run(
        "lightsout explain job.yaml 'Bash(git log -3 | sh)'",
        with_its_job(),
    );
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("denied: no rule allows `sh`"),
        "{}",
        ran.stdout
    );
}

#[test]
fn its_job_runs() {
    let server = Server::start([reply().text("Nothing breaks.")]);
    let ran = run("lightsout run job.yaml", with_its_job().against(&server));
    assert_eq!(
        (ran.code, &*ran.stdout),
        (0, "Nothing breaks.\n"),
        "{}",
        ran.stderr
    );
    server.finish();
}

#[test]
fn the_gate_lets_nothing_through_that_its_checks_do_not() {
    let server = Server::start([reply().text("All is well.")]);
    let program = with_job("pre-merge-gate.yaml").against(&server);
    // There is no Cargo.toml, and perhaps no cargo: the checks fail.
    let ran = run("lightsout run jobs/pre-merge-gate.yaml || exit 1", program);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("checks_failed"), "{}", ran.stderr);
    server.finish();
}

#[test]
fn the_line_for_cron_is_silent_and_keeps_its_reports() {
    let server = Server::start([reply().text("None."), reply().text("All true.")]);
    let program = with_job("nightly-triage.yaml").against(&server);
    let line = commands().pop().unwrap();
    let ran = run(&line, program);
    assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (0, "", ""));
    let days: Vec<PathBuf> = fs::read_dir(ran.path().join("triage"))
        .unwrap()
        .map(|day| day.unwrap().path())
        .collect();
    assert_eq!(days.len(), 1);
    assert!(days[0].join("junit.xml").exists());
    server.finish();
}

/// The rows of the table of README that begins with this header, as trimmed cells.
fn table(header: &str) -> Vec<Vec<String>> {
    let readme = read("README.md");
    let rows = readme.lines().skip_while(|line| *line != header).skip(2);
    rows.take_while(|line| line.starts_with('|'))
        .map(|row| {
            let cells = row.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        })
        .collect()
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn its_stop_reasons_are_those_that_this_version_can_give() {
    // Their features do not exist yet.
    let later = [
        StopReason::StopHookPrevented,
        StopReason::HookStopped,
        StopReason::StopHookLoop,
        StopReason::HookError,
        StopReason::InvalidOutput,
    ];
    let mut expected: BTreeSet<(&str, &str)> = StopReason::ALL
        .into_iter()
        .filter(|reason| !later.contains(reason))
        .map(|reason| (reason.outcome().name(), reason.name()))
        .collect();
    for finding in [Finding::ChecksFailed, Finding::PermissionDenied] {
        expected.insert((Outcome::Failed.name(), finding.name()));
    }
    let rows = table("| outcome | reasons |");
    let listed: BTreeSet<(&str, &str)> = rows
        .iter()
        .flat_map(|row| quoted(&row[1]).map(|reason| (&*row[0], reason)))
        .collect();
    assert_eq!(listed, expected);
}

#[test]
fn its_exit_codes_are_those_of_the_program() {
    let rows = table("| exit code | meaning |");
    let codes: Vec<u8> = rows
        .iter()
        .flat_map(|row| row[0].split(", ").map(|code| code.parse().unwrap()))
        .collect();
    let own = [
        exit::PASSED,
        exit::FAILED,
        exit::USAGE,
        exit::ERRORED,
        exit::NOTHING_SELECTED,
    ];
    // 128 and the number of the signal.
    assert_eq!(codes, [&own[..], &[129, 130, 143]].concat());
}

/// The links of README lead to files of the repository.
#[test]
fn its_links_lead_somewhere() {
    let readme = read("README.md");
    let targets = readme.split("](").skip(1);
    let targets: Vec<&str> = targets
        .filter_map(|rest| Some(rest.split_once(')')?.0))
        .collect();
    assert!(targets.len() > 5, "{targets:?}");
    for target in targets {
        let is_there = match target.strip_prefix('#') {
            Some(anchor) => headings(&readme).any(|heading| heading == anchor),
            None => repository().join(target).exists(),
        };
        assert!(is_there, "{target}");
    }
}

/// The headings of a document as links name them.
fn headings(document: &str) -> impl Iterator<Item = String> {
    let titles = document
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    titles.map(|title| title.to_lowercase().replace(' ', "-"))
}

/// Words of ARCHITECTURE that are paths: with a slash, or the name of a source file.
fn paths(text: &str) -> BTreeSet<&str> {
    let is_source = |word: &str| Path::new(word).extension().is_some_and(|end| end == "rs");
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    text.split(|c| !is_part(c))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| word.contains('/') && word.len() > 1 || is_source(word))
        .collect()
}

#[test]
fn the_architecture_names_only_files_that_exist() {
    let architecture = read("ARCHITECTURE.md");
    let paths = paths(&architecture);
    assert!(
        paths.contains("run/prompt.rs") && paths.contains("fixtures/policy/"),
        "{paths:?}"
    );
    for path in paths {
        let exists = ["", "src"]
            .iter()
            .any(|root| repository().join(root).join(path).exists());
        assert!(exists, "{path}");
    }
}

#[test]
fn the_architecture_lists_every_room_and_names_its_files() {
    let architecture = read("ARCHITECTURE.md");
    let rows = architecture.lines().filter_map(|line| {
        let (room, subject) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((room, subject))
    });
    let mut listed = BTreeSet::new();
    for (room, subject) in rows {
        listed.insert(room.to_owned());
        let is_file_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        for file in quoted(subject).filter(is_file_name) {
            let path = repository().join(format!("src/{room}/{file}.rs"));
            assert!(path.exists(), "`{file}` of `{room}`");
        }
    }
    let rooms: BTreeSet<String> = fs::read_dir(repository().join("src"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir() || path.ends_with("stop.rs"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(listed, rooms);
}
