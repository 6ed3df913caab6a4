//! The directory a run writes into.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use uuid::Uuid;

use crate::run::RUNS;

/// Makes the output directory and returns its absolute path.
///
/// It ignores itself by a `.gitignore`. A directory that holds something already is refused: nothing is
/// overwritten, and no old transcript can pass for a new one.
pub(super) fn create(wished: Option<&Path>, run_id: Uuid) -> anyhow::Result<PathBuf> {
    let directory = match wished {
        Some(directory) => directory.to_owned(),
        None => default_directory(run_id)?,
    };
    let what = || format!("making the output directory {}", directory.display());
    std::fs::create_dir_all(&directory).with_context(what)?;
    if std::fs::read_dir(&directory)
        .with_context(what)?
        .next()
        .is_some()
    {
        bail!(
            "the output directory {} is not empty; name a new one with --output, or remove it",
            directory.display()
        );
    }
    std::fs::write(directory.join(".gitignore"), "*\n").with_context(what)?;
    directory.canonicalize().with_context(what)
}

fn default_directory(run_id: Uuid) -> anyhow::Result<PathBuf> {
    let runs = Path::new(RUNS);
    let what = || format!("making {}", runs.display());
    std::fs::create_dir_all(runs).with_context(what)?;
    let ignore = runs.join(".gitignore");
    if !ignore.exists() {
        std::fs::write(&ignore, "*\n").with_context(what)?;
    }
    Ok(runs.join(run_id.to_string()))
}

/// Points `lightsout-runs/latest` at a run in the default place, in one step, so that a reader beside
/// another run never finds it missing.
pub(super) fn link_latest(directory: &Path) -> io::Result<()> {
    let (Some(runs), Some(name)) = (directory.parent(), directory.file_name()) else {
        return Ok(());
    };
    if runs.file_name().is_none_or(|parent| parent != RUNS) {
        return Ok(());
    }
    let mut temporary = name.to_owned();
    temporary.push(".link");
    let temporary = runs.join(temporary);
    std::os::unix::fs::symlink(name, &temporary)?;
    std::fs::rename(&temporary, runs.join("latest"))
}
