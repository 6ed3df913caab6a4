//! An event's shape on the wire: one JSON object a line.
//!
//! Where Claude Code's stream-json has a shape it is used, with its names; what only this runner knows
//! is added beside, and events of its own are `system` subtypes. Content blocks are copied in the bytes
//! in which they came: history can be rebuilt from a transcript byte for byte, and a turn costs no
//! second serialisation.

use serde::Serialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use uuid::Uuid;

use crate::message::{ApiStopReason, Block, BlockKind, Failure, FailureKind, Reply, ToolResult};
use crate::models::Usd;
use crate::query::{Denial, Notice, Purpose};
use crate::stop::{Outcome, StopReason};

use super::event::{CheckResult, Event, EventBody, Init, Permission, PromptResult};

/// The line for `event` without its newline; `None` for what is no line of a prompt's transcript:
/// events for the eye alone and those of the whole run.
///
/// Every line has `type`, `uuid`, `session_id`, `timestamp` (RFC 3339, UTC, milliseconds).
pub fn stream_json_line(session_id: Uuid, event: &Event) -> Option<String> {
    let line = match &event.body {
        EventBody::RunStarted(_) | EventBody::RunEnded { .. } | EventBody::TextDelta { .. } => {
            return None;
        }
        EventBody::Init(init) => init_line(init),
        EventBody::User {
            blocks,
            is_synthetic,
        } => user_line(blocks, *is_synthetic),
        EventBody::RequestSent {
            request,
            purpose,
            max_tokens,
            input_bound,
            messages,
            reserved,
        } => Line::system("request")
            .field("request", &request.0)
            .field("purpose", purpose_name(*purpose))
            .field("max_tokens", max_tokens)
            .field("input_bound", input_bound)
            .field("messages", messages)
            .field("reserved_usd", &reserved.as_f64()),
        EventBody::Assistant {
            request,
            reply,
            turn,
            cost,
        } => assistant_line(reply)
            .field("request", &request.0)
            .field("turn", turn)
            .field("cost_usd", &cost.as_f64()),
        EventBody::RequestFailed {
            request,
            failure,
            unsettled,
        } => failure_line(failure)
            .field("request", &request.0)
            .field("unsettled_usd", &unsettled.as_f64()),
        EventBody::Permission(permission) => permission_line(permission),
        EventBody::ToolResult {
            result,
            tool_name,
            notes,
            assistant,
            duration,
        } => tool_result_line(result)
            .field("tool_name", tool_name)
            .field("assistant_uuid", &assistant.to_string())
            .field("notes", notes)
            .field("duration_ms", &millis(*duration)),
        EventBody::Check(check) => check_line(check),
        EventBody::Notice(notice) => notice_line(notice),
        EventBody::Warning { message } => Line::system("warning").field("message", message),
        EventBody::Result(result) => result_line(result),
    };
    Some(
        line.field("uuid", &event.id.to_string())
            .field("session_id", &session_id.to_string())
            .field("timestamp", &timestamp(event.at))
            .end(),
    )
}

