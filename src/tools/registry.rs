//! The tools a conversation has.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::message::{ToolInput, ToolResult, ToolSpec, ToolUse};
use crate::schema::{input_validation_error, validate};

use super::{Bash, Edit, Glob, Grep, Read, Tool, Write};

/// How much of arguments that are no JSON is quoted, in characters.
const QUOTED_CHARS: usize = 200;

/// Tools by name.
#[derive(Clone, Default)]
pub struct Registry {
    tools: BTreeMap<String, Entry>,
}

#[derive(Clone)]
struct Entry {
    tool: Arc<dyn Tool>,
    spec: ToolSpec,
    /// Whether the model is told of it.
    is_offered: bool,
}

/// A call whose tool exists and whose arguments fit.
#[derive(Clone)]
pub struct Checked {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// The arguments as the tool takes them.
    pub input: Value,
}

impl Registry {
    /// The built-in tools. The model is told of those that are `offered`; a call of another one is
    /// checked all the same, so that the policy denies it and the denial counts: work that could not be
    /// done for want of a rule must not pass for a mistake in a name.
    pub fn built_in(offered: impl Fn(&str) -> bool) -> Self {
        let mut registry = Self::default();
        let tools: [Arc<dyn Tool>; 6] = [
            Arc::new(Bash),
            Arc::new(Edit),
            Arc::new(Glob),
            Arc::new(Grep),
            Arc::new(Read),
            Arc::new(Write),
        ];
        for tool in tools {
            let is_offered = offered(&tool.spec().name);
            registry.put(tool, is_offered);
        }
        registry
    }

    /// One tool more, offered; of two with one name the later one counts.
    pub fn add(&mut self, tool: Arc<dyn Tool>) {
        self.put(tool, true);
    }

    fn put(&mut self, tool: Arc<dyn Tool>, is_offered: bool) {
        let spec = tool.spec();
        let name = spec.name.clone();
        let entry = Entry {
            tool,
            spec,
            is_offered,
        };
        self.tools.insert(name, entry);
    }

    /// How the model is told of those that are offered, sorted by name.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools
            .values()
            .filter(|entry| entry.is_offered)
            .map(|entry| entry.spec.clone())
            .collect()
    }

    /// The tool of a call and its fitted arguments, or what the model is answered when there is no such
    /// tool or the arguments do not fit.
    pub fn check(&self, call: &ToolUse) -> Result<Checked, ToolResult> {
        let refuse = |text: String| Err(ToolResult::text(&call.id, text, true));
        let Some(entry) = self.tools.get(&call.name) else {
            return refuse(format!(
                "<tool_use_error>Error: No such tool available: {}</tool_use_error>",
                call.name
            ));
        };
        let input = match &call.input {
            ToolInput::Json(input) => input,
            ToolInput::Unparseable(text) => return refuse(unparseable(&call.name, text)),
        };
        match validate(&entry.spec.input_schema, input) {
            Ok(input) => Ok(Checked {
                tool: Arc::clone(&entry.tool),
                input,
            }),
            Err(faults) => refuse(input_validation_error(&call.name, &faults)),
        }
    }
}

fn unparseable(tool: &str, text: &str) -> String {
    let quoted: String = text.chars().take(QUOTED_CHARS).collect();
    let more = if quoted.len() < text.len() { "…" } else { "" };
    format!(
        "<tool_use_error>InputValidationError: {tool} was called with arguments that are not valid JSON. \
         They begin with: {quoted}{more}</tool_use_error>"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(name: &str, input: ToolInput) -> ToolUse {
        ToolUse {
            id: "toolu_7".into(),
            name: name.into(),
            input,
        }
    }

    fn refusal(name: &str, input: ToolInput) -> ToolResult {
        let registry = Registry::built_in(|_| true);
        match registry.check(&call(name, input)) {
            Ok(checked) => panic!("{name} was taken with {}", checked.input),
            Err(result) => result,
        }
    }

    #[test]
    fn tools_are_told_of_in_order_and_only_when_offered() {
        let names = |registry: Registry| -> Vec<String> {
            registry.specs().into_iter().map(|spec| spec.name).collect()
        };
        assert_eq!(
            names(Registry::built_in(|_| true)),
            ["Bash", "Edit", "Glob", "Grep", "Read", "Write"]
        );
        assert_eq!(names(Registry::built_in(|name| name == "Read")), ["Read"]);
    }

    #[test]
    fn a_tool_of_another_name_does_not_exist() {
        for name in ["WebFetch", "read", ""] {
            assert_eq!(
                refusal(name, ToolInput::Json(json!({}))),
                ToolResult::text(
                    "toolu_7",
                    format!(
                        "<tool_use_error>Error: No such tool available: {name}</tool_use_error>"
                    ),
                    true
                )
            );
        }
    }

    #[test]
    fn g08_a_tool_that_is_not_offered_is_there_for_the_policy_to_deny() {
        let input = json!({"file_path": "a", "content": "x"});
        let registry = Registry::built_in(|_| false);
        assert_eq!(registry.specs(), []);
        let checked = registry.check(&call("Write", ToolInput::Json(input.clone())));
        let checked = checked.unwrap_or_else(|result| panic!("{result:?}"));
        assert_eq!(checked.tool.touches(&checked.input), Write.touches(&input));
    }

    #[test]
    fn g35_a_call_without_arguments_is_told_what_is_missing() {
        assert_eq!(
            refusal("Glob", ToolInput::Json(json!({}))),
            ToolResult::text(
                "toolu_7",
                "<tool_use_error>InputValidationError: Glob failed due to the following issue:\n\
                 The required parameter `pattern` is missing</tool_use_error>",
                true
            )
        );
    }

    #[test]
    fn arguments_that_are_no_json_are_quoted_from_their_start() {
        let text = format!("{{\"file_path\": \"{}", "ä".repeat(300));
        let result = refusal("Read", ToolInput::Unparseable(text));
        let expected = format!(
            "<tool_use_error>InputValidationError: Read was called with arguments that are not valid JSON. \
             They begin with: {{\"file_path\": \"{}…</tool_use_error>",
            "ä".repeat(185)
        );
        assert_eq!(result, ToolResult::text("toolu_7", expected, true));
    }

    #[test]
    fn fitted_arguments_are_handed_on() {
        let input = ToolInput::Json(json!({"file_path": "a", "limit": "5"}));
        let checked = Registry::built_in(|_| true).check(&call("Read", input));
        let checked = checked.unwrap_or_else(|result| panic!("{result:?}"));
        assert_eq!(checked.input, json!({"file_path": "a", "limit": 5}));
    }
}
