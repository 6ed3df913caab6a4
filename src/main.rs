//! `lightsout`: arguments to `cli`, its exit code to the caller.

use std::process::ExitCode;

fn main() -> ExitCode {
    lightsout::cli::main()
}
