//! Standard output for results, standard error for all else.

use std::io::{self, Write};

/// Prints a result.
pub(super) fn result(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Prints a line on standard error, in one write.
pub(super) fn error(line: &str) {
    let _ = io::stderr()
        .lock()
        .write_all(format!("{line}\n").as_bytes());
}
