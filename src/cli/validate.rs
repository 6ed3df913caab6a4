//! `lightsout validate`: every fault of every job file, in one go.

use crate::job::{self, Diagnostic, Job, ModelChoice, Overrides};
use crate::stop::exit;
use crate::transcript::Redactor;

use super::arguments::ValidateArguments;
use super::disk::Disk;
use super::environment::Environment;
use super::terminal;

pub(super) fn validate(
    arguments: &ValidateArguments,
    environment: &Environment,
) -> anyhow::Result<u8> {
    let disk = Disk::new(environment)?;
    let redactor = environment.redactor();
    match job::load_all(&arguments.jobs, &Overrides::default(), &disk) {
        Ok(jobs) => {
            for job in &jobs {
                print(&job.warnings, &redactor);
                terminal::result(&accepted(job))?;
            }
            warn_of_missing_key(&jobs, environment);
            Ok(exit::PASSED)
        }
        Err(diagnostics) => {
            print(&diagnostics, &redactor);
            Ok(exit::USAGE)
        }
    }
}

fn accepted(job: &Job) -> String {
    let prompts = job.prompts.len();
    let plural = if prompts == 1 { "" } else { "s" };
    format!(
        "{}: ok, job `{}` with {prompts} prompt{plural}\n",
        job.file.display(),
        job.name
    )
}

/// The files are good without a key, which a step that only checks them need not have; a run is not.
fn warn_of_missing_key(jobs: &[Job], environment: &Environment) {
    let mut prompts = jobs.iter().flat_map(|job| &job.prompts);
    if prompts.any(|prompt| matches!(prompt.model, ModelChoice::Anthropic(_)))
        && let Err(error) = environment.access()
    {
        terminal::error(&format!("warning: {error:#}"));
    }
}

/// Prints diagnostics on standard error, a blank line between them.
///
/// A diagnostic shows lines of the file, and a secret may stand in one.
pub(super) fn print(diagnostics: &[Diagnostic], redactor: &Redactor) {
    for diagnostic in diagnostics {
        terminal::error(&redactor.redact(&format!("{diagnostic}\n")));
    }
}
