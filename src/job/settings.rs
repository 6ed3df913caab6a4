//! The shared keys whose values have parts: `workspace`, `sandbox`, `limits`, `checks`.

use super::fault::Faults;
use super::file::{CheckEntry, Reader, Settings};
use super::keys::{self, Known};
use super::node::{Content, Node};
use super::prompt;
use super::value::{self, unsupported};

/// Only `reply` is built, which is what happens without the key.
pub(super) fn completion(faults: &mut Faults, node: &Node) {
    let choices = [("reply", true), ("declared", false)];
    if value::choice(faults, "completion", node, &choices) == Some(false) {
        unsupported(
            faults,
            node.span,
            "completion: declared",
            "leave it out: a reply without tool calls ends the conversation; verify it by `checks`",
        );
    }
}

/// `{dir, mode, …}`.
pub(super) fn workspace(faults: &mut Faults, settings: &mut Settings, node: &Node) {
    let known = Known {
        built: &["dir", "mode"],
        later: &["additional_dirs", "changes", "apply"],
    };
    let help = "write `workspace: {dir: PATH}`; without the key it is the job file's directory";
    for entry in value::map(faults, "workspace", node, help).unwrap_or_default() {
        let (key, node) = (entry.key.text.as_str(), &entry.value);
        match key {
            "dir" => settings.workspace = value::text(faults, "workspace.dir", node),
            "mode" => {
                let choices = [("in_place", true), ("worktree", false), ("copy", false)];
                if value::choice(faults, "workspace.mode", node, &choices) == Some(false) {
                    let mode = match &node.content {
                        Content::Scalar(scalar) => scalar.text.as_str(),
                        Content::List(_) | Content::Map(_) => "",
                    };
                    unsupported(
                        faults,
                        node.span,
                        &format!("workspace.mode: {mode}"),
                        "leave it out: tools work in the directory itself; make a worktree or copy before the run",
                    );
                }
            }
            "additional_dirs" | "changes" if node.has_no_entries() => {}
            "additional_dirs" => unsupported(
                faults,
                entry.key.span,
                "workspace.additional_dirs",
                "leave it out: allow single places by rules such as `Read(//usr/share/doc/**)`",
            ),
            "changes" => unsupported(
                faults,
                entry.key.span,
                "workspace.changes",
                "limit what may be written by rules such as `Write(docs/**)`",
            ),
            "apply" => unsupported(
                faults,
                entry.key.span,
                "workspace.apply",
                "leave it out: changes are made in the directory itself",
            ),
            _ => {
                keys::unknown_key(faults, entry, "in `workspace`", known);
            }
        }
    }
}

/// Only `{mode: off}` can be kept today; whoever asks for more must not believe to have it.
pub(super) fn sandbox(faults: &mut Faults, settings: &mut Settings, node: &Node) {
    const HELP: &str = "this version has no sandbox; `sandbox: {mode: off}` says that you know, and a container around the run is one";
    let known = Known {
        built: &["mode"],
        later: &["network", "writable", "hooks"],
    };
    for entry in
        value::map(faults, "sandbox", node, "write `sandbox: {mode: off}`").unwrap_or_default()
    {
        let node = &entry.value;
        match entry.key.text.as_str() {
            "mode" => {
                let choices = [
                    ("off", true),
                    ("auto", false),
                    ("best_effort", false),
                    ("required", false),
                ];
                match value::choice(faults, "sandbox.mode", node, &choices) {
                    Some(true) => settings.runs_free = Some(true),
                    Some(false) => unsupported(faults, node.span, "sandbox.mode", HELP),
                    None => {}
                }
            }
            key if known.later.contains(&key) => {
                unsupported(faults, entry.key.span, &format!("sandbox.{key}"), HELP);
            }
            _ => {
                keys::unknown_key(faults, entry, "in `sandbox`", known);
            }
        }
    }
}

