//! Acceptance cases: reports that other programs read, and what must not stand in them.

use std::collections::BTreeSet;
use std::path::Path;

use base64::Engine as _;
use serde_json::{Value, json};

use super::cases::{job, run};
use super::program::{Program, fixtures};
use super::server::{Received, Server, reply, status};
use super::xml::elements;

/// A scalar of YAML in which everything but printable ASCII is escaped.
fn yaml(text: &str) -> String {
    use std::fmt::Write as _;

    let mut scalar = "\"".to_owned();
    for c in text.chars() {
        match c {
            ' '..='~' if c != '"' && c != '\\' => scalar.push(c),
            _ => write!(scalar, "\\U{:08X}", u32::from(c)).unwrap(),
        }
    }
    scalar + "\""
}

fn strings(of: &Value) -> Vec<String> {
    of.as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

/// Answers prompt `KIND N` with text N as what it says: an answer, a failure, or a call that is denied.
fn nasty_answers(outputs: Vec<String>) -> Server {
    Server::answering(move |request: &Received| {
        let messages = request.body["messages"].as_array().unwrap();
        let prompt = messages[0]["content"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned();
        let (kind, number) = prompt.split_once(' ').unwrap();
        let text = &outputs[number.parse::<usize>().unwrap()];
        match (kind, messages.len()) {
            ("fail", _) => status(400).error("invalid_request_error", text),
            ("deny", 1) => reply().tool_use("Bash", json!({"command": text})),
            _ => reply().text(text),
        }
    })
}

#[test]
fn g43_every_parser_accepts_the_junit_of_nasty_names_and_texts() {
    let nasty = std::fs::read(fixtures().join("junit/nasty-strings.json")).unwrap();
    let nasty: Value = serde_json::from_slice(&nasty).unwrap();
    let (names, outputs) = (strings(&nasty["names"]), strings(&nasty["outputs"]));
    let prompts = |texts: usize| -> Vec<String> {
        let kinds = ["say", "fail", "deny"].into_iter();
        kinds
            .flat_map(|kind| (0..texts).map(move |number| format!("{kind} {number}")))
            .collect()
    };
    let mut program = Program::bare(&["run", "--output", "out", "--concurrency", "16"]);
    let mut planned = 0;
    for (number, name) in names.iter().enumerate() {
        // The first job has all texts; the names alone are what the others are about.
        let prompts = prompts(if number == 0 { outputs.len() } else { 1 });
        planned += prompts.len();
        let file = format!("job-{number}.yaml");
        let job = format!(
            "name: {}\nprompts: {}\nallowed_tools: [Bash(true)]\nmax_budget_usd: 1\n",
            yaml(name),
            json!(prompts)
        );
        program = program.file(&file, job).args(&[&file]);
    }
    let server = nasty_answers(outputs.clone());
    let ran = program.against(&server).run();
    server.finish();
    assert_eq!(ran.code, 1, "{}", ran.stderr);

    let elements = elements(&ran.junit());
    let named = |name: &str| {
        elements
            .iter()
            .filter(|e| e.name == name)
            .collect::<Vec<_>>()
    };
    let (suites, cases) = (named("testsuite"), named("testcase"));
    assert_eq!((suites.len(), cases.len()), (names.len(), planned));
    let suite_names: BTreeSet<&str> = suites.iter().map(|suite| suite.attribute("name")).collect();
    assert_eq!(suite_names.len(), names.len(), "names are unique");
    assert!(suite_names.iter().all(|name| !name.trim().is_empty()));
    for survivor in [
        "plain",
        "angle <b> & \"quote\" 'apos'",
        "emoji 🚀 中文",
        "cdata end ]]> inside",
    ] {
        assert!(suite_names.contains(survivor), "{suite_names:?}");
    }
    let full_names: BTreeSet<(&str, &str)> = cases
        .iter()
        .map(|case| (case.attribute("classname"), case.attribute("name")))
        .collect();
    assert_eq!(
        full_names.len(),
        cases.len(),
        "every prompt has a case of its own"
    );
    for (element, total) in [
        ("failure", "failures"),
        ("error", "errors"),
        ("skipped", "skipped"),
    ] {
        let count = |of: &str| -> usize {
            let sums = suites
                .iter()
                .map(|suite| suite.attribute(of).parse::<usize>().unwrap());
            sums.sum()
        };
        assert_eq!(count(total), named(element).len(), "{total}");
        assert_eq!(count("tests"), cases.len());
    }
    // Every denied call, and the answer that is nothing but line breaks of Unicode.
    let blank = outputs.iter().filter(|text| text.trim().is_empty()).count();
    assert_eq!(named("failure").len(), planned / 3 + blank);
    assert_eq!(named("error").len(), planned / 3, "refused requests");
    let out: Vec<&str> = named("system-out")
        .iter()
        .map(|out| out.text.trim())
        .collect();
    assert!(out.contains(&"</system-out><failure/>"), "{out:?}");
    assert!(out.contains(&"<![CDATA[ nested ]]> tail"), "{out:?}");
    assert!(out.contains(&"&#27; &#0; &amp;"), "{out:?}");
}

/// Every file beneath a directory.
fn files(directory: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            let content = std::fs::read(&path).unwrap();
            files.push((
                path.display().to_string(),
                String::from_utf8_lossy(&content).into_owned(),
            ));
        }
    }
    files
}

const TOKEN: &str = "tok-1234567890abcdef";

#[test]
fn g45_a_secret_that_a_tool_prints_reaches_no_file_and_no_stream() {
    let command = "echo plain $DEPLOY_TOKEN; printf %s \"$DEPLOY_TOKEN\" | base64; \
                   echo https://ann:$DEPLOY_TOKEN@example.com/x; exit 1";
    let job = format!(
        "{}env: {{pass: [DEPLOY_TOKEN]}}\nchecks: [{{command: 'echo check $DEPLOY_TOKEN; exit 1'}}]\n",
        job("Bash")
    );
    let program = Program::new(&job)
        .env("DEPLOY_TOKEN", TOKEN)
        .args(&["--verbose"]);
    let (ran, requests) = run(
        program,
        [
            reply()
                .text("It is tok-1234567890abcdef.")
                .tool_use("Bash", json!({"command": command})),
            reply().text("The token is tok-1234567890abcdef, the key sk-test-0123456789."),
        ],
    );
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let base64 = base64::engine::general_purpose::STANDARD.encode(TOKEN);
    let results = &requests[1]["messages"][2].to_string();
    let mut texts = files(&ran.path().join("out"));
    assert!(texts.len() >= 5, "{texts:?}");
    texts.push(("the tool's result".into(), results.clone()));
    texts.push(("standard output".into(), ran.stdout.clone()));
    texts.push(("standard error".into(), ran.stderr.clone()));
    for (place, text) in &texts {
        for secret in [TOKEN, &base64, "sk-test-0123456789"] {
            assert!(!text.contains(secret), "{secret} is in {place}: {text}");
        }
    }
    assert!(
        results.contains("plain ***") && results.contains("https://ann:***@example.com/x"),
        "{results}"
    );
    assert_eq!(ran.prompt(0)["result"], "The token is ***, the key ***.");
    assert!(ran.junit().contains("check ***"), "{}", ran.junit());
}
