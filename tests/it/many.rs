//! Many prompts at once.

use serde_json::json;

use super::program::Program;
use super::server::{Received, Server, reply};
use super::xml::elements;

const PROMPTS: usize = 200;

#[test]
fn two_hundred_prompts_side_by_side_all_pass_and_leave_whole_transcripts() {
    let server = Server::answering(|request: &Received| {
        let messages = request.body["messages"].as_array().unwrap();
        let prompt = messages[0]["content"][0]["text"].as_str().unwrap();
        match messages.len() {
            1 => reply().tool_use("Read", json!({"file_path": "a.txt"})),
            _ => reply().text(&format!("answer to {prompt}")),
        }
    });
    let prompts: Vec<String> = (0..PROMPTS).map(|n| format!("question {n}")).collect();
    let job = format!(
        "prompts: {}\nallowed_tools: [Read]\nmax_budget_usd: 1\n",
        json!(prompts)
    );
    let ran = Program::new(&job)
        .file("a.txt", "alpha\n")
        .args(&["--concurrency", "64"])
        .against(&server)
        .run();
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(server.finish().len(), PROMPTS * 2);
    assert_eq!(ran.run_json()["counts"]["passed"], PROMPTS);
    for n in 0..PROMPTS {
        let place = format!("job/prompt-{}", n + 1);
        ran.assert_whole(&place);
        let lines = ran.transcript(&place);
        assert_eq!(
            lines.last().unwrap()["result"],
            format!("answer to question {n}")
        );
        let whole: serde_json::Value =
            serde_json::from_str(&ran.read(&format!("out/{place}/transcript.json"))).unwrap();
        assert!(!whole.is_null());
    }
    let elements = elements(&ran.junit());
    let cases = elements.iter().filter(|element| element.name == "testcase");
    assert_eq!(cases.count(), PROMPTS);
}
