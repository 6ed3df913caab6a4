//! The place where a shell says in which directory it ended.
//!
//! A file in a directory of the call's own. The command knows where it is and can put anything in its
//! place, so nothing here waits for what is there, follows it, or believes its size.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, openat, unlinkat};
use tempfile::TempDir;

use crate::sandbox::{Cancel, OutputCap, ProcessSpec, run};

const NAME: &str = "cwd";

/// A path and the end of its line. Source: `PATH_MAX` of Linux, limits.h.
const MAX_BYTES: u64 = 4096 + 1;

/// For removing what a command left where it had no business; a signal to the runner leaves 5 s for
/// everything.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Where one shell says in which directory it ended.
pub(super) struct ShellEnd {
    directory: TempDir,
    /// The directory itself, whatever is at its path by now.
    handle: OwnedFd,
}

impl ShellEnd {
    /// An empty place in the runner's temporary directory, which other users cannot write to; the error
    /// says why there is none.
    pub(super) fn new() -> Result<Self, String> {
        let place = tempfile::env::temp_dir();
        Self::within(&place).map_err(|error| {
            let place = place.display();
            if error.kind() == io::ErrorKind::NotFound {
                return format!(
                    "the temporary directory {place} (TMPDIR of the runner) does not exist"
                );
            }
            format!("making a directory in {place}: {error}")
        })
    }

    fn within(place: &Path) -> io::Result<Self> {
        let directory = tempfile::tempdir_in(place)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = open(directory.path(), flags, Mode::empty())?;
        Ok(Self { directory, handle })
    }

    /// Where the shell is to write.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join(NAME)
    }

    /// What the shell wrote. `None` when it wrote nothing, or there is something else: no regular file, a
    /// link, or more than a path.
    pub(super) fn read(&self) -> Option<Vec<u8>> {
        // A pipe that nobody writes to would be waited for.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
        let file = openat(&self.handle, NAME, flags | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let stat = fstat(&file).ok()?;
        let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_regular || !u64::try_from(stat.st_size).is_ok_and(|size| size <= MAX_BYTES) {
            return None;
        }
        let mut content = Vec::new();
        let read = File::from(file).take(MAX_BYTES).read_to_end(&mut content);
        read.ok().map(|_| content)
    }

    /// Removes the place, whatever the command made of it. What cannot be removed in two seconds stays:
    /// it is rubbish in a temporary directory, and no matter of the call's.
    pub(super) fn remove(self, bash: &Path) {
        let directory = self.directory.keep();
        // That there is no file, for the shell was killed, is as good.
        let _ = unlinkat(&self.handle, NAME, AtFlags::empty());
        if std::fs::remove_dir(&directory).is_ok() {
            return;
        }
        let Ok(cancel) = Cancel::new() else { return };
        // Thousands of directories in each other, closed ones among them: removed within this process they
        // take a stack as deep as they are, and any time.
        let spec = ProcessSpec {
            program: bash.into(),
            args: vec![
                "--noprofile".into(),
                "--norc".into(),
                "-c".into(),
                r#"[ -L "$1" ] || chmod -R u+rwx -- "$1"; rm -rf -- "$1""#.into(),
                "bash".into(),
                directory.into(),
            ],
            cwd: "/".into(),
            env: std::iter::once(("PATH".into(), "/usr/bin:/bin".into())).collect(),
            timeout: REMOVAL_TIMEOUT,
            output_cap: OutputCap { head: 0, tail: 0 },
        };
        let _ = run(&spec, &cancel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_place_is_an_error_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let error = ShellEnd::within(&dir.path().join("no")).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_was_written_is_read_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let end = ShellEnd::within(dir.path()).unwrap();
        assert_eq!(end.read(), None);
        std::fs::write(end.path(), "/a\n").unwrap();
        assert_eq!(end.read().as_deref(), Some(&b"/a\n"[..]));
        end.remove(Path::new("/bin/bash"));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
