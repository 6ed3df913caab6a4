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
    /// The built-in tools, as far as they are `offered`: a tool that no rule may allow is not there.
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
            if offered(&tool.spec().name) {
                registry.add(tool);
            }
        }
        registry
    }

    /// One tool more; of two with one name the later one counts.
    pub fn add(&mut self, tool: Arc<dyn Tool>) {
        let spec = tool.spec();
        self.tools.insert(spec.name.clone(), Entry { tool, spec });
    }

    /// How the model is told of them, sorted by name.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools
            .values()
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
        let registry = Registry::built_in(|name| name != "Write");
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
    fn a_tool_that_is_not_offered_does_not_exist() {
        for name in ["Write", "read", ""] {
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
