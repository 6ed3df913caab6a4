//! Where bash is.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Where systems have it.
const USUAL: [&str; 2] = ["/bin/bash", "/usr/bin/bash"];

/// The bash that runs commands and checks, absolute: the system's, else the first in the PATH of `runner`,
/// the runner's own environment.
///
/// Never looked for in the PATH of what it runs: a directory that a job puts in front there may lie in the
/// workspace, and a file called `bash` in it would be started before any rule was asked. Where there is
/// none, starting the result fails with its name.
pub fn find_bash(runner: &BTreeMap<OsString, OsString>) -> PathBuf {
    let path = runner.get(OsStr::new("PATH"));
    let own = path.into_iter().flat_map(std::env::split_paths);
    find(&USUAL.map(Path::new), own)
}

fn find(usual: &[&Path], path: impl Iterator<Item = PathBuf>) -> PathBuf {
    // What is relative or empty in a PATH means the current directory, which may be the workspace.
    let in_path = path
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join("bash"));
    usual
        .iter()
        .map(|&usual| usual.to_owned())
        .chain(in_path)
        .find(|bash| is_program(bash))
        .unwrap_or_else(|| PathBuf::from(USUAL[0]))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_s_bash_comes_before_any_path_and_no_path_means_the_current_directory() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str, mode: u32| {
            let directory = dir.path().join(name);
            fs::create_dir(&directory).unwrap();
            let bash = directory.join("bash");
            fs::write(&bash, "").unwrap();
            fs::set_permissions(&bash, fs::Permissions::from_mode(mode)).unwrap();
            bash
        };
        let (system, own, no_program) = (
            place("system", 0o755),
            place("own", 0o755),
            place("no-program", 0o644),
        );
        let parent = |bash: &Path| bash.parent().unwrap().to_owned();
        let path = || {
            [
                "".into(),
                "src".into(),
                parent(&no_program),
                parent(&own),
                parent(&system),
            ]
            .into_iter()
        };
        assert_eq!(find(&[&dir.path().join("none"), &system], path()), system);
        assert_eq!(find(&[&no_program], path()), own);
        assert_eq!(
            find(&[], std::iter::empty()),
            Path::new("/bin/bash"),
            "starting it will say that it is not there"
        );
    }

    #[test]
    fn there_is_one_here() {
        assert!(is_program(&find_bash(&BTreeMap::new())));
    }
}
