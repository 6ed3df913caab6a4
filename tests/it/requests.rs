//! What the API would not take in a request: every request of every test is asked.

use serde_json::{Value, json};

/// What the API would not take, and what costs money for nothing.
pub(crate) fn faults(body: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    if body.is_null() {
        faults.push("the body is no JSON".to_owned());
        return faults;
    }
    if body["stream"] != true || !body["max_tokens"].is_u64() || !body["model"].is_string() {
        faults.push("`stream`, `max_tokens` and `model` are not all there".to_owned());
    }
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    if messages
        .first()
        .is_none_or(|message| message["role"] != "user")
    {
        faults.push("the first message is not the user's".to_owned());
    }
    let mut ids: Vec<&str> = Vec::new();
    let mut pending: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
        if blocks.is_empty() {
            faults.push(format!("message {index} has no content"));
        }
        let results: Vec<&str> = of_kind(blocks, "tool_result", "tool_use_id");
        let calls: Vec<&str> = of_kind(blocks, "tool_use", "id");
        if results != pending {
            faults.push(format!(
                "message {index} answers {results:?}, and asked were {pending:?}"
            ));
        }
        let are_first = blocks
            .iter()
            .take(results.len())
            .all(|block| block["type"] == "tool_result");
        if !are_first {
            faults.push(format!("message {index} has results behind other content"));
        }
        for call in &calls {
            if call.is_empty() || ids.contains(call) {
                faults.push(format!("message {index} has the call id {call:?} again"));
            }
        }
        ids.extend(&calls);
        pending = calls;
        if blocks.iter().any(has_blank_text) {
            faults.push(format!("message {index} has a blank text"));
        }
        let is_twice = |(at, block): (usize, &Value)| blocks[..at].contains(block);
        if blocks.iter().enumerate().any(is_twice) {
            faults.push(format!("message {index} has a block twice"));
        }
    }
    if !pending.is_empty() {
        faults.push(format!("the calls {pending:?} have no answer"));
    }
    if has_blank_text(&json!({"content": body["system"]})) {
        faults.push("the system prompt has a blank text".to_owned());
    }
    if body.to_string().matches("\"cache_control\"").count() > 4 {
        faults.push("there are more than four cache breakpoints".to_owned());
    }
    faults
}

fn of_kind<'a>(blocks: &'a [Value], kind: &str, id: &str) -> Vec<&'a str> {
    let blocks = blocks.iter().filter(|block| block["type"] == kind);
    blocks
        .map(|block| block[id].as_str().unwrap_or_default())
        .collect()
}

fn has_blank_text(block: &Value) -> bool {
    let is_blank = |text: &Value| text.as_str().is_some_and(|text| text.trim().is_empty());
    let inner = block["content"].as_array().into_iter().flatten();
    (block["type"] == "text" && is_blank(&block["text"]))
        || is_blank(&block["content"])
        || inner.into_iter().any(has_blank_text)
}

#[test]
fn the_server_finds_what_the_api_would_refuse() {
    let user = |content: Value| json!({"role": "user", "content": content});
    let assistant = |content: Value| json!({"role": "assistant", "content": content});
    let hi = user(json!([{"type": "text", "text": "hi"}]));
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "Read", "input": {}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "x"});
    let text = json!({"type": "text", "text": "t"});
    for (messages, expected) in [
        (vec![hi.clone()], None),
        (
            vec![
                hi.clone(),
                assistant(json!([call("a"), call("b")])),
                user(json!([result("a"), result("b"), text])),
            ],
            None,
        ),
        (
            vec![assistant(json!([text]))],
            Some("the first message is not the user's"),
        ),
        (
            vec![hi.clone(), assistant(json!([]))],
            Some("message 1 has no content"),
        ),
        (
            vec![hi.clone(), assistant(json!([call("a")]))],
            Some("the calls [\"a\"] have no answer"),
        ),
        (
            vec![
                hi.clone(),
                assistant(json!([call("a"), call("b")])),
                user(json!([result("b"), result("a")])),
            ],
            Some("message 2 answers [\"b\", \"a\"], and asked were [\"a\", \"b\"]"),
        ),
        (
            vec![
                hi.clone(),
                assistant(json!([call("a")])),
                user(json!([text, result("a")])),
            ],
            Some("message 2 has results behind other content"),
        ),
        (
            vec![
                hi.clone(),
                assistant(json!([call("a")])),
                user(json!([result("a")])),
                assistant(json!([call("a")])),
                user(json!([result("a")])),
            ],
            Some("message 3 has the call id \"a\" again"),
        ),
        (
            vec![user(json!([{"type": "text", "text": " \n"}]))],
            Some("message 0 has a blank text"),
        ),
        (
            vec![user(json!([text, text]))],
            Some("message 0 has a block twice"),
        ),
    ] {
        let body = json!({"model": "m", "max_tokens": 1, "stream": true, "messages": messages});
        let expected: Vec<String> = expected.map(str::to_owned).into_iter().collect();
        assert_eq!(faults(&body), expected, "{body}");
    }
}
