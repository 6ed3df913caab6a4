//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::models::Usd;

const AFTER_HELP: &str = "\
Exit codes: 0 all passed; 1 something failed or was not run; 2 usage or job file; 3 something errored and \
nothing failed; 4 the filters matched nothing; 129, 130, 143 ended by SIGHUP, SIGINT, SIGTERM.";

/// Runs language-model agent jobs with nobody watching.
///
/// A YAML job file says what to ask, which tools may be used, how many turns and how much money it may
/// take; a run leaves transcripts, JUnit results, a summary and an exit code that tells the truth.
#[derive(Debug, Parser)]
#[command(version, after_help = AFTER_HELP)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Runs the prompts of one or more job files.
    #[command(after_help = AFTER_HELP)]
    Run(RunArguments),
    /// Checks job files and names every fault; nothing is sent.
    Validate(ValidateArguments),
    /// Says what a job's rules decide about a call, and by which rule; exit code 0 allowed, 1 denied.
    Explain(ExplainArguments),
}

#[derive(Debug, Args)]
pub(super) struct RunArguments {
    /// Job files.
    #[arg(required = true, value_name = "JOB")]
    pub(super) jobs: Vec<PathBuf>,
    /// Where the run writes; must be new or empty [default: lightsout-runs/ID].
    #[arg(long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    /// What goes to standard output: the final texts of what passed, or run.json.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,
    /// Says nothing unless something did not pass.
    #[arg(short, long, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// Logs each turn and each tool result.
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// How many prompts run side by side.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) concurrency: u16,
    /// Runs only these prompts: an id, JOB/ID, or a glob over either; may be given several times.
    #[arg(long, value_name = "PROMPT")]
    pub(super) only: Vec<String>,
    /// Leaves these prompts out; wins over --only.
    #[arg(long, value_name = "PROMPT")]
    pub(super) skip: Vec<String>,
    /// The hard cap of each prompt, instead of the job file's.
    #[arg(long, value_name = "USD", value_parser = usd)]
    pub(super) max_budget_usd: Option<Usd>,
    /// Answers every prompt from this cassette instead of its model: no network, no key.
    #[arg(long, value_name = "CASSETTE", conflicts_with = "record")]
    pub(super) replay: Option<PathBuf>,
    /// Writes a cassette of all requests and replies there.
    #[arg(long, value_name = "DIR")]
    pub(super) record: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ValidateArguments {
    /// Job files.
    #[arg(required = true, value_name = "JOB")]
    pub(super) jobs: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ExplainArguments {
    /// The job file whose rules are asked.
    #[arg(value_name = "JOB")]
    pub(super) job: PathBuf,
    /// The call, as `Tool(argument)`: `Bash(git log -3)`, `Read(src/main.rs)`.
    #[arg(value_name = "CALL")]
    pub(super) call: String,
    /// The prompt whose rules are asked, where prompts have rules of their own [default: the first].
    #[arg(long, value_name = "ID")]
    pub(super) prompt: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// The final text of each prompt that passed.
    Text,
    /// run.json.
    Json,
}

fn usd(text: &str) -> Result<Usd, String> {
    text.parse()
        .ok()
        .and_then(Usd::from_decimal)
        .filter(|usd| *usd > Usd::ZERO)
        .ok_or_else(|| "must be an amount of US dollars above 0, such as 0.50".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn an_amount_of_money_is_above_nothing() {
        assert_eq!(usd("0.5"), Ok(Usd::from_picos(500_000_000_000)));
        for bad in ["0", "-1", "nan", "inf", "1,50", ""] {
            assert!(usd(bad).is_err(), "{bad}");
        }
    }
}
