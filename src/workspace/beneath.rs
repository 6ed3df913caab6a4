//! Opening what was resolved, and nothing else.
//!
//! Between the moment a path was resolved and judged and the moment it is opened somebody may put a link
//! on it. So no link is followed here at all: what was resolved has none.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fchmod, fstat, mkdirat, open, openat,
    openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// Trees in which reading has effects or never ends. Nothing there is a file of a workspace.
const SYSTEM_TREES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Names tried for a temporary file before giving up.
const TEMPORARY_NAMES: usize = 100;

/// A path that was resolved, to be opened without leaving.
#[derive(Debug)]
pub struct Beneath<'a> {
    real: PathBuf,
    /// `None`: the path is not below it.
    root: Option<BorrowedFd<'a>>,
    /// From the root, or from `/`; never empty, without `..`.
    relative: PathBuf,
}

/// Why it could not be opened or written.
#[derive(Debug)]
pub enum OpenFault {
    /// Nothing is there.
    Missing,
    /// A directory is there.
    IsDirectory,
    /// Something is there that is neither file nor directory, or in a tree of the system's.
    NotRegularFile,
    /// The path has become a link since it was resolved, or its links go in circles.
    Link,
    /// Nobody may write it.
    ReadOnly,
    /// Anything else.
    Io(io::Error),
}

impl fmt::Display for OpenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("does not exist"),
            Self::IsDirectory => f.write_str("is a directory"),
            Self::NotRegularFile => f.write_str("is not a regular file"),
            Self::Link => f.write_str("leads over a link that was not there when it was resolved"),
            Self::ReadOnly => f.write_str("is read-only"),
            Self::Io(error) => write!(f, "cannot be used: {error}"),
        }
    }
}

impl From<Errno> for OpenFault {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::Missing,
            Errno::ISDIR => Self::IsDirectory,
            Errno::LOOP | Errno::XDEV => Self::Link,
            // A socket, or a pipe that nobody reads.
            Errno::NXIO => Self::NotRegularFile,
            errno => Self::Io(errno.into()),
        }
    }
}

impl<'a> Beneath<'a> {
    pub(super) fn new(root: &Path, root_fd: &'a OwnedFd, real: &Path) -> Self {
        let (root, relative) = match real.strip_prefix(root) {
            Ok(below) => (Some(root_fd.as_fd()), below),
            Err(_) => (None, real.strip_prefix("/").unwrap_or(real)),
        };
        let relative = if relative.as_os_str().is_empty() {
            Path::new(".")
        } else {
            relative
        };
        Self {
            real: real.to_owned(),
            root,
            relative: relative.to_owned(),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.real
    }

    /// Opens a regular file for reading. Never waits: pipes and devices are refused.
    pub fn open(&self) -> Result<(File, Stat), OpenFault> {
        self.refuse_system_trees()?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.open_at(&self.relative, flags)?;
        let stat = fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((File::from(file), stat)),
            FileType::Directory => Err(OpenFault::IsDirectory),
            _ => Err(OpenFault::NotRegularFile),
        }
    }

