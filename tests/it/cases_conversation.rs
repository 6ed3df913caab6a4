//! Acceptance cases: conversations that the API accepts. The server itself refuses requests with blank
//! texts, with calls that have no result, and with repeated ids; see `requests.rs`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lightsout::job::{Overrides, Source};
use lightsout::message::ToolSpec;
use lightsout::net::{Environment, Network};
use lightsout::policy::{Access, Permit};
use lightsout::provider::{ApiKey, Endpoint};
use lightsout::run::{Clock, Plan, PlannedJob, PrefixGate, Shared};
use lightsout::sandbox::Cancel;
use lightsout::tools::{Output, Session, Tool, Touches};
use lightsout::transcript::{EventBody, Redactor, Scope};
use serde_json::{Value, json};

use super::cases::{assert_end, assert_passed, job, results, run, sse, stream};
use super::program::Program;
use super::server::{Received, Server, raw, reply};

#[test]
fn g27_parallel_results_come_in_one_message_in_call_order() {
    let three = reply()
        .tool_use_with_id("toolu_1", "Read", json!({"file_path": "missing.txt"}))
        .tool_use_with_id("toolu_2", "Bash", json!({"command": "touch marker"}))
        .tool_use_with_id("toolu_3", "Bash", json!({"command": "echo fine"}));
    let (ran, requests) = run(
        Program::new(&job("Read, Bash(echo *)")),
        [three, reply().text("ok")],
    );
    assert_end(&ran, 1, "failed", "permission_denied");
    let messages = requests[1]["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3);
    assert_eq!(messages[2]["role"], "user");
    let blocks = messages[2]["content"].as_array().unwrap();
    let told: Vec<(&Value, &Value, bool)> = blocks
        .iter()
        .map(|block| {
            (
                &block["type"],
                &block["tool_use_id"],
                block["is_error"] == true,
            )
        })
        .collect();
    let result = json!("tool_result");
    assert_eq!(
        told,
        [
            (&result, &json!("toolu_1"), true),
            (&result, &json!("toolu_2"), true),
            (&result, &json!("toolu_3"), false),
        ]
    );
}

/// Takes the name of Read, so that a rule can allow it, and panics.
struct Panics {
    /// Already when its call is judged, else when it runs.
    is_early: bool,
}

impl Tool for Panics {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "Read".into(),
            description: "Panics.".into(),
            input_schema: json!({"type": "object"}),
        }
    }

    fn touches(&self, _input: &Value) -> Touches {
        assert!(!self.is_early, "the tool lost its head early");
        Touches::Path {
            path: ".".into(),
            access: Access::Read,
        }
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn run(&self, _: &Permit, _: &Value, _: &Session, _: &Cancel) -> Output {
        panic!("the tool lost its head")
    }
}

/// The disk as a job file sees it, without an environment.
struct Disk(PathBuf);

impl Source for Disk {
    fn read(&self, path: &Path, _limit: usize) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }
    fn env(&self, _name: &str) -> Option<String> {
        None
    }
    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }
    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }
    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        path.canonicalize()
    }
    fn home(&self) -> Option<PathBuf> {
        None
    }
    fn cwd(&self) -> PathBuf {
        self.0.clone()
    }
}

/// The prompts of `job.yaml` in `directory` against the server, with a tool that panics.
fn plan_with_a_panicking_tool(directory: &Path, server: &Server, is_early: bool) -> Plan {
    let file = directory.join("job.yaml");
    let mut job = lightsout::job::load(&file, &Overrides::default(), &Disk(directory.to_owned()))
        .expect("the job is right");
    let prompts = std::mem::take(&mut job.prompts)
        .into_iter()
        .map(Arc::new)
        .collect();
    let clock = Clock::start();
    Plan {
        run_id: clock.time_ordered_id(),
        jobs: vec![PlannedJob { job, prompts }],
        concurrency: 2,
        hostname: "localhost".into(),
        api_key_source: "none",
        shared: Shared {
            clock,
            redactor: Arc::new(Redactor::new([])),
            gate: Arc::new(PrefixGate::default()),
            environment: BTreeMap::new(),
            bash: "/bin/bash".into(),
            endpoint: Some(Endpoint {
                base_url: server.url(),
                key: ApiKey::none(),
                headers: Vec::new(),
                network: Network::new(Environment::default()),
            }),
            cassettes: BTreeMap::new(),
            record: None,
            output: directory.join("out"),
            home: None,
            shows_text: false,
            more_tools: vec![Arc::new(Panics { is_early })],
        },
    }
}

