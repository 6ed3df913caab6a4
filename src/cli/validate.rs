//! `lightsout validate`: every fault of every job file, in one go.

use crate::job::{self, Diagnostic, Overrides};
use crate::stop::exit;

use super::arguments::ValidateArguments;
use super::disk::Disk;
use super::environment::Environment;
use super::terminal;

pub(super) fn validate(
    arguments: &ValidateArguments,
    environment: &Environment,
) -> anyhow::Result<u8> {
    let disk = Disk::new(environment)?;
    match job::load_all(&arguments.jobs, &Overrides::default(), &disk) {
        Ok(jobs) => {
            for job in &jobs {
                print(&job.warnings);
                let prompts = job.prompts.len();
                let plural = if prompts == 1 { "" } else { "s" };
                terminal::result(&format!(
                    "{}: ok, job `{}` with {prompts} prompt{plural}\n",
                    job.file.display(),
                    job.name
                ))?;
            }
            Ok(exit::PASSED)
        }
        Err(diagnostics) => {
            print(&diagnostics);
            Ok(exit::USAGE)
        }
    }
}

/// Prints diagnostics on standard error, a blank line between them.
pub(super) fn print(diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics {
        terminal::error(&format!("{diagnostic}\n"));
    }
}