/// RFC 3339 in UTC with milliseconds, such as `2026-11-30T03:00:00.125Z`: how every record writes a time.
#[expect(clippy::missing_panics_doc, reason = "every date has these parts")]
pub fn timestamp(at: OffsetDateTime) -> String {
    const FORMAT: &[BorrowedFormatItem<'_>] =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    at.to_offset(time::UtcOffset::UTC)
        .format(FORMAT)
        .expect("every date has these parts")
}

/// A JSON object under construction. Keys are ours and need no escaping.
struct Line(Vec<u8>);

impl Line {
    fn new(type_name: &str) -> Self {
        Self(b"{".to_vec()).field("type", type_name)
    }

    fn system(subtype: &str) -> Self {
        Self::new("system").field("subtype", subtype)
    }

    fn field<T: Serialize + ?Sized>(self, name: &str, value: &T) -> Self {
        let mut line = self.name(name);
        serde_json::to_writer(&mut line.0, value)
            .expect("strings, numbers and JSON values serialise into memory");
        line
    }

    fn optional<T: Serialize>(self, name: &str, value: Option<&T>) -> Self {
        match value {
            Some(value) => self.field(name, value),
            None => self,
        }
    }

    fn message(self, role: &str, open: &str, blocks: &[Block], close: &str) -> Self {
        let mut line = self.name("message");
        line.0.extend_from_slice(b"{\"role\":\"");
        line.0.extend_from_slice(role.as_bytes());
        line.0.push(b'"');
        line.0.extend_from_slice(open.as_bytes());
        line.0.extend_from_slice(b",\"content\":[");
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 {
                line.0.push(b',');
            }
            let start = line.0.len();
            line.0.extend_from_slice(block.json().as_bytes());
            // Between JSON tokens a newline is a blank, inside strings it cannot stand: a server that
            // formats its blocks must not break the line in two.
            for byte in &mut line.0[start..] {
                if matches!(*byte, b'\n' | b'\r') {
                    *byte = b' ';
                }
            }
        }
        line.0.push(b']');
        line.0.extend_from_slice(close.as_bytes());
        line.0.push(b'}');
        line
    }

    fn name(mut self, name: &str) -> Self {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        self.0.push(b'"');
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
        self
    }

    fn end(mut self) -> String {
        self.0.push(b'}');
        String::from_utf8(self.0).expect("made of strings")
    }
}

fn init_line(init: &Init) -> Line {
    let tools: Vec<&str> = init.head.tools.iter().map(|tool| &*tool.name).collect();
    let specs: Vec<Value> = init
        .head
        .tools
        .iter()
        .map(|tool| {
            json!({
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.input_schema,
            })
        })
        .collect();
    Line::system("init")
        .field("cwd", &init.cwd.to_string_lossy())
        .field("tools", &tools)
        .field("mcp_servers", &[(); 0])
        .field("model", &init.model)
        // What no rule allows is denied and nobody is asked; their word for it.
        .field("permissionMode", "dontAsk")
        .field("apiKeySource", init.api_key_source)
        .field("slash_commands", &[(); 0])
        .field("output_style", "default")
        .field("skills", &[(); 0])
        .field("plugins", &[(); 0])
        .field("api_model", &init.head.model)
        .field("system", &init.head.system)
        .field("tool_specs", &specs)
        .field("sandbox", init.sandbox)
        .field("policy_digest", &init.policy_digest)
        .field("lightsout_version", init.version)
}

fn user_line(blocks: &[Block], is_synthetic: bool) -> Line {
    Line::new("user")
        .message("user", "", blocks, "")
        .field("parent_tool_use_id", &Value::Null)
        .field("isSynthetic", &is_synthetic)
}

fn tool_result_line(result: &ToolResult) -> Line {
    Line::new("user")
        .message("user", "", &[Block::tool_result(result)], "")
        .field("parent_tool_use_id", &Value::Null)
        .field("tool_use_result", &result.structured)
}

fn assistant_line(reply: &Reply) -> Line {
    let open = format!(
        ",\"id\":{},\"type\":\"message\",\"model\":{}",
        json!(reply.id),
        json!(reply.model)
    );
    let close = format!(
        ",\"stop_reason\":{},\"stop_sequence\":null,\"usage\":{}",
        json!(reply.stop_reason.as_ref().map(ApiStopReason::name)),
        json!(reply.usage)
    );
    let line = Line::new("assistant")
        .message("assistant", &open, &reply.blocks, &close)
        .field("parent_tool_use_id", &Value::Null)
        .optional("request_id", reply.request_id.as_ref())
        .field("duration_ms", &millis(reply.duration))
        .field("warnings", &reply.warnings);
    match reply.stop_details {
        Value::Null => line,
        ref details => line.field("stop_details", details),
    }
}

fn synthetic_error_line(message: &str) -> Line {
    let block = Block::text(message).unwrap_or_else(|| {
        let empty = json!({"type": "text", "text": message}).to_string();
        Block::from_wire(BlockKind::Text, empty)
    });
    Line::new("assistant")
        .message(
            "assistant",
            ",\"id\":null,\"type\":\"message\",\"model\":\"<synthetic>\"",
            &[block],
            ",\"stop_reason\":null,\"stop_sequence\":null",
        )
        .field("parent_tool_use_id", &Value::Null)
        .field("error", "unknown")
        .field("isSynthetic", &true)
}

