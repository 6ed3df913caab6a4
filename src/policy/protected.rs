//! Places that no ordinary rule opens.
//!
//! Three kinds. **System** paths and **key files** are never opened by a file tool, whatever a rule
//! says. **Protected** paths decide how programs behave later (hooks, start-up files, workflows): they
//! are never written unless an allow rule's literal part lies inside.

use std::path::{Path, PathBuf};

use super::decide::Roots;

/// Names of directories that are protected with all they hold, at any depth.
///
/// Source: Claude Code's permission rules, "protected paths", as of August 2026. Added are the
/// definitions of CI jobs, which run with the repository's secrets.
const DIRECTORIES: [&[&str]; 14] = [
    &[".git"],
    &[".github", "workflows"],
    &[".github", "actions"],
    &[".config", "git"],
    &[".vscode"],
    &[".idea"],
    &[".husky"],
    &[".cargo"],
    &[".devcontainer"],
    &[".yarn"],
    &[".mvn"],
    &[".claude"],
    &[".circleci"],
    &[".gitea", "workflows"],
];

/// Names of files that are protected at any depth. Source: as for [`DIRECTORIES`].
const FILES: [&str; 46] = [
    ".gitconfig",
    ".gitmodules",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_aliases",
    ".bash_logout",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".zlogin",
    ".zlogout",
    ".profile",
    ".envrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnp.cjs",
    ".pnp.loader.mjs",
    ".pnpmfile.cjs",
    "bunfig.toml",
    ".bunfig.toml",
    ".bazelrc",
    ".bazelversion",
    ".bazeliskrc",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    "lefthook.yaml",
    "lefthook.toml",
    "lefthook.json",
    ".lefthook.yml",
    ".lefthook.yaml",
    ".lefthook.toml",
    ".lefthook.json",
    "lefthook-local.yml",
    "lefthook-local.yaml",
    ".lefthook-local.yml",
    ".lefthook-local.yaml",
    "gradle-wrapper.properties",
    "maven-wrapper.properties",
    ".devcontainer.json",
    ".ripgreprc",
    "pyrightconfig.json",
    ".mcp.json",
    ".claude.json",
    ".gitlab-ci.yml",
];

/// Below home: what programs keep keys and tokens in. As [`KEY_NAMES`], the places that
/// `sandbox` hides too.
const KEYS_BELOW_HOME: [&str; 22] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".config/gh",
    ".config/hub",
    ".config/gcloud",
    ".config/op",
    ".password-store",
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".pypirc",
    ".pgpass",
    ".npmrc",
    ".vault-token",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".m2/settings.xml",
    ".terraform.d/credentials.tfrc.json",
];

/// Of whichever home, outside the workspace; inside it a directory of that name is the project's own.
const KEY_NAMES: [&str; 10] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".password-store",
    ".netrc",
    ".git-credentials",
    ".pgpass",
];

/// Private keys by their usual names, anywhere.
const PRIVATE_KEYS: [&str; 5] = ["id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519"];

/// Why a file tool never opens this path; `None` when it may.
pub(super) fn forbidden(path: &Path, roots: &Roots) -> Option<&'static str> {
    let is_in_workspace = roots.holds(path);
    if !is_in_workspace
        && ["/proc", "/sys", "/dev"]
            .iter()
            .any(|root| path.starts_with(root))
    {
        return Some("/proc, /sys and /dev are never opened");
    }
    let is_key_below_home = roots
        .home
        .as_deref()
        .and_then(|home| path.strip_prefix(home).ok())
        .is_some_and(|rest| KEYS_BELOW_HOME.iter().any(|key| rest.starts_with(key)));
    let is_key_elsewhere = !is_in_workspace && names(path).any(|name| KEY_NAMES.contains(&name));
    let is_private_key = names(path)
        .last()
        .is_some_and(|name| PRIVATE_KEYS.contains(&name));
    (is_key_below_home || is_key_elsewhere || is_private_key)
        .then_some("files that hold keys are never opened")
}