#[test]
fn g28_a_tool_that_panics_ends_its_prompt_alone_and_every_call_has_a_result() {
    tool_panics(false, "Read panicked: the tool lost its head");
}

#[test]
fn a_panic_while_a_call_is_judged_keeps_the_record_of_its_prompt() {
    tool_panics(
        true,
        "judging a call of Read panicked: the tool lost its head early",
    );
}

fn tool_panics(is_early: bool, says: &str) {
    let server = Server::answering(|request: &Received| {
        let messages = request.body["messages"].as_array().unwrap();
        let is_the_bad_one = messages[0].to_string().contains("Panic.");
        match (is_the_bad_one, messages.len()) {
            (true, _) => reply()
                .text("I read.")
                .tool_use_with_id("toolu_1", "Read", json!({}))
                .tool_use_with_id("toolu_2", "Glob", json!({"pattern": "*"})),
            (false, 1) => reply().tool_use("Glob", json!({"pattern": "*.yaml"})),
            (false, _) => reply().text("calm"),
        }
    });
    let program = Program::new(
        "prompts: [Panic., Stay calm.]\nallowed_tools: [Read, Glob]\nmax_budget_usd: 1\n",
    );
    let plan = plan_with_a_panicking_tool(program.path(), &server, is_early);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let (code, ends) = runtime.block_on(async {
        let (events, mut received) = tokio::sync::mpsc::channel(1024);
        let (_keep, signal) = tokio::sync::watch::channel(None);
        let run = tokio::spawn(lightsout::run::execute(plan, events, signal));
        let mut ends = BTreeMap::new();
        while let Some(event) = received.recv().await {
            if let (Scope::Prompt(key), EventBody::Result(result)) =
                (event.scope, &event.event.body)
            {
                ends.insert(
                    key.prompt,
                    (
                        result.stop.reason.name(),
                        result.stop.message.clone(),
                        result.num_turns,
                    ),
                );
            }
        }
        (run.await.unwrap(), ends)
    });
    server.finish();
    assert_eq!(code, 3);
    assert_eq!(ends[&1], ("completed", String::new(), 2));
    let (reason, message, turns) = &ends[&0];
    assert_eq!((*reason, *turns), ("model_error", 1));
    assert!(message.contains(says), "{message}");

    let ran = program.left_behind();
    for prompt in ["prompt-1", "prompt-2"] {
        ran.assert_whole(&format!("job/{prompt}"));
    }
    let results = ran.tool_results();
    assert_eq!(results.len(), 2, "{results:?}");
    for (text, is_error) in results {
        assert!(
            is_error && text.to_lowercase().contains("interrupted"),
            "{text}"
        );
    }
}

#[test]
fn g29_thinking_goes_back_byte_for_byte() {
    let server = Server::start([stream("thinking-signature.sse"), reply().text("ok")]);
    let ran = Program::new(&job("Read"))
        .file("a.txt", "alpha\n")
        .against(&server)
        .run();
    let requests = server.finish();
    assert_passed(&ran);
    let content = &requests[1].body["messages"][1]["content"];
    assert_eq!(
        content[0],
        json!({
            "type": "thinking",
            "thinking": "Check the  file, then\nanswer. é中",
            "signature": "c2lnLXBhcnQtMQ+/cGFydC0y==",
        })
    );
    assert_eq!(
        content[1],
        json!({"type": "redacted_thinking", "data": "b3BhcXVl+/=="})
    );
    assert_eq!(
        (&content[2]["type"], &content[2]["id"]),
        (&json!("tool_use"), &json!("toolu_T1"))
    );
    let sent = String::from_utf8(requests[1].bytes.clone()).unwrap();
    assert!(
        sent.contains("é中") && sent.contains("c2lnLXBhcnQtMQ+/cGFydC0y=="),
        "escaped anew: {sent}"
    );
}

#[test]
fn g30_nothing_empty_is_sent() {
    let answers = [
        reply()
            .text("\n\n")
            .tool_use("Bash", json!({"command": "true"})),
        reply().tool_use("Bash", json!({"command": "printf '  \\n'"})),
        reply().text("ok"),
    ];
    let (ran, requests) = run(Program::new(&job("Bash(true), Bash(printf *)")), answers);
    assert_passed(&ran);
    let reply = requests[1]["messages"][1]["content"].as_array().unwrap();
    assert_eq!(reply.len(), 1, "the blank text is left out: {reply:?}");
    for request in &requests[1..] {
        let (text, is_error) = &results(request)[0];
        assert!(!text.trim().is_empty() && !is_error, "{text:?}");
    }
}

