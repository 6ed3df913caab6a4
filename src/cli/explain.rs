//! `lightsout explain`: what a job's rules decide about a call, and why.

use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Value, json};

use crate::job::{self, Overrides, Prompt};
use crate::message::{ToolInput, ToolUse};
use crate::policy::{Call, Decision, ResolvePath as _, Target};
use crate::run::PathsOnDisk;
use crate::stop::exit;
use crate::tools::{Registry, Touches};
use crate::workspace::Workspace;

use super::arguments::ExplainArguments;
use super::disk::Disk;
use super::environment::Environment;
use super::{terminal, validate};

pub(super) fn explain(
    arguments: &ExplainArguments,
    environment: &Environment,
) -> anyhow::Result<u8> {
    let disk = Disk::new(environment)?;
    let job = match job::load(&arguments.job, &Overrides::default(), &disk) {
        Ok(job) => job,
        Err(diagnostics) => {
            validate::print(&diagnostics, &environment.redactor());
            return Ok(exit::USAGE);
        }
    };
    let prompt = match &arguments.prompt {
        None => job.prompts.first(),
        Some(id) => job.prompts.iter().find(|prompt| prompt.id == *id),
    };
    let prompt = prompt.with_context(|| {
        let ids: Vec<&str> = job
            .prompts
            .iter()
            .map(|prompt| prompt.id.as_str())
            .collect();
        format!("the job has no such prompt; it has {}", ids.join(", "))
    })?;
    judge(prompt, &arguments.call)
}

fn judge(prompt: &Prompt, call: &str) -> anyhow::Result<u8> {
    let tool_use = tool_use(call)?;
    let workspace = Workspace::open(&prompt.workspace)
        .with_context(|| format!("opening the workspace {}", prompt.workspace.display()))?;
    let registry = Registry::built_in(|_| true);
    let checked = registry.check(&tool_use).map_err(|_| {
        let names: Vec<String> = registry.specs().into_iter().map(|spec| spec.name).collect();
        anyhow!(
            "there is no tool {}; there are {}",
            tool_use.name,
            names.join(", ")
        )
    })?;
    let resolver = PathsOnDisk {
        workspace: &workspace,
    };
    let target = match checked.tool.touches(&checked.input) {
        Touches::Path { path, access } => {
            let path = resolver.resolve(Path::new(&path), workspace.root());
            Target::Path { access, path }
        }
        Touches::Command(command) => Target::Command {
            command,
            cwd: workspace.root().to_owned(),
        },
        Touches::Nothing => Target::Nothing,
    };
    let explanation = prompt.policy.explain(Call { tool_use, target }, &resolver);
    terminal::result(&format!("{explanation}\n"))?;
    Ok(match explanation.decision {
        Decision::Allowed { .. } => exit::PASSED,
        Decision::Denied { .. } => exit::FAILED,
    })
}

/// A call from `Tool(argument)`, as the model would make it.
fn tool_use(call: &str) -> anyhow::Result<ToolUse> {
    let parts = call
        .split_once('(')
        .and_then(|(name, rest)| Some((name.trim(), rest.strip_suffix(')')?)));
    let Some((name, argument)) = parts else {
        bail!(
            "`{call}` is no call; write it as Tool(argument), such as 'Bash(git log -3)' or 'Read(src/main.rs)'"
        );
    };
    let input: Value = match name {
        "Bash" => json!({"command": argument}),
        "Glob" | "Grep" => json!({"pattern": ".", "path": argument}),
        // What is written decides nothing, but a call without it would be no call.
        "Write" => json!({"file_path": argument, "content": ""}),
        "Edit" => json!({"file_path": argument, "old_string": "a", "new_string": "b"}),
        _ => json!({"file_path": argument}),
    };
    Ok(ToolUse {
        id: "explain".into(),
        name: name.to_owned(),
        input: ToolInput::Json(input),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_a_tool_with_its_argument_in_parentheses() {
        let call = tool_use("Bash(echo $(id))").unwrap();
        assert_eq!(
            (call.name.as_str(), call.input_value()),
            ("Bash", json!({"command": "echo $(id)"}))
        );
        assert_eq!(
            tool_use("Read(a b)").unwrap().input_value(),
            json!({"file_path": "a b"})
        );
        for bad in ["Bash", "Bash(ls", ""] {
            assert!(tool_use(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_argument_alone_makes_a_whole_call_of_every_tool() {
        let registry = Registry::built_in(|_| true);
        for spec in registry.specs() {
            let call = tool_use(&format!("{}(a)", spec.name)).unwrap();
            assert!(registry.check(&call).is_ok(), "{}", spec.name);
        }
    }
}
