//! Cassettes: what is in them, and in which form.
//!
//! A cassette is a directory that a recording wrote, or one YAML file (its format is described in
//! `script.rs`). A recording is:
//!
//! ```text
//! cassette.json                     {"format": "lightsout-cassette", "version": 1}
//! JOB/PROMPT/0001.request.json      the request in its normal form, pretty-printed
//! JOB/PROMPT/0001.response.json     status, headers, times, how it broke; or why there was none
//! JOB/PROMPT/0001.response.body     the bytes of the answer
//! ```
//!
//! The times are for people; a replay does not wait, except where a YAML file says so. Secrets are
//! masked; what has none in it is recorded byte for byte.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{Billing, Failure, FailureKind, Usage};
use crate::net::{Fault, FaultKind};

use super::script::Script;

/// The manifest's name, and what is in it.
pub(super) const MANIFEST: &str = "cassette.json";
pub(super) const FORMAT: &str = "lightsout-cassette";
pub(super) const FORMAT_VERSION: u64 = 1;

/// A cassette that cannot be used, or cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CassetteError(pub(super) String);

impl fmt::Display for CassetteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CassetteError {}

/// Recorded or hand-written answers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Cassette {
    pub(super) path: PathBuf,
    pub(super) content: Content,
    model: Option<String>,
}

/// What a cassette is made of.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Recorded,
    Script(Arc<Script>),
}

impl Cassette {
    /// Opens a directory that a recording wrote, or reads and checks one YAML file.
    pub fn open(path: &Path) -> Result<Self, CassetteError> {
        let bad = |cause: &dyn fmt::Display| {
            CassetteError(format!("opening the cassette {}: {cause}", path.display()))
        };
        if !path.is_dir() {
            let yaml = std::fs::read_to_string(path).map_err(|error| bad(&error))?;
            let script = Script::parse(&yaml).map_err(|cause| bad(&cause))?;
            return Ok(Self {
                path: path.to_owned(),
                model: script.model.clone(),
                content: Content::Script(Arc::new(script)),
            });
        }
        let manifest = std::fs::read(path.join(MANIFEST))
            .map_err(|error| bad(&format_args!("{MANIFEST}: {error}")))?;
        let manifest: Value = serde_json::from_slice(&manifest)
            .map_err(|error| bad(&format_args!("{MANIFEST}: {error}")))?;
        if manifest["format"] != FORMAT || manifest["version"] != FORMAT_VERSION {
            return Err(bad(&format_args!(
                "{MANIFEST} says {manifest}, and format {FORMAT:?}, version {FORMAT_VERSION} is supported"
            )));
        }
        Ok(Self {
            path: path.to_owned(),
            content: Content::Recorded,
            model: recorded_model(path),
        })
    }

    /// The model that was recorded (that of the first prompt by name), or that the YAML file names.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }
}

fn recorded_model(path: &Path) -> Option<String> {
    let conversation = recorded_prompts(path).into_iter().next()?;
    let request = conversation.join(file_name(1, "request.json"));
    let request: Value = serde_json::from_slice(&std::fs::read(request).ok()?).ok()?;
    request["model"].as_str().map(str::to_owned)
}

/// The directories `JOB/PROMPT` of a recording, sorted.
pub(super) fn recorded_prompts(path: &Path) -> Vec<PathBuf> {
    let directories = |path: &Path| {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
    };
    let mut prompts: Vec<PathBuf> = directories(path)
        .flat_map(|job| directories(&job))
        .collect();
    prompts.sort();
    prompts
}

/// `JOB/PROMPT` as two directories; what a file system might not take is escaped as in a URL.
pub(super) fn directory(prompt: &str) -> PathBuf {
    let (job, prompt) = prompt.rsplit_once('/').unwrap_or(("", prompt));
    [job, prompt].iter().map(|part| escaped(part)).collect()
}

