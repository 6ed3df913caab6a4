//! The only way from a `tool_use` to a permit: arguments checked, paths resolved, policy asked.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::message::{RequestNumber, ToolUse};
use crate::policy::{Call, Decision, Permit, ResolvePath, Resolved, Target};
use crate::query::{CallDecision, Denial, Input};
use crate::tools::{Checked, Tool, Touches};
use crate::transcript::Permission;
use crate::workspace::Workspace;

use super::kit::Kit;
use super::record::{Detail, Told};

/// A call that may run.
pub(super) struct Permitted {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) permit: Permit,
    /// Its arguments, numeric and boolean strings turned into what they mean.
    pub(super) input: Value,
    /// Notes of the rules that allow it.
    pub(super) notes: Vec<String>,
}

/// Judges a call: what the machine and the transcript are told, and the permit if it may run.
pub(super) fn authorize(
    kit: &Kit,
    request: RequestNumber,
    call: &ToolUse,
) -> (Told, Option<Permitted>) {
    let decided = |decision| Input::CallDecided {
        request,
        tool_use_id: call.id.clone(),
        decision,
    };
    let Checked { tool, input } = match kit.registry.check(call) {
        Ok(checked) => checked,
        Err(result) => return (Told::plain(decided(CallDecision::Answered(result))), None),
    };
    let target = target(kit, &tool.touches(&input));
    let derived = derived(&target);
    let resolver = PathsOnDisk {
        workspace: kit.session.workspace(),
    };
    match kit.policy.decide(
        Call {
            tool_use: call.clone(),
            target,
        },
        &resolver,
    ) {
        Decision::Allowed {
            permit,
            rule,
            place,
            notes,
            reason,
        } => {
            let permission = Permission {
                call: call.clone(),
                derived,
                denial: None,
                rule: Some(rule),
                place: Some(place),
                reason,
            };
            let is_read_only = tool.is_read_only();
            let told = Told {
                input: decided(CallDecision::Allowed { is_read_only }),
                detail: Detail::Decided(Box::new(permission)),
            };
            (
                told,
                Some(Permitted {
                    tool,
                    permit,
                    input,
                    notes,
                }),
            )
        }
        Decision::Denied {
            rule,
            reason,
            would_allow,
        } => {
            let denial = Denial {
                tool_name: call.name.clone(),
                tool_use_id: call.id.clone(),
                tool_input: call.input_value(),
                rule: rule.as_ref().map(|(rule, _)| rule.clone()),
                reason: reason.clone(),
                would_allow,
            };
            let (rule, place) = rule.unzip();
            let permission = Permission {
                call: call.clone(),
                derived,
                denial: Some(denial.clone()),
                rule,
                place,
                reason,
            };
            let told = Told {
                input: decided(CallDecision::Denied(denial)),
                detail: Detail::Decided(Box::new(permission)),
            };
            (told, None)
        }
    }
}

fn target(kit: &Kit, touches: &Touches) -> Target {
    match touches {
        Touches::Path { path, access } => {
            let workspace = kit.session.workspace();
            let path = resolve(workspace, Path::new(path), workspace.root());
            Target::Path {
                access: *access,
                path,
            }
        }
        Touches::Command(command) => Target::Command {
            command: command.clone(),
            cwd: kit.session.cwd(),
        },
        Touches::Nothing => Target::Nothing,
    }
}

/// What the policy saw beside the arguments; of a path that is no UTF-8, what can be shown.
fn derived(target: &Target) -> Value {
    match target {
        Target::Path { path, .. } => json!({
            "path": path.written.to_string_lossy(),
            "real_path": path.real.to_string_lossy(),
        }),
        Target::Command { cwd, .. } => json!({"cwd": cwd.to_string_lossy()}),
        Target::Nothing => Value::Null,
    }
}

/// Paths as they are on disk.
pub struct PathsOnDisk<'a> {
    /// The prompt's workspace.
    pub workspace: &'a Workspace,
}

impl ResolvePath for PathsOnDisk<'_> {
    fn resolve(&self, written: &Path, cwd: &Path) -> Resolved {
        resolve(self.workspace, written, cwd)
    }

    fn is_directory(&self, real: &Path) -> bool {
        real.is_dir()
    }
}

fn resolve(workspace: &Workspace, path: &Path, cwd: &Path) -> Resolved {
    let resolved = workspace.resolve(path, cwd);
    Resolved {
        written: resolved.written,
        real: resolved.real,
    }
}
