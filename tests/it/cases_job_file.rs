//! Acceptance cases: job files with faults.

use super::program::{Program, fixtures};
use super::server::Server;

/// Runs a faulty job file: what is said about it, and that nothing was sent or written.
fn refused(job: &str) -> String {
    let server = Server::start([]);
    let ran = Program::new(job).against(&server).run();
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert_eq!(server.finish().len(), 0);
    assert_eq!(ran.stdout, "");
    assert!(!ran.path().join("out").exists());
    ran.stderr
}

/// The first error's line; warnings may stand before it.
fn first_error(stderr: &str) -> &str {
    let mut lines = stderr.lines();
    lines.find(|line| line.contains(": error: ")).unwrap()
}

#[test]
fn g54_a_repeated_key_is_an_error_at_its_second_place() {
    let stderr = refused(
        "name: nightly\nprompts: [Say hello.]\nallowed_tools:\n  - Read(src/**)\nmax_turns: 3\n\
         max_budget_usd: 1\nallowed_tools:\n  - Bash(*)\n",
    );
    let error = first_error(&stderr);
    assert!(
        error.starts_with("job.yaml:7:1: error:") && error.contains("allowed_tools"),
        "{stderr}"
    );
}

#[test]
fn g54_a_near_miss_is_an_error_that_names_the_likely_key() {
    let stderr = refused(
        "name: nightly\nprompts: [Say hello.]\nmax_budget_usd: 1\nallowed_tool:\n  - Read(src/**)\n\
         denied_tool:\n  - Bash(rm:*)\nmax_turn: 3\n",
    );
    for (place, likely) in [
        ("job.yaml:4:1: error:", "allowed_tools"),
        ("job.yaml:6:1: error:", "denied_tools"),
        ("job.yaml:8:1: error:", "max_turns"),
    ] {
        let (_, after) = stderr
            .split_once(place)
            .unwrap_or_else(|| panic!("{place}: {stderr}"));
        let fault = after.split("job.yaml:").next().unwrap();
        assert!(fault.contains(likely), "{fault}");
    }
}

#[test]
fn g54_a_rule_with_a_typo_is_an_error() {
    for (rule, named) in [("Bsh(ls:*)", "Bash"), ("Read(src/**", "Read(src/**")] {
        let stderr = refused(&format!(
            "prompts: [Say hello.]\nmax_budget_usd: 1\nallowed_tools:\n  - {rule}\n"
        ));
        let error = first_error(&stderr);
        assert!(error.starts_with("job.yaml:4:"), "{stderr}");
        assert!(stderr.contains(named), "{stderr}");
    }
}

/// The two files of the public reports: their keys are no keys of this format, so each is refused
/// with a place for every fault.
#[test]
fn g54_the_reported_files_are_refused_with_places() {
    for (file, places) in [
        (
            "duplicate-keys.yaml",
            &[
                "job.yaml:2:1: error:",
                "job.yaml:3:1: error:",
                "job.yaml:6:1: error:",
            ][..],
        ),
        (
            "near-miss-keys.yaml",
            &["job.yaml:5:1: error:", "job.yaml:7:1: error:"],
        ),
    ] {
        let job = std::fs::read_to_string(fixtures().join("cases").join(file)).unwrap();
        let stderr = refused(&job);
        for place in places {
            assert!(stderr.contains(place), "{place}: {stderr}");
        }
    }
}