    /// The names in a directory, sorted, without `.` and `..`.
    pub fn names(&self) -> Result<Vec<OsString>, OpenFault> {
        self.refuse_system_trees()?;
        let dir = self.open_at(&self.relative, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&dir)? {
            let name = entry?.file_name().to_bytes().to_owned();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(&name).to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Puts `content` in the place of the file, or where none is yet, together with its directories.
    ///
    /// Atomic: at every moment either the old or the new file is there, whole. The mode is kept. A file
    /// that nobody may write is left alone.
    pub fn replace(&self, content: &[u8]) -> Result<(), OpenFault> {
        self.refuse_system_trees()?;
        let name = self.relative.file_name().ok_or(OpenFault::IsDirectory)?;
        let parent = match self.relative.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => self.make_directories(parent)?,
            _ => self.open_at(Path::new("."), OFlags::PATH | OFlags::DIRECTORY)?,
        };
        let mode = match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(replaceable_mode(&stat)?),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno.into()),
        };
        let (temporary, mut file) = create_temporary(&parent, mode.is_some())?;
        let written = write_and_rename(&parent, &temporary, &mut file, mode, name, content);
        if written.is_err() {
            let _ = unlinkat(&parent, &temporary, AtFlags::empty());
        }
        written
    }

    fn refuse_system_trees(&self) -> Result<(), OpenFault> {
        if SYSTEM_TREES.iter().any(|tree| self.real.starts_with(tree)) {
            return Err(OpenFault::NotRegularFile);
        }
        Ok(())
    }

    fn open_at(&self, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let root = self.root_fd()?;
        let flags = flags | OFlags::CLOEXEC;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match openat2(&root, relative, flags, Mode::empty(), resolve) {
            // Before Linux 5.6, in gVisor, and under older seccomp profiles of containers.
            Err(Errno::NOSYS | Errno::PERM) => open_by_steps(root.as_fd(), relative, flags),
            result => result,
        }
    }

    fn root_fd(&self) -> Result<RootFd<'a>, Errno> {
        match self.root {
            Some(root) => Ok(RootFd::Workspace(root)),
            None => open("/", DIRECTORY, Mode::empty()).map(RootFd::System),
        }
    }

    /// Opens a directory, after making it where it is missing.
    fn make_directories(&self, relative: &Path) -> Result<OwnedFd, Errno> {
        match self.open_at(relative, DIRECTORY) {
            Err(Errno::NOENT) => {}
            result => return result,
        }
        let mut directory = openat(self.root_fd()?, ".", DIRECTORY, Mode::empty())?;
        for name in relative {
            directory = match step_into(directory.as_fd(), name) {
                Err(Errno::NOENT) => {
                    match mkdirat(&directory, name, Mode::from_raw_mode(0o777)) {
                        // Somebody else may have made it just now.
                        Ok(()) | Err(Errno::EXIST) => step_into(directory.as_fd(), name)?,
                        Err(errno) => return Err(errno),
                    }
                }
                result => result?,
            };
        }
        Ok(directory)
    }
}

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

enum RootFd<'a> {
    Workspace(BorrowedFd<'a>),
    System(OwnedFd),
}

impl AsFd for RootFd<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Workspace(fd) => *fd,
            Self::System(fd) => fd.as_fd(),
        }
    }
}

/// What `openat2` does with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`, one name at a time. `relative` holds no
/// `..`.
fn open_by_steps(root: BorrowedFd<'_>, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut directory = openat(root, ".", DIRECTORY, Mode::empty())?;
    if let Some(parent) = relative.parent() {
        for name in parent {
            directory = step_into(directory.as_fd(), name)?;
        }
    }
    let name = relative.file_name().unwrap_or(OsStr::new("."));
    let file = openat(directory, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
    // With O_PATH a link is not refused but opened itself.
    if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::Symlink {
        return Err(Errno::LOOP);
    }
    Ok(file)
}

fn step_into(directory: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let step = openat(directory, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
    if matches!(step, Err(Errno::NOTDIR)) {
        let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return Err(Errno::LOOP);
        }
    }
    step
}

/// The mode of a file that may be replaced.
fn replaceable_mode(stat: &Stat) -> Result<Mode, OpenFault> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile if stat.st_mode & 0o222 == 0 => Err(OpenFault::ReadOnly),
        FileType::RegularFile => Ok(Mode::from_raw_mode(stat.st_mode)),
        FileType::Directory => Err(OpenFault::IsDirectory),
        FileType::Symlink => Err(OpenFault::Link),
        _ => Err(OpenFault::NotRegularFile),
    }
}