#[test]
fn g31_repeated_and_empty_call_ids_are_replaced() {
    let empty_ids = ["toolu_D1", "toolu_D1"].iter().fold(
        String::from_utf8(sse("duplicate-tool-id.sse")).unwrap(),
        |text, id| text.replacen(id, "", 1),
    );
    for first in [stream("duplicate-tool-id.sse"), raw(empty_ids)] {
        let (ran, requests) = run(
            Program::new(&job("Bash(echo *)")),
            [first, reply().text("ok")],
        );
        assert_passed(&ran);
        assert_eq!(
            results(&requests[1]),
            [("one".to_owned(), false), ("two".to_owned(), false)]
        );
        let ids = |message: usize, key: &str| -> Vec<String> {
            let blocks = requests[1]["messages"][message]["content"]
                .as_array()
                .unwrap();
            blocks
                .iter()
                .map(|block| block[key].as_str().unwrap().to_owned())
                .collect()
        };
        let called = ids(1, "id");
        assert_eq!(called, ids(2, "tool_use_id"));
        assert!(
            called[0] != called[1] && called.iter().all(|id| !id.is_empty()),
            "{called:?}"
        );
    }
}

/// A request's text without its breakpoints.
fn unmarked(request: &Received) -> String {
    let text = String::from_utf8(request.bytes.clone()).unwrap();
    text.replace(r#","cache_control":{"type":"ephemeral"}"#, "")
}

/// The messages' blocks that bear a breakpoint, as message and block; the system prompt's is `None`.
fn breakpoints(body: &Value) -> Vec<Option<(usize, usize)>> {
    let is_marked = |block: &Value| !block["cache_control"].is_null();
    let system = body["system"].as_array().unwrap();
    assert!(system.iter().rev().skip(1).all(|block| !is_marked(block)));
    let mut found: Vec<_> = system
        .last()
        .filter(|block| is_marked(block))
        .map(|_| None)
        .into_iter()
        .collect();
    for (at, message) in body["messages"].as_array().unwrap().iter().enumerate() {
        let blocks = message["content"].as_array().unwrap().iter().enumerate();
        found.extend(
            blocks
                .filter(|(_, block)| is_marked(block))
                .map(|(block, _)| Some((at, block))),
        );
    }
    assert_eq!(
        found.len(),
        body.to_string().matches("cache_control").count()
    );
    found
}

/// A conversation of six turns, of which the fourth asks for ten calls at once.
fn six_turns() -> Vec<Received> {
    let echo = |text: &str| json!({"command": format!("echo '{text}'")});
    let ten = (0..10).fold(reply().thinking("ten …"), |reply, n| {
        reply.tool_use("Bash", echo(&format!("call {n}")))
    });
    let server = Server::start([
        reply()
            .thinking("Hm.\n")
            .text("é \"quoted\"")
            .tool_use("Bash", echo("\\u00e9 \u{1F680}")),
        reply().tool_use("Read", json!({"file_path": "a.txt"})),
        reply().text("Now a fault.").tool_use("Read", json!({})),
        ten,
        reply().tool_use("Grep", json!({"pattern": "alpha"})),
        reply().text("done"),
    ]);
    let ran =
        Program::new(&job("Read, Grep, Bash(echo *)").replace("max_turns: 5", "max_turns: 6"))
            .file("a.txt", "alpha\u{1}\n")
            .against(&server)
            .run();
    assert_passed(&ran);
    server.finish()
}

#[test]
fn bytes_once_sent_are_the_beginning_of_every_later_request() {
    let requests = six_turns();
    assert_eq!(requests.len(), 6);
    for pair in requests.windows(2) {
        let (earlier, later) = (unmarked(&pair[0]), unmarked(&pair[1]));
        let end = earlier.rfind("],\"max_tokens\":").unwrap();
        assert!(later.starts_with(&earlier[..end]), "{earlier}\n\n{later}");
    }
}

#[test]
fn breakpoints_stand_on_the_system_prompt_the_newest_and_the_previous_newest_message() {
    let requests = six_turns();
    let found: Vec<Vec<Option<(usize, usize)>>> = requests
        .iter()
        .map(|request| breakpoints(&request.body))
        .collect();
    assert_eq!(
        found,
        [
            vec![None, Some((0, 0))],
            vec![None, Some((0, 0)), Some((2, 0))],
            vec![None, Some((2, 0)), Some((4, 0))],
            vec![None, Some((4, 0)), Some((6, 0))],
            // Eleven blocks of the reply and ten results: one more about halfway.
            vec![None, Some((6, 0)), Some((7, 10)), Some((8, 9))],
            vec![None, Some((8, 9)), Some((10, 0))],
        ]
    );
}
