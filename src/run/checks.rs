//! What is asked after the loop.

use std::ffi::OsString;

use crate::job::Check;
use crate::sandbox::{Ending, OutputCap, ProcessSpec, run};
use crate::transcript::CheckResult;

use super::kit::Kit;

/// The output of a check that is kept: enough for a person to see what failed.
const OUTPUT: OutputCap = OutputCap {
    head: 4 * 1024,
    tail: 16 * 1024,
};

/// Runs the prompt's checks in order, all of them, on this thread.
pub(super) fn run_all(kit: &Kit) -> Vec<CheckResult> {
    kit.prompt
        .checks
        .iter()
        .map(|check| run_one(kit, check))
        .collect()
}

fn run_one(kit: &Kit, check: &Check) -> CheckResult {
    let spec = ProcessSpec {
        program: kit.session.bash().into(),
        args: vec!["-c".into(), OsString::from(&check.command)],
        cwd: kit.prompt.workspace.clone(),
        env: kit.child_env.clone(),
        timeout: check.timeout,
        output_cap: OUTPUT,
    };
    let command = shown(&check.command);
    let started = kit.clock.now();
    let (message, output) = match run(&spec, &kit.cancel) {
        Err(error) => (
            Some(format!("cannot run {command}: {error}")),
            String::new(),
        ),
        Ok(finished) => {
            let message = match finished.ending {
                Ending::Exited(0) => None,
                Ending::Exited(code) => Some(format!("{command} exited with {code}")),
                Ending::Signalled(signal) => {
                    Some(format!("{command} was killed by signal {signal}"))
                }
                Ending::TimedOut => Some(format!("{command} was killed after {:?}", check.timeout)),
                Ending::Cancelled => Some(format!("{command} was cancelled")),
            };
            (
                message,
                kit.redactor.redact(&finished.output.text()).into_owned(),
            )
        }
    };
    CheckResult {
        id: check.id.clone(),
        line: check.line,
        command: check.command.clone(),
        passed: message.is_none(),
        message: message.unwrap_or_default(),
        output,
        duration: kit.clock.now().saturating_sub(started),
    }
}

/// A command inside a message: its first line, so that what became of it stands on the same line.
fn shown(command: &str) -> String {
    let mut lines = command.trim().lines();
    let first = lines.next().unwrap_or_default().trim_end();
    let more = if lines.next().is_some() { " …" } else { "" };
    format!("`{first}{more}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_in_a_message_is_one_line() {
        assert_eq!(shown("cargo test\n"), "`cargo test`");
        assert_eq!(shown("\nset -e \ncargo test\n"), "`set -e …`");
    }
}
