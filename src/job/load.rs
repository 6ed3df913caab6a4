//! From a path to a job: the file is read, its text and tree are judged, faults become diagnostics.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::diagnostic::{Diagnostic, Severity};
use super::fault::{Fault, Faults, quote};
use super::file::{self, Reader};
use super::job::Job;
use super::locate::{Span, Text};
use super::parse;
use super::prompt::NOWHERE;
use super::resolve::{self, Surroundings};
use super::source::{Overrides, Source, reason};

/// SPEC, "Job file": a larger file is refused.
const MAX_BYTES: usize = 1 << 20;

/// Reads and checks one job file: the job with its warnings, or all its faults and warnings.
pub fn load(
    path: &Path,
    overrides: &Overrides,
    source: &dyn Source,
) -> Result<Job, Vec<Diagnostic>> {
    let protected: Vec<_> = source.canonical(path).into_iter().collect();
    load_one(path, overrides, source, &protected).map(|loaded| loaded.job)
}

/// Reads and checks the job files of a run: the jobs in order, or the faults of all files at once.
///
/// Names of jobs are unique in a run, and no job may write another's file.
pub fn load_all(
    paths: &[PathBuf],
    overrides: &Overrides,
    source: &dyn Source,
) -> Result<Vec<Job>, Vec<Diagnostic>> {
    let protected: Vec<_> = paths
        .iter()
        .filter_map(|path| source.canonical(path).ok())
        .collect();
    let mut jobs: Vec<Job> = Vec::new();
    let mut diagnostics = Vec::new();
    let mut files: HashMap<String, PathBuf> = HashMap::new();
    for path in paths {
        match load_one(path, overrides, source, &protected) {
            Err(faults) => diagnostics.extend(faults),
            Ok(Loaded { job, name }) => {
                if let Some(first) = files.get(&job.name) {
                    diagnostics.push(Diagnostic {
                        message: format!(
                            "two jobs of this run have the name {}, the first in {}",
                            quote(&job.name),
                            first.display()
                        ),
                        ..name
                    });
                } else {
                    files.insert(job.name.clone(), path.clone());
                }
                jobs.push(job);
            }
        }
    }
    if diagnostics.is_empty() {
        return Ok(jobs);
    }
    // The warnings of the files without faults are not lost with them.
    diagnostics.extend(jobs.into_iter().flat_map(|job| job.warnings));
    Err(diagnostics)
}

struct Loaded {
    job: Job,
    /// A diagnostic at the job's name that says nothing yet.
    name: Diagnostic,
}

fn load_one(
    path: &Path,
    overrides: &Overrides,
    source: &dyn Source,
    protected_files: &[PathBuf],
) -> Result<Loaded, Vec<Diagnostic>> {
    let shown = path.display().to_string();
    let refuse = |text: &str, fault: Fault| {
        let mut faults = Faults::default();
        faults.push(fault);
        Err(faults.into_diagnostics(&shown, &Text::new(text)))
    };
    let bytes = match source.read(path, MAX_BYTES) {
        Ok(bytes) if bytes.len() > MAX_BYTES => {
            let help = "split it into several jobs, and put long prompts behind `prompt_file`";
            let message = "the file is larger than 1 MiB".to_owned();
            return Err(vec![of_the_file(shown, message, Some(help.to_owned()))]);
        }
        Ok(bytes) => bytes,
        Err(error) => {
            let message = unreadable(path, &error, source);
            return Err(vec![of_the_file(shown, message, None)]);
        }
    };
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        Err(error) => return refuse(&String::from_utf8_lossy(&bytes), not_utf8(&bytes, error)),
    };
    let text = Text::new(text);
    let (root, repeated) = match parse::tree(&text) {
        Ok(tree) => tree,
        Err(fault) => return refuse(text.whole, fault),
    };
    let mut reader = Reader {
        text: &text,
        name: Arc::from(shown.as_str()),
        faults: Faults::default(),
    };
    reader.faults.extend(repeated);
    let file = file::read(&mut reader, &root);
    let mut job = resolve::resolve(
        &mut reader,
        &file,
        &Surroundings {
            path,
            dir: directory(path, source),
            digest: digest(&bytes),
            overrides,
            source,
            protected_files,
        },
    );
    let has_errors = reader.faults.has_errors();
    let diagnostics = reader.faults.into_diagnostics(&shown, &text);
    if has_errors {
        return Err(diagnostics);
    }
    job.warnings = diagnostics;
    let span = file.name.map(|name| name.span).or(file.span);
    Ok(Loaded {
        job,
        name: name_place(&shown, &text, span.unwrap_or(NOWHERE)),
    })
}

/// A fault of the file as a whole: no line of it is to blame, and none is shown.
fn of_the_file(file: String, message: String, help: Option<String>) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        file,
        line: 0,
        column: 0,
        width: 0,
        source: String::new(),
        message,
        help,
    }
}

/// Why a job file cannot be read, and where it was looked for when it is not there.
fn unreadable(path: &Path, error: &io::Error, source: &dyn Source) -> String {
    let mut message = format!("cannot read the job file: {}", reason(error));
    if error.kind() == io::ErrorKind::NotFound && path.is_relative() {
        // Writing to a String cannot fail.
        let _ = write!(
            message,
            " (looked in {})",
            directory(path, source).display()
        );
    }
    message
}

/// The directory of a job file, absolute; a link to a job file counts where the link is.
fn directory(path: &Path, source: &dyn Source) -> PathBuf {
    let path = source.cwd().join(path);
    path.parent().unwrap_or(&path).to_owned()
}

/// SHA-256 of some bytes, as `sha256:` and hex: how records name what a run was made from.
pub fn digest(bytes: &[u8]) -> String {
    let mut digest = "sha256:".to_owned();
    for byte in Sha256::digest(bytes) {
        // Writing to a String cannot fail.
        let _ = write!(digest, "{byte:02x}");
    }
    digest
}

/// The place of the first byte that is no UTF-8; the text shown has a replacement character there.
fn not_utf8(bytes: &[u8], error: std::str::Utf8Error) -> Fault {
    let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
    let good = String::from_utf8_lossy(good);
    let text = Text::new(&good);
    let at = text.at_byte(text.whole.len());
    Fault::error(Span::point(at), "the file is not UTF-8 text").help("save it as UTF-8")
}

fn name_place(file: &str, text: &Text<'_>, span: Span) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        file: file.to_owned(),
        line: span.at.line,
        column: span.at.column,
        width: span.width,
        source: text.line(span.at.line).to_owned(),
        message: String::new(),
        help: Some("give one of them another `name`; without one it is the file's stem".to_owned()),
    }
}