/// `{attempts, idle_timeout, parallel_tools}`, and what is not built of it.
pub(super) fn limits(faults: &mut Faults, settings: &mut Settings, node: &Node) {
    let known = Known {
        built: &["attempts", "idle_timeout", "parallel_tools"],
        later: &[
            "compact_at",
            "stop_hook_blocks",
            "schema_tries",
            "task_max_turns",
        ],
    };
    let help = "write `limits: {attempts: 10, idle_timeout: 90s, parallel_tools: 10}`";
    for entry in value::map(faults, "limits", node, help).unwrap_or_default() {
        let node = &entry.value;
        match entry.key.text.as_str() {
            "attempts" => {
                let help = "how often a request is tried in all; without the key it is 10";
                let attempts = value::whole(faults, "limits.attempts", node, (1, 1000), help);
                settings.attempts = attempts.and_then(|n| u32::try_from(n).ok());
            }
            "idle_timeout" => {
                settings.idle_timeout = value::duration(faults, "limits.idle_timeout", node);
            }
            "parallel_tools" => {
                let help = "calls that only read, side by side; without the key it is 10";
                let calls = value::whole(faults, "limits.parallel_tools", node, (1, 1000), help);
                settings.parallel_tools = calls.and_then(|n| usize::try_from(n).ok());
            }
            key if known.later.contains(&key) => unsupported(
                faults,
                entry.key.span,
                &format!("limits.{key}"),
                "leave it out: what it limits does not happen yet",
            ),
            _ => {
                keys::unknown_key(faults, entry, "in `limits`", known);
            }
        }
    }
}

/// `fail` is what happens without the key; going on is not built.
pub(super) fn on_check_failure(faults: &mut Faults, node: &Node) {
    if matches!(&node.content, Content::Map(entries) if entries.iter().any(|e| e.key.text == "continue"))
    {
        unsupported(
            faults,
            node.span,
            "on_check_failure: {continue}",
            "leave it out: a failing check makes the prompt `failed`",
        );
        return;
    }
    value::choice(faults, "on_check_failure", node, &[("fail", ())]);
}

/// A list of `{command, timeout}`.
pub(super) fn checks(reader: &mut Reader<'_>, node: &Node) -> Option<Vec<CheckEntry>> {
    let help = "write `checks: [{command: \"make test\"}]`";
    let nodes = value::list(&mut reader.faults, "checks", node, help)?;
    Some(
        nodes
            .iter()
            .filter_map(|node| check(reader, node))
            .collect(),
    )
}

fn check(reader: &mut Reader<'_>, node: &Node) -> Option<CheckEntry> {
    let known = Known {
        built: &["command", "timeout"],
        later: &[
            "files_changed",
            "result_matches",
            "result_json",
            "file_exists",
            "tools_used",
        ],
    };
    let help = "a check is a mapping: `{command: \"make test\", timeout: 10m}`";
    let entries = value::map(&mut reader.faults, "checks[…]", node, help)?;
    let mut command = None;
    let mut timeout = None;
    let mut says_what = false;
    for entry in entries {
        let node = &entry.value;
        match entry.key.text.as_str() {
            "command" => {
                says_what = true;
                command = prompt::filled_text(reader, "command", node);
            }
            "timeout" => timeout = value::duration(&mut reader.faults, "timeout", node),
            key if known.later.contains(&key) => {
                says_what = true;
                unsupported(
                    &mut reader.faults,
                    entry.key.span,
                    &format!("checks: {key}"),
                    "write it as a `command` that exits with 0 when all is well",
                );
            }
            _ => {
                let meant = keys::unknown_key(&mut reader.faults, entry, "in a check", known);
                says_what |= meant.is_some_and(|meant| meant != "timeout");
            }
        }
    }
    if !says_what {
        reader.faults.error(
            node.span,
            "a check without a `command`",
            "write `{command: \"make test\"}`; it passes when the command exits with 0",
        );
    }
    Some(CheckEntry {
        line: node.span.at.line,
        command: command?,
        timeout,
    })
}
