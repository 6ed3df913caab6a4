//! Walking the workspace, for Glob and Grep.
//!
//! Follows `.gitignore` and `.ignore` from the workspace's root down, and nothing above it or of the
//! user's; shows hidden files but not `.git`; follows no links; sees neither the runner's own output nor
//! what the rules hide.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::types::Types;
use ignore::{DirEntry, Match, WalkBuilder};

use crate::policy::{Permit, Resolved};
use crate::sandbox::Cancel;

use super::Session;
use super::session::permitted_path;

/// Trees of the system in which a walk may never end.
const SYSTEM_TREES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// A file that was found.
#[derive(Debug)]
pub(super) struct Found {
    /// Where it is, links followed.
    pub(super) real: PathBuf,
    /// From where the search began; the name of a file that was itself where it began.
    pub(super) relative: PathBuf,
    /// As it is shown to the model.
    pub(super) shown: String,
    /// Whether a link led here.
    pub(super) is_link: bool,
}

/// Visits every file below what the call was permitted for that may be seen, sorted by name. An error
/// says why there is nothing to walk, to be read behind the place's name.
pub(super) fn walk(
    permit: &Permit,
    session: &Session,
    cancel: &Cancel,
    types: Option<Types>,
    mut visit: impl FnMut(Found) -> ControlFlow<()>,
) -> Result<(), String> {
    let at = permitted_path(permit);
    if let Err(error) = fs::symlink_metadata(&at.real) {
        return Err(match error.kind() {
            std::io::ErrorKind::NotFound => "does not exist".to_owned(),
            _ => format!("cannot be searched: {error}"),
        });
    }
    let mut builder = WalkBuilder::new(&at.real);
    builder
        .hidden(false)
        .parents(false)
        .git_global(false)
        .require_git(false)
        .follow_links(false)
        .sort_by_file_name(Ord::cmp);
    if let Some(types) = types {
        builder.types(types);
    }
    let filter = Filter::new(session, &at.real);
    builder.filter_entry(move |entry| filter.lets_in(entry));
    for entry in builder.build() {
        if cancel.is_set() {
            return Err("was not searched to the end: cancelled".into());
        }
        // What cannot be looked into holds nothing to show.
        let Ok(entry) = entry else { continue };
        if let Some(found) = found(&entry, at, permit, session)
            && visit(found).is_break()
        {
            break;
        }
    }
    Ok(())
}

/// The entry as a file that may be seen.
fn found(entry: &DirEntry, at: &Resolved, permit: &Permit, session: &Session) -> Option<Found> {
    let file_type = entry.file_type()?;
    let relative = entry.path().strip_prefix(&at.real).ok()?;
    let written = if relative.as_os_str().is_empty() {
        at.written.clone()
    } else {
        at.written.join(relative)
    };
    let is_link = file_type.is_symlink();
    let real = if is_link {
        let real = session.workspace().resolve(entry.path(), &at.real).real;
        let leads_to_file = fs::symlink_metadata(&real).is_ok_and(|metadata| metadata.is_file());
        if !leads_to_file || !session.workspace().contains(&real) {
            return None;
        }
        real
    } else if file_type.is_file() {
        entry.path().to_owned()
    } else {
        return None;
    };
    let shown = session.workspace().shown(&written);
    let relative = if relative.as_os_str().is_empty() {
        PathBuf::from(entry.file_name())
    } else {
        relative.to_owned()
    };
    let resolved = Resolved { written, real };
    permit.may_see(&resolved).then_some(Found {
        real: resolved.real,
        relative,
        shown,
        is_link,
    })
}

/// What a walk does not go into, apart from what it finds in ignore files on its way.
struct Filter {
    hidden: Vec<PathBuf>,
    /// Of the directories above the start, the nearest first.
    above: Vec<Gitignore>,
}

impl Filter {
    fn new(session: &Session, start: &Path) -> Self {
        let mut hidden = session.hidden().to_vec();
        hidden.extend(SYSTEM_TREES.iter().map(PathBuf::from));
        let root = session.workspace().root();
        let above = start
            .ancestors()
            .skip(1)
            .take_while(|dir| dir.starts_with(root))
            .map(|dir| ignore_files(dir, dir == root))
            .collect();
        Self { hidden, above }
    }

    fn lets_in(&self, entry: &DirEntry) -> bool {
        // What was asked for by name is searched, ignored or not.
        if entry.depth() == 0 {
            return !self.is_hidden(entry.path());
        }
        if entry.file_name() == ".git" || self.is_hidden(entry.path()) {
            return false;
        }
        let is_dir = entry
            .file_type()
            .is_some_and(|file_type| file_type.is_dir());
        let decided = self
            .above
            .iter()
            .map(|ignores| ignores.matched(entry.path(), is_dir))
            .find(|matched| !matched.is_none());
        !matches!(decided, Some(Match::Ignore(_)))
    }

    fn is_hidden(&self, path: &Path) -> bool {
        self.hidden.iter().any(|hidden| path.starts_with(hidden))
    }
}

fn ignore_files(dir: &Path, is_root: bool) -> Gitignore {
    let mut builder = GitignoreBuilder::new(dir);
    // Later ones win. One that is not there, or a line in it that is no pattern, ignores nothing.
    if is_root {
        builder.add(dir.join(".git/info/exclude"));
    }
    builder.add(dir.join(".gitignore"));
    builder.add(dir.join(".ignore"));
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// One glob over paths relative to where a search began. One without a slash is for the name alone.
pub(super) fn matcher(glob: &str) -> Result<GlobMatcher, String> {
    let glob = glob.strip_prefix("./").unwrap_or(glob);
    let anchored = match glob.strip_prefix('/') {
        Some(glob) => glob.to_owned(),
        None if glob.trim_end_matches('/').contains('/') => glob.to_owned(),
        None => format!("**/{glob}"),
    };
    let whole = if anchored.ends_with('/') {
        format!("{anchored}**")
    } else {
        anchored
    };
    GlobBuilder::new(&whole)
        .literal_separator(true)
        .empty_alternates(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| format!("{glob} is not a valid glob: {}", error.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_without_a_slash_is_for_names_anywhere() {
        for (glob, path, expected) in [
            ("*.rs", "main.rs", true),
            ("*.rs", "src/deep/main.rs", true),
            ("/*.rs", "src/main.rs", false),
            ("./src/*.rs", "src/main.rs", true),
            ("src/*.rs", "src/deep/main.rs", false),
            ("src/**/*.rs", "src/main.rs", true),
            ("**/*.{ts,tsx}", "a/b.tsx", true),
            ("**", "a/b", true),
            ("src/", "src/a/b", true),
            ("[ab].txt", "b.txt", true),
        ] {
            let matcher = matcher(glob).unwrap();
            assert_eq!(matcher.is_match(path), expected, "{glob} on {path}");
        }
        assert_eq!(
            matcher("a[").unwrap_err(),
            "a[ is not a valid glob: unclosed character class; missing ']'"
        );
    }
}