fn escaped(part: &str) -> String {
    let mut name = String::with_capacity(part.len());
    for byte in part.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        // A name of dots alone is another directory.
        if is_plain || (byte == b'.' && !name.is_empty()) {
            name.push(char::from(byte));
        } else {
            // Writing to memory does not fail.
            let _ = write!(name, "%{byte:02X}");
        }
    }
    if name.is_empty() {
        "%".to_owned()
    } else {
        name
    }
}

/// The file of request `number` (from 1) that ends in `end`.
pub(super) fn file_name(number: usize, end: &str) -> String {
    format!("{number:04}.{end}")
}

/// How an answer came about: what `NNNN.response.json` holds.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Recorded {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<u16>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) headers: Vec<(String, String)>,
    /// From the request to the headers, and to the end of the body.
    #[serde(default)]
    pub(super) headers_ms: u64,
    #[serde(default)]
    pub(super) duration_ms: u64,
    /// There was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<RecordedFailure>,
    /// The answer broke behind its recorded bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) broken: Option<RecordedFault>,
}

impl Recorded {
    /// Masks what came from the server or tells of it.
    pub(super) fn mask(&mut self, mask: &dyn Fn(&str) -> String) {
        let headers = self.headers.iter_mut().map(|(_, value)| value);
        let failure = self.failure.iter_mut().map(|failure| &mut failure.message);
        let broken = self.broken.iter_mut().map(|broken| &mut broken.message);
        for text in headers.chain(failure).chain(broken) {
            *text = mask(text);
        }
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordedFailure {
    pub(super) kind: String,
    pub(super) message: String,
    /// Whether it may have cost something.
    pub(super) sent: bool,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordedFault {
    pub(super) kind: String,
    pub(super) message: String,
}

const FAULT_NAMES: [(FaultKind, &str); 4] = [
    (FaultKind::Broken, "broken"),
    (FaultKind::Ended, "ended"),
    (FaultKind::Idle, "idle"),
    (FaultKind::Protocol, "protocol"),
];

impl RecordedFault {
    pub(super) fn of(fault: &Fault) -> Self {
        let name = FAULT_NAMES.iter().find(|(kind, _)| *kind == fault.kind);
        Self {
            kind: name.map_or("broken", |(_, name)| name).to_owned(),
            message: fault.message.clone(),
        }
    }

    pub(super) fn fault(&self) -> Fault {
        let kind = FAULT_NAMES.iter().find(|(_, name)| *name == self.kind);
        Fault {
            kind: kind.map_or(FaultKind::Broken, |(kind, _)| *kind),
            sent: true,
            message: self.message.clone(),
        }
    }
}

impl RecordedFailure {
    pub(super) fn failure(&self) -> Failure {
        const KINDS: [FailureKind; 5] = [
            FailureKind::Connection,
            FailureKind::IdleTimeout,
            FailureKind::Truncated,
            FailureKind::Invalid,
            FailureKind::Protocol,
        ];
        let kind = KINDS.into_iter().find(|kind| kind.name() == self.kind);
        let mut failure = Failure::new(kind.unwrap_or(FailureKind::Connection), &self.message);
        if self.sent {
            failure.billing = Billing::Unknown(Usage::default());
        }
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_has_a_directory_of_its_own_beneath_the_cassette() {
        for (prompt, expected) in [
            ("job/prompt-1", "job/prompt-1"),
            ("a b/c/p", "a%20b%2Fc/p"),
            ("../..", "%2E./%2E."),
            ("/p", "%/p"),
            ("größe/v1.2", "gr%C3%B6%C3%9Fe/v1.2"),
        ] {
            assert_eq!(directory(prompt), Path::new(expected), "{prompt}");
        }
    }

    #[test]
    fn what_is_no_cassette_says_why() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let error = |path: &Path| Cassette::open(path).unwrap_err().0;
        assert!(error(&path.join("missing.yaml")).contains("missing.yaml: No such file"));
        assert!(error(path).contains("cassette.json: No such file"));
        std::fs::write(
            path.join(MANIFEST),
            r#"{"format": "lightsout-cassette", "version": 2}"#,
        )
        .unwrap();
        assert!(error(path).contains("version 1 is supported"));
    }
}