fn failure_line(failure: &Failure) -> Line {
    Line::system("request_failed")
        .field("error", failure.kind.name())
        .field("error_status", &failure.status)
        .field("message", &failure.message)
        .optional("request_id", failure.request_id.as_ref())
        .optional("retry_after_ms", failure.retry_after.map(millis).as_ref())
        .field("had_output", &failure.had_output)
}

fn permission_line(permission: &Permission) -> Line {
    let place = permission
        .place
        .as_ref()
        .map(|place| json!({"file": &*place.file, "line": place.line, "column": place.column}));
    let denial = permission.denial.as_ref();
    Line::system("permission")
        .field("tool_name", &permission.call.name)
        .field("tool_use_id", &permission.call.id)
        .field("tool_input", &permission.call.input_value())
        .field("derived", &permission.derived)
        .field(
            "decision",
            if denial.is_some() {
                "denied"
            } else {
                "allowed"
            },
        )
        .field("rule", &permission.rule)
        .field("place", &place)
        .field("reason", &permission.reason)
        .optional(
            "would_allow",
            denial.and_then(|denial| denial.would_allow.as_ref()),
        )
}

fn check_line(check: &CheckResult) -> Line {
    Line::system("check")
        .field("check", &check.id)
        .field("line", &check.line)
        .field("command", &check.command)
        .field("passed", &check.passed)
        .field("message", &check.message)
        .field("output", &check.output)
        .field("duration_ms", &millis(check.duration))
}

fn notice_line(notice: &Notice) -> Line {
    match notice {
        Notice::Transition { why, turn } => Line::system("transition")
            .field("transition", why.name())
            .field("turn", turn),
        Notice::Retry {
            attempt,
            max_retries,
            delay,
            failure,
        } => Line::system("api_retry")
            .field("attempt", attempt)
            .field("max_retries", max_retries)
            .field("retry_delay_ms", &millis(*delay))
            .field("error_status", &failure.status)
            .field("error", api_error_category(failure.kind))
            .field("message", &failure.message),
        Notice::Tombstone { request } => Line::system("tombstone").field("request", &request.0),
        Notice::Dropped { request } => Line::system("dropped").field("request", &request.0),
        Notice::Filled { result, .. } => tool_result_line(result).field("isSynthetic", &true),
        Notice::MaxTurnsReached {
            max_turns,
            turn_count,
        } => Line::system("attachment").field(
            "attachment",
            &json!({"type": "max_turns_reached", "max_turns": max_turns, "turn_count": turn_count}),
        ),
        Notice::SyntheticError { message } => synthetic_error_line(message),
        Notice::Warning { message } => Line::system("warning").field("message", message),
        Notice::Stopped(stop) => Line::system("stopped")
            .field("reason", stop.reason.name())
            .field("finding", &stop.finding)
            .field("message", &stop.message),
    }
}

fn result_line(result: &PromptResult) -> Line {
    let passed = result.outcome() == Outcome::Passed;
    let denials: Vec<Value> = result.denials.iter().map(denial_value).collect();
    let line = Line::new("result")
        .field("subtype", result_subtype(result))
        .field("is_error", &!passed)
        .field("outcome", result.outcome().name())
        .field("reason", result.stop.name())
        .field("terminal_reason", result.stop.reason.name())
        .field("message", &result.stop.message)
        .field("result", &result.text)
        .field("num_turns", &result.num_turns)
        .field("requests", &result.requests)
        .field("duration_ms", &millis(result.duration))
        .field("duration_api_ms", &millis(result.duration_api))
        .field("total_cost_usd", &result.cost.map(Usd::as_f64))
        .field("cost_unsettled_usd", &result.unsettled.as_f64())
        .field("usage", &result.usage)
        .field("stop_reason", &result.api_stop_reason)
        .field("permission_denials", &denials);
    if passed {
        line
    } else {
        line.field("errors", &[&result.stop.message])
    }
}

