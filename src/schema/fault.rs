//! What is wrong with arguments, and how a model is told.

use std::fmt;

/// One thing that is wrong. Paths are written `todos[0].status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A required parameter is not there.
    Missing(String),
    /// A parameter that nobody asked for.
    Unexpected(String),
    /// A parameter of another type.
    Mistyped {
        /// Where; empty for the arguments as a whole.
        path: String,
        /// The type it should have.
        expected: &'static str,
        /// The type it has.
        found: &'static str,
    },
    /// A value out of range, not in the list, or of the wrong form; a sentence.
    Other(String),
}

impl Fault {
    /// Place in the list of faults.
    fn rank(&self) -> u8 {
        match self {
            Self::Missing(_) => 0,
            Self::Unexpected(_) => 1,
            Self::Mistyped { .. } => 2,
            Self::Other(_) => 3,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(path) => write!(f, "The required parameter `{path}` is missing"),
            Self::Unexpected(path) => {
                write!(f, "An unexpected parameter `{path}` was provided")
            }
            Self::Mistyped {
                path,
                expected,
                found,
            } if path.is_empty() => {
                write!(
                    f,
                    "The input type is expected as `{expected}` but provided as `{found}`"
                )
            }
            Self::Mistyped {
                path,
                expected,
                found,
            } => write!(
                f,
                "The parameter `{path}` type is expected as `{expected}` but provided as `{found}`"
            ),
            Self::Other(text) => f.write_str(text),
        }
    }
}

/// What the model reads when the arguments of a call to `tool` do not fit: missing parameters first, then
/// unexpected, mistyped, and all else.
pub fn input_validation_error(tool: &str, faults: &[Fault]) -> String {
    let issues = if faults.len() == 1 { "issue" } else { "issues" };
    let mut faults: Vec<&Fault> = faults.iter().collect();
    faults.sort_by_key(|fault| fault.rank());
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    format!(
        "<tool_use_error>InputValidationError: {tool} failed due to the following {issues}:\n{}</tool_use_error>",
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_fault_is_an_issue() {
        let faults = [Fault::Missing("pattern".into())];
        assert_eq!(
            input_validation_error("Glob", &faults),
            "<tool_use_error>InputValidationError: Glob failed due to the following issue:\n\
             The required parameter `pattern` is missing</tool_use_error>"
        );
    }

    #[test]
    fn several_are_issues_in_a_fixed_order() {
        let faults = [
            Fault::Other("The parameter `timeout` must be at most 600000, not 700000".into()),
            Fault::Mistyped {
                path: "todos[0].status".into(),
                expected: "string",
                found: "number",
            },
            Fault::Unexpected("cmd".into()),
            Fault::Missing("command".into()),
        ];
        assert_eq!(
            input_validation_error("Bash", &faults),
            "<tool_use_error>InputValidationError: Bash failed due to the following issues:\n\
             The required parameter `command` is missing\n\
             An unexpected parameter `cmd` was provided\n\
             The parameter `todos[0].status` type is expected as `string` but provided as `number`\n\
             The parameter `timeout` must be at most 600000, not 700000</tool_use_error>"
        );
    }
}
