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
    let started = kit.clock.now();
    let (message, output) = match run(&spec, &kit.cancel) {
        Err(error) => (
            Some(format!("cannot run `{}`: {error}", check.command)),
            String::new(),
        ),
        Ok(finished) => {
            let message = match finished.ending {
                Ending::Exited(0) => None,
                Ending::Exited(code) => Some(format!("`{}` exited with {code}", check.command)),
                Ending::Signalled(signal) => {
                    Some(format!("`{}` was killed by signal {signal}", check.command))
                }
                Ending::TimedOut => Some(format!(
                    "`{}` was killed after {:?}",
                    check.command, check.timeout
                )),
                Ending::Cancelled => Some(format!("`{}` was cancelled", check.command)),
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
