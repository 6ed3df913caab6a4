//! What the room may see of the world.

use std::io;
use std::path::{Path, PathBuf};

use crate::models::Usd;

/// Files and environment, handed in by `cli`, so that validation is tested without a disk.
///
/// Paths are absolute, except that of [`Source::read`] for a job file named on the command line; a
/// relative one means [`Source::cwd`].
pub trait Source {
    /// A file's bytes; of a longer one than `limit` the first `limit + 1`, so that its length shows.
    /// What is no regular file (a pipe, a device) is an error, never waited for.
    fn read(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>>;
    /// The value of an environment variable; `None` when unset or not UTF-8.
    fn env(&self, name: &str) -> Option<String>;
    /// Whether a regular file is there, links followed.
    fn is_file(&self, path: &Path) -> bool;
    /// Whether a directory is there, links followed.
    fn is_dir(&self, path: &Path) -> bool;
    /// The path without links, `.` and `..`; an error when nothing is there.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;
    /// The home directory, for `~/` in rules.
    fn home(&self) -> Option<PathBuf>;
    /// The working directory, absolute.
    fn cwd(&self) -> PathBuf;
}

/// The words of an error without its number, which says nothing to who wrote the job file.
pub(super) fn reason(error: &io::Error) -> String {
    let words = error.to_string();
    match words.split_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => words,
    }
}

/// What the command line sets; it wins over the job file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--max-budget-usd`: the cap of each prompt.
    pub max_budget: Option<Usd>,
    /// `--replay DIR`: every prompt is answered from this cassette; relative to the working directory.
    pub replay: Option<PathBuf>,
    /// `--model`, written as in a job file; a `replay/PATH` is relative to the working directory.
    pub model: Option<String>,
}
