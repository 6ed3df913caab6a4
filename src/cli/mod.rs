//! The front door: arguments, environment and disk come in here and nowhere else; one file a command.
//!
//! Results go to standard output, all else to standard error. Wires the rooms together; decides nothing
//! that they can decide.

mod arguments;
mod disk;
mod environment;
mod explain;
mod output;
mod run;
mod terminal;
mod validate;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use crate::stop::exit;

use arguments::{Arguments, Command};
use environment::Environment;

/// Runs the command line and returns its exit code.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are printed to standard output and are no error.
            let code = if error.use_stderr() {
                exit::USAGE
            } else {
                exit::PASSED
            };
            // When not even that can be printed, the exit code still tells.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let environment = Environment::read();
    let result = match &arguments.command {
        Command::Run(arguments) => run::run(arguments, &environment),
        Command::Validate(arguments) => validate::validate(arguments, &environment),
        Command::Explain(arguments) => explain::explain(arguments, &environment),
    };
    ExitCode::from(result.unwrap_or_else(|error| {
        terminal::error(&format!("error: {error:#}"));
        exit::USAGE
    }))
}
