//! From a path as somebody wrote it to where it leads.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

use super::beneath::Beneath;

/// Links followed in one path; the kernel's own limit. Source: `path_resolution(7)`.
const MAX_LINKS: usize = 40;

/// An open directory.
#[derive(Debug)]
pub struct Workspace {
    /// Links followed.
    root: PathBuf,
    /// As it was named.
    named: PathBuf,
    root_fd: OwnedFd,
}

/// A path as it was written and as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Absolute, `.` and `..` taken out of the text, links not followed. What was written below the
    /// workspace as it was named is below its root here.
    pub written: PathBuf,
    /// Absolute, links followed. Of what does not exist, the nearest ancestor that does and the rest. A
    /// path on which links go in circles stays as written; it cannot be opened.
    pub real: PathBuf,
}

impl Workspace {
    /// The directory at `dir`, absolute or relative to the current directory; it may be a link.
    pub fn open(dir: &Path) -> io::Result<Self> {
        let root = fs::canonicalize(dir)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root_fd = open(&root, flags, Mode::empty())?;
        Ok(Self {
            named: normalise(&std::path::absolute(dir)?),
            root,
            root_fd,
        })
    }

    /// Absolute, links followed.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where `path` leads, relative ones from `cwd`, which is absolute.
    pub fn resolve(&self, path: &Path, cwd: &Path) -> Location {
        let normal = normalise(&cwd.join(path));
        let written = match normal.strip_prefix(&self.named) {
            Ok(below) if !normal.starts_with(&self.root) => normalise(&self.root.join(below)),
            _ => normal,
        };
        Location {
            real: follow(&written).unwrap_or_else(|| written.clone()),
            written,
        }
    }

    /// Whether `real`, links followed, is the root or below it.
    pub fn contains(&self, real: &Path) -> bool {
        real.starts_with(&self.root)
    }

    /// A handle on `real`, links followed: beneath the root, or, for what is not below it, beneath `/`.
    pub fn beneath(&self, real: &Path) -> Beneath<'_> {
        Beneath::new(&self.root, &self.root_fd, real)
    }

    /// A path as it is shown: relative to the root where it is below it, `.` for the root itself.
    pub fn shown(&self, path: &Path) -> String {
        let shown = match path.strip_prefix(&self.root) {
            Ok(below) if below.as_os_str().is_empty() => Path::new("."),
            Ok(below) => below,
            Err(_) => path,
        };
        shown.display().to_string()
    }
}

/// `path` without `.` and `..`, by its text alone. It is absolute; `..` at `/` stays there.
fn normalise(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::Normal(name) => normal.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    normal
}

/// Follows links as the kernel would, past the point where files exist; `None` when they go in circles.
fn follow(path: &Path) -> Option<PathBuf> {
    let mut real = PathBuf::from("/");
    let mut rest: VecDeque<OsString> = names(path).collect();
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            real.pop();
            continue;
        }
        real.push(&name);
        // Not a link, or not there, or not to be looked at: then opening it will say so.
        let Ok(target) = fs::read_link(&real) else {
            continue;
        };
        links += 1;
        if links > MAX_LINKS {
            return None;
        }
        real.pop();
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
            rest.push_front(name);
        }
    }
    Some(real)
}

fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_normal_path_is_absolute_and_holds_no_dots(path in "[a./]{0,16}") {
            let normal = normalise(Path::new(&path));
            prop_assert!(normal.is_absolute());
            prop_assert!(names(&normal).all(|name| name != ".." && name != "."));
            prop_assert_eq!(normalise(&normal), normal);
        }
    }

    #[test]
    fn a_path_is_resolved_by_its_text_and_by_its_links() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        let root = base.join("ws");
        fs::create_dir_all(root.join("src/deep")).unwrap();
        fs::create_dir(base.join("out")).unwrap();
        fs::write(root.join("a.txt"), "").unwrap();
        symlink(base.join("out"), root.join("outbox")).unwrap();
        symlink("../a.txt", root.join("src/inner")).unwrap();
        symlink(base.join("out/new"), root.join("dangling")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink(&root, base.join("link")).unwrap();

        let named = base.join("link");
        let workspace = Workspace::open(&named).unwrap();
        let resolve = |path: &str| workspace.resolve(Path::new(path), workspace.root());
        let expect = |written: &str, real: &str| Location {
            written: root.join(written),
            real: root.join(real),
        };
        for (path, written, real) in [
            ("a.txt", "a.txt", "a.txt"),
            ("src/../a.txt", "a.txt", "a.txt"),
            ("./src//deep/.", "src/deep", "src/deep"),
            ("no/such/..file", "no/such/..file", "no/such/..file"),
            ("../ws/a.txt", "a.txt", "a.txt"),
            ("src/inner", "src/inner", "a.txt"),
            ("loop", "loop", "loop"),
        ] {
            assert_eq!(resolve(path), expect(written, real), "{path}");
        }
        let through_name = named.join("a.txt");
        assert_eq!(
            resolve(through_name.to_str().unwrap()),
            expect("a.txt", "a.txt")
        );
        for (path, written, real) in [
            ("outbox/x/y", root.join("outbox/x/y"), base.join("out/x/y")),
            ("dangling", root.join("dangling"), base.join("out/new")),
            ("../out", base.join("out"), base.join("out")),
            ("/../etc/x", "/etc/x".into(), "/etc/x".into()),
        ] {
            assert_eq!(resolve(path), Location { written, real }, "{path}");
        }
        let from_below = workspace.resolve(Path::new("../x"), &root.join("src"));
        assert_eq!(from_below, expect("x", "x"));
    }

    #[test]
    fn paths_are_shown_as_short_as_they_can_be() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let root = workspace.root().to_owned();
        assert_eq!(workspace.shown(&root.join("a/b")), "a/b");
        assert_eq!(workspace.shown(&root), ".");
        assert_eq!(workspace.shown(Path::new("/etc/x")), "/etc/x");
    }
}
