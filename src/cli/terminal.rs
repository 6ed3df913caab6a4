//! Standard output for results, standard error for all else.

use std::io::{self, Write};

/// Prints a result. A reader that has gone away is no fault of the run.
pub(super) fn result(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
}

/// Prints a line on standard error, in one write.
pub(super) fn error(line: &str) {
    let _ = io::stderr()
        .lock()
        .write_all(format!("{line}\n").as_bytes());
}