/// A place that is never opened and lies below a directory, so that a program which works on the
/// whole directory would open it too; or the directory itself. `None` when there is none.
pub(super) fn forbidden_below(directory: &Path, roots: &Roots) -> Option<PathBuf> {
    /// Where homes are: which users there are, and what they keep, cannot be told.
    const HOMES: [&str; 2] = ["/home", "/Users"];
    if forbidden(directory, roots).is_some() {
        return Some(directory.to_path_buf());
    }
    if directory == Path::new("/") {
        return Some(PathBuf::from("/proc"));
    }
    let key_below_home = roots.home.as_deref().and_then(|home| {
        KEYS_BELOW_HOME
            .iter()
            .map(|key| home.join(key))
            .find(|key| key.starts_with(directory))
    });
    key_below_home.or_else(|| {
        let is_home = directory == Path::new("/root")
            || HOMES.iter().any(|homes| {
                let homes = Path::new(homes);
                directory == homes || directory.parent() == Some(homes)
            });
        (is_home && !roots.holds(directory)).then(|| directory.join(KEY_NAMES[0]))
    })
}

/// The part of a path that is protected against writing: the path of the protected directory or file.
pub(super) fn protected(path: &Path, roots: &Roots) -> Option<PathBuf> {
    if let Some(file) = roots
        .protected_files
        .iter()
        .find(|file| path.starts_with(file))
    {
        return Some(file.clone());
    }
    // The way to the workspace is not the model's doing: it may itself lead through a `.claude`.
    let (start, below) = match path.strip_prefix(&roots.workspace) {
        Ok(below) => (roots.workspace.clone(), below),
        Err(_) => (PathBuf::new(), path),
    };
    protected_below(below).map(|part| start.join(part))
}

/// What is protected and lies in a directory: a file such as the job file, or a directory that has its
/// only place there, as in `.github`. Whoever moves or replaces the whole moves or replaces it too.
pub(super) fn holds_protected(path: &Path, roots: &Roots) -> Option<PathBuf> {
    if let Some(file) = roots
        .protected_files
        .iter()
        .find(|file| file.starts_with(path))
    {
        return Some(file.clone());
    }
    let name = path.file_name()?;
    DIRECTORIES
        .iter()
        .find(|directory| directory.len() > 1 && name.eq_ignore_ascii_case(directory[0]))
        .map(|directory| path.join(directory[1]))
}

/// As [`protected`], for a path whose beginning does not matter.
fn protected_below(path: &Path) -> Option<PathBuf> {
    let components: Vec<&std::ffi::OsStr> = path.iter().collect();
    let is_named = |at: usize, name: &str| {
        components
            .get(at)
            .is_some_and(|component| component.eq_ignore_ascii_case(name))
    };
    for at in 0..components.len() {
        let directory = DIRECTORIES.iter().find(|directory| {
            directory
                .iter()
                .enumerate()
                .all(|(offset, name)| is_named(at + offset, name))
        });
        if let Some(directory) = directory {
            // Work that an agent does in a worktree there is ordinary work.
            let is_worktree = is_named(at, ".claude") && is_named(at + 1, "worktrees");
            if !is_worktree {
                return Some(components[..at + directory.len()].iter().collect());
            }
        }
    }
    let last = components.len().checked_sub(1)?;
    FILES
        .iter()
        .any(|name| is_named(last, name))
        .then(|| path.to_path_buf())
}

/// Whether a rule whose literal part is `literal` opens the protected path.
///
/// `name_only`: the rule is a bare name, so only the last component of `literal` counts.
pub(super) fn opens(literal: &Path, name_only: bool, path: &Path, roots: &Roots) -> bool {
    let Some(part) = protected(path, roots) else {
        return true;
    };
    if name_only {
        // `Write(.npmrc)` opens such a file, but none that lies in another protected directory.
        return part == path && literal.file_name() == path.file_name();
    }
    // Inside, and nothing below is protected for a reason of its own.
    literal.starts_with(&part)
        && path
            .strip_prefix(literal)
            .is_ok_and(|below| protected_below(below).is_none())
}