/// Their subtypes, read by scripts. `success` only for what passed: theirs can be an error too.
fn result_subtype(result: &PromptResult) -> &'static str {
    if result.outcome() == Outcome::Passed {
        return "success";
    }
    match result.stop.reason {
        StopReason::MaxTurns => "error_max_turns",
        StopReason::MaxBudgetUsd => "error_max_budget_usd",
        StopReason::InvalidOutput => "error_max_structured_output_retries",
        StopReason::Completed
        | StopReason::StopHookPrevented
        | StopReason::HookStopped
        | StopReason::StopHookLoop
        | StopReason::PermissionDenied
        | StopReason::Refusal
        | StopReason::EmptyReply
        | StopReason::MaxOutputTokens
        | StopReason::PromptTooLong
        | StopReason::Timeout
        | StopReason::ModelError
        | StopReason::HookError
        | StopReason::SetupError
        | StopReason::RecordFailed
        | StopReason::Aborted
        | StopReason::NotRun => "error_during_execution",
    }
}

fn denial_value(denial: &Denial) -> Value {
    json!({
        "tool_name": denial.tool_name,
        "tool_use_id": denial.tool_use_id,
        "tool_input": denial.tool_input,
        "rule": denial.rule,
        "reason": denial.reason,
        "would_allow": denial.would_allow,
    })
}

fn purpose_name(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Main => "main",
        Purpose::Summary => "summary",
        Purpose::WindDown => "wind_down",
    }
}

