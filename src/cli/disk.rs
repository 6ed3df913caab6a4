//! Files and environment as `job` sees them.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::job::Source;

use super::environment::Environment;

/// The disk and the environment of this process.
pub(super) struct Disk<'a> {
    environment: &'a Environment,
    cwd: PathBuf,
}

impl<'a> Disk<'a> {
    /// The error is that the working directory is gone.
    pub(super) fn new(environment: &'a Environment) -> io::Result<Self> {
        Ok(Self {
            environment,
            cwd: std::env::current_dir()?,
        })
    }
}

impl Source for Disk<'_> {
    fn read(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        // Without NONBLOCK the opening of a pipe would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        let mut bytes = Vec::new();
        file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn env(&self, name: &str) -> Option<String> {
        self.environment.get(name).map(str::to_owned)
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        path.canonicalize()
    }

    fn home(&self) -> Option<PathBuf> {
        self.environment
            .get("HOME")
            .map(PathBuf::from)
            .filter(|home| home.is_absolute())
    }

    fn cwd(&self) -> PathBuf {
        self.cwd.clone()
    }
}