/// A new file in `directory`. For everybody the umask lets in, unless it is to take the place of another,
/// whose mode may be narrower.
fn create_temporary(
    directory: &OwnedFd,
    is_replacement: bool,
) -> Result<(String, File), OpenFault> {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    let mode = Mode::from_raw_mode(if is_replacement { 0o600 } else { 0o666 });
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut last = Errno::EXIST;
    for _ in 0..TEMPORARY_NAMES {
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let name = format!(".lightsout-{}-{number}.tmp", std::process::id());
        match openat(directory, &name, flags, mode) {
            Ok(file) => return Ok((name, File::from(file))),
            Err(Errno::EXIST) => last = Errno::EXIST,
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(last.into())
}

fn write_and_rename(
    directory: &OwnedFd,
    temporary: &str,
    file: &mut File,
    mode: Option<Mode>,
    name: &OsStr,
    content: &[u8],
) -> Result<(), OpenFault> {
    file.write_all(content).map_err(OpenFault::Io)?;
    if let Some(mode) = mode {
        fchmod(&*file, mode)?;
    }
    // A crash must not leave an empty file under the old name.
    file.sync_all().map_err(OpenFault::Io)?;
    renameat(directory, temporary, directory, name)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::super::Workspace;
    use super::*;

    fn read(workspace: &Workspace, path: &Path) -> Result<String, String> {
        let (mut file, _) = workspace
            .beneath(path)
            .open()
            .map_err(|fault| fault.to_string())?;
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        Ok(text)
    }

    #[test]
    fn only_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let root = workspace.root();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/c"), "text").unwrap();
        fs::write(root.join("target"), "target").unwrap();
        symlink("target", root.join("link")).unwrap();
        symlink("a", root.join("dir-link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("pipe"),
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let link = "leads over a link that was not there when it was resolved";
        for (path, expected) in [
            ("a/b/c", Ok("text")),
            ("a", Err("is a directory")),
            (".", Err("is a directory")),
            ("none", Err("does not exist")),
            ("pipe", Err("is not a regular file")),
            ("link", Err(link)),
            ("dir-link/b/c", Err(link)),
        ] {
            let result = read(&workspace, &root.join(path));
            assert_eq!(
                result.as_deref().map_err(String::as_str),
                expected,
                "{path}"
            );
            // And the same without openat2.
            if path != "." && path != "pipe" && path != "a" {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                let steps = open_by_steps(
                    workspace.beneath(root).root.unwrap(),
                    Path::new(path),
                    flags,
                );
                let steps = steps
                    .map(|_| ())
                    .map_err(|errno| OpenFault::from(errno).to_string());
                assert_eq!(steps, result.map(|_| ()), "{path} by steps");
            }
        }
        let outside = tempfile::NamedTempFile::new().unwrap();
        let real = fs::canonicalize(outside.path()).unwrap();
        assert_eq!(read(&workspace, &real), Ok(String::new()));
        for path in ["/dev/zero", "/proc/self/environ", "/sys/kernel/notes"] {
            let refused = Err("is not a regular file".into());
            assert_eq!(read(&workspace, Path::new(path)), refused, "{path}");
        }
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let path = workspace.root().join("x/y/file");
        let write = |content: &str| workspace.beneath(&path).replace(content.as_bytes());

        write("one").unwrap();
        let fresh = fs::metadata(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(fresh.mode() & 0o111, 0);

        fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
        write("two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        let replaced = fs::metadata(&path).unwrap();
        assert_eq!(replaced.mode() & 0o7777, 0o751);
        assert_ne!(replaced.ino(), fresh.ino());

        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        assert_eq!(write("three").unwrap_err().to_string(), "is read-only");
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        let names = workspace.beneath(path.parent().unwrap()).names().unwrap();
        assert_eq!(names, ["file"]);
    }

    #[test]
    fn nothing_is_written_over_a_link_or_into_one() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let root = workspace.root();
        symlink(outside.path(), root.join("out")).unwrap();
        symlink(outside.path().join("f"), root.join("link")).unwrap();
        for path in ["out/f", "out/new/f", "link"] {
            let fault = workspace.beneath(&root.join(path)).replace(b"x");
            assert!(matches!(fault, Err(OpenFault::Link)), "{path}: {fault:?}");
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