fn names(path: &Path) -> impl Iterator<Item = &str> {
    path.iter().filter_map(|name| name.to_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots() -> Roots {
        Roots {
            workspace: PathBuf::from("/home/u/.claude/ws"),
            home: Some(PathBuf::from("/home/u")),
            protected_files: vec![PathBuf::from("/home/u/.claude/ws/jobs/a.yaml")],
            ..Roots::default()
        }
    }

    #[test]
    fn system_paths_and_key_files_are_never_opened() {
        for (path, is_forbidden) in [
            ("/proc/self/environ", true),
            ("/sys/kernel", true),
            ("/dev/sda", true),
            ("/device", false),
            ("/home/u/.ssh/config", true),
            ("/home/u/.config/gh/hosts.yml", true),
            ("/home/u/.npmrc", true),
            ("/home/other/.aws/credentials", true),
            ("/home/u/.claude/ws/.aws/x", false),
            ("/home/u/.claude/ws/.docker/compose.yml", false),
            ("/home/u/.claude/ws/keys/id_rsa", true),
            ("/home/u/.claude/ws/.npmrc", false),
            ("/home/u/notes.txt", false),
        ] {
            assert_eq!(
                forbidden(Path::new(path), &roots()).is_some(),
                is_forbidden,
                "{path}"
            );
        }
    }

    #[test]
    fn what_is_never_opened_is_found_from_the_directories_above() {
        for (directory, is_above) in [
            ("/", true),
            ("/proc", true),
            ("/home", true),
            ("/root", true),
            ("/root/project", false),
            ("/home/u", true),
            ("/home/other", true),
            ("/home/other/project", false),
            ("/home/u/.config", true),
            ("/home/u/.ssh/keys", true),
            ("/home/u/.claude", false),
            ("/home/u/.claude/ws", false),
            ("/usr/include", false),
        ] {
            assert_eq!(
                forbidden_below(Path::new(directory), &roots()).is_some(),
                is_above,
                "{directory}"
            );
        }
    }

    #[test]
    fn protected_places_are_found_at_any_depth_below_the_workspace() {
        let ws = Path::new("/home/u/.claude/ws");
        for (path, part) in [
            (".git/hooks/pre-commit", Some(".git")),
            ("sub/.git/config", Some("sub/.git")),
            (".GIT/config", Some(".GIT")),
            (".github/workflows/ci.yml", Some(".github/workflows")),
            (".github/actions/x/action.yml", Some(".github/actions")),
            (".github/CODEOWNERS", None),
            ("jobs/a.yaml", Some("jobs/a.yaml")),
            ("jobs/b.yaml", None),
            ("web/.npmrc", Some("web/.npmrc")),
            (".gitignore", None),
            (".claude/settings.json", Some(".claude")),
            (".claude/worktrees/x/src/a.rs", None),
            (".claude/worktrees/x/.git", Some(".claude/worktrees/x/.git")),
            ("src/a.rs", None),
        ] {
            assert_eq!(
                protected(&ws.join(path), &roots()),
                part.map(|part| ws.join(part)),
                "{path}"
            );
        }
        assert_eq!(
            protected(Path::new("/home/u/.bashrc"), &roots()),
            Some(PathBuf::from("/home/u/.bashrc"))
        );
    }

    #[test]
    fn only_a_literal_part_inside_opens_a_protected_place() {
        let ws = Path::new("/home/u/.claude/ws");
        for (literal, name_only, path, expected) in [
            (".github/workflows", false, ".github/workflows/ci.yml", true),
            (".github", false, ".github/workflows/ci.yml", false),
            ("", false, ".git/config", false),
            (".git", false, ".git/hooks/x", true),
            (
                ".github/workflows",
                false,
                ".github/workflows/.git/x",
                false,
            ),
            (".npmrc", true, "web/.npmrc", true),
            (".npmrc", true, ".git/.npmrc", false),
            ("src", false, "src/a.rs", true),
        ] {
            assert_eq!(
                opens(&ws.join(literal), name_only, &ws.join(path), &roots()),
                expected,
                "{literal} for {path}"
            );
        }
    }
}