/// Our kinds in the words of `api_retry`. Source: the error names of Claude Code's hook protocol.
fn api_error_category(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::RateLimit => "rate_limit",
        FailureKind::Overloaded => "overloaded",
        FailureKind::SpendLimit => "billing_error",
        FailureKind::Authentication => "authentication_failed",
        FailureKind::Server => "server_error",
        FailureKind::PromptTooLong
        | FailureKind::MaxTokensTooHigh
        | FailureKind::ThinkingSignature
        | FailureKind::Invalid => "invalid_request",
        FailureKind::Connection
        | FailureKind::IdleTimeout
        | FailureKind::Truncated
        | FailureKind::Protocol
        | FailureKind::Cassette
        | FailureKind::Cancelled => "unknown",
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    duration.as_millis() as u64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use time::macros::datetime;

    use super::*;
    use crate::message::{Head, RequestNumber, ResultContent, ToolInput, ToolSpec, ToolUse, Usage};
    use crate::policy::Place;
    use crate::query::Transition;
    use crate::stop::{Finding, Stop};

    fn line(body: EventBody) -> Value {
        let event = Event {
            id: Uuid::from_u128(7),
            at: datetime!(2026-11-30 04:00:00.125999 +1),
            elapsed: Duration::ZERO,
            body,
        };
        let line = stream_json_line(Uuid::from_u128(1), &event).unwrap();
        assert!(!line.contains('\n'));
        let mut value: Value = serde_json::from_str(&line).unwrap();
        let fields = value.as_object_mut().unwrap();
        for (name, right) in [
            ("uuid", "00000000-0000-0000-0000-000000000007"),
            ("session_id", "00000000-0000-0000-0000-000000000001"),
            ("timestamp", "2026-11-30T03:00:00.125Z"),
        ] {
            assert_eq!(fields.remove(name), Some(json!(right)));
        }
        value
    }

    fn result(stop: Stop) -> PromptResult {
        PromptResult {
            stop,
            text: "step 2".into(),
            num_turns: 2,
            requests: 2,
            cost: Usd::from_decimal(0.021),
            unsettled: Usd::ZERO,
            usage: Usage::default(),
            api_stop_reason: Some("tool_use".into()),
            duration: Duration::from_millis(1500),
            duration_api: Duration::from_secs(1),
            denials: vec![],
        }
    }

    #[test]
    fn init_holds_system_and_tools_whole() {
        let head = Head {
            model: "claude-x".into(),
            system: "You work alone.".into(),
            tools: vec![ToolSpec {
                name: "Read".into(),
                description: "Reads.".into(),
                input_schema: json!({"type": "object"}),
            }],
        };
        let init = Init {
            session_id: Uuid::from_u128(1),
            cwd: "/work".into(),
            head: Arc::new(head),
            model: "anthropic/claude-x".into(),
            api_key_source: "none",
            sandbox: "none",
            policy_digest: "sha256:0".into(),
            version: "0.1.0",
        };
        assert_eq!(
            line(EventBody::Init(init)),
            json!({
                "type": "system", "subtype": "init", "cwd": "/work", "tools": ["Read"],
                "mcp_servers": [], "model": "anthropic/claude-x", "permissionMode": "dontAsk",
                "apiKeySource": "none", "slash_commands": [], "output_style": "default",
                "skills": [], "plugins": [], "api_model": "claude-x", "system": "You work alone.",
                "tool_specs": [{"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}],
                "sandbox": "none", "policy_digest": "sha256:0", "lightsout_version": "0.1.0",
            })
        );
    }

    #[test]
    fn a_reply_keeps_its_blocks_byte_for_byte() {
        let wire = r#"{"type":"tool_use", "input":{"b":1.0,"a":"\u00e9"},"id":"t1","name":"Read"}"#;
        let reply = Reply {
            id: Some("msg_1".into()),
            request_id: Some("req_1".into()),
            model: "claude-x".into(),
            blocks: vec![
                Block::text("Hm.").unwrap(),
                Block::from_wire(BlockKind::ToolUse, wire),
            ],
            calls: vec![],
            text: "Hm.".into(),
            stop_reason: Some(ApiStopReason::ToolUse),
            stop_details: Value::Null,
            usage: Usage::default(),
            usage_is_final: true,
            warnings: vec![],
            duration: Duration::from_millis(20),
        };
        let event = Event {
            id: Uuid::from_u128(7),
            at: datetime!(2026-11-30 03:00 UTC),
            elapsed: Duration::ZERO,
            body: EventBody::Assistant {
                request: RequestNumber(1),
                reply: Arc::new(reply),
                turn: 1,
                cost: Usd::ZERO,
            },
        };
        let line = stream_json_line(Uuid::from_u128(1), &event).unwrap();
        assert_eq!(
            line,
            format!(
                r#"{{"type":"assistant","message":{{"role":"assistant","id":"msg_1","type":"message","model":"claude-x","content":[{{"text":"Hm.","type":"text"}},{wire}],"stop_reason":"tool_use","stop_sequence":null,"usage":{{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":0,"output_tokens":0}}}},"parent_tool_use_id":null,"request_id":"req_1","duration_ms":20,"warnings":[],"request":1,"turn":1,"cost_usd":0.0,"uuid":"00000000-0000-0000-0000-000000000007","session_id":"00000000-0000-0000-0000-000000000001","timestamp":"2026-11-30T03:00:00.000Z"}}"#
            )
        );
    }

    #[test]
    fn a_block_that_came_in_several_lines_stays_one_line() {
        let block = Block::from_wire(BlockKind::Other, "{\n \"type\": \"x\"\r\n}");
        let body = EventBody::User {
            blocks: vec![block],
            is_synthetic: false,
        };
        assert_eq!(line(body)["message"]["content"], json!([{"type": "x"}]));
    }

    #[test]
    fn a_tool_result_says_who_asked_and_keeps_its_structure() {
        let result = ToolResult {
            tool_use_id: "t1".into(),
            content: vec![ResultContent::Text("no such file".into())],
            is_error: true,
            structured: json!({"path": "/a"}),
        };
        let body = EventBody::ToolResult {
            result,
            tool_name: "Read".into(),
            notes: vec![],
            assistant: Uuid::from_u128(5),
            duration: Duration::from_millis(3),
        };
        assert_eq!(
            line(body),
            json!({
                "type": "user",
                "message": {"role": "user", "content": [{
                    "type": "tool_result", "tool_use_id": "t1", "content": "no such file", "is_error": true,
                }]},
                "parent_tool_use_id": null, "tool_use_result": {"path": "/a"}, "tool_name": "Read",
                "assistant_uuid": "00000000-0000-0000-0000-000000000005", "notes": [], "duration_ms": 3,
            })
        );
    }

    #[test]
    fn a_denied_call_names_the_rule_and_its_place() {
        let input = json!({"command": "rm x"});
        let permission = Permission {
            call: ToolUse {
                id: "t1".into(),
                name: "Bash".into(),
                input: ToolInput::Json(input.clone()),
            },
            derived: Value::Null,
            denial: Some(Denial {
                tool_name: "Bash".into(),
                tool_use_id: "t1".into(),
                tool_input: input,
                rule: Some("Bash(rm *)".into()),
                reason: "denied by rule".into(),
                would_allow: None,
            }),
            rule: Some("Bash(rm *)".into()),
            place: Some(Place {
                file: "job.yaml".into(),
                line: 3,
                column: 5,
            }),
            reason: "denied by rule".into(),
        };
        assert_eq!(
            line(EventBody::Permission(permission)),
            json!({
                "type": "system", "subtype": "permission", "tool_name": "Bash", "tool_use_id": "t1",
                "tool_input": {"command": "rm x"}, "derived": null, "decision": "denied",
                "rule": "Bash(rm *)", "place": {"file": "job.yaml", "line": 3, "column": 5},
                "reason": "denied by rule",
            })
        );
    }

    #[test]
    fn notices_are_system_lines() {
        let mut failure = Failure::new(FailureKind::Overloaded, "overloaded");
        failure.status = Some(529);
        for (notice, right) in [
            (
                Notice::Transition {
                    why: Transition::NextTurn,
                    turn: 2,
                },
                json!({"type": "system", "subtype": "transition", "transition": "next_turn", "turn": 2}),
            ),
            (
                Notice::Retry {
                    attempt: 1,
                    max_retries: 3,
                    delay: Duration::from_millis(500),
                    failure,
                },
                json!({
                    "type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 3,
                    "retry_delay_ms": 500, "error_status": 529, "error": "overloaded", "message": "overloaded",
                }),
            ),
            (
                Notice::MaxTurnsReached {
                    max_turns: 2,
                    turn_count: 2,
                },
                json!({
                    "type": "system", "subtype": "attachment",
                    "attachment": {"type": "max_turns_reached", "max_turns": 2, "turn_count": 2},
                }),
            ),
            (
                Notice::SyntheticError {
                    message: "gone".into(),
                },
                json!({
                    "type": "assistant",
                    "message": {
                        "role": "assistant", "id": null, "type": "message", "model": "<synthetic>",
                        "content": [{"type": "text", "text": "gone"}],
                        "stop_reason": null, "stop_sequence": null,
                    },
                    "parent_tool_use_id": null, "error": "unknown", "isSynthetic": true,
                }),
            ),
        ] {
            assert_eq!(line(EventBody::Notice(notice)), right);
        }
    }

    #[test]
    fn only_what_passed_is_a_success() {
        for reason in StopReason::ALL {
            for finding in [None, Some(Finding::ChecksFailed)] {
                let mut stop = Stop::new(reason, "why");
                stop.finding = finding;
                let value = line(EventBody::Result(result(stop)));
                let passed = reason == StopReason::Completed && finding.is_none();
                assert_eq!(value["subtype"] == "success", passed, "{value}");
                assert_eq!(value["is_error"], !passed);
                assert_eq!(value["result"], "step 2");
            }
        }
        let stop = Stop::new(StopReason::MaxTurns, "the limit of 2 turns is reached");
        let value = line(EventBody::Result(result(stop)));
        assert_eq!(value["subtype"], "error_max_turns");
        assert_eq!(value["errors"], json!(["the limit of 2 turns is reached"]));
        assert_eq!(value["total_cost_usd"].to_string(), "0.021");
    }

    #[test]
    fn what_is_for_the_eye_alone_is_no_line() {
        let event = Event {
            id: Uuid::from_u128(7),
            at: datetime!(2026-11-30 03:00 UTC),
            elapsed: Duration::ZERO,
            body: EventBody::TextDelta { text: "a".into() },
        };
        assert!(event.body.is_for_the_eye_alone());
        assert_eq!(stream_json_line(Uuid::from_u128(1), &event), None);
    }
}
