//! One prompt's transcript: an event is masked, written, and only then handed on.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc::Sender;
use tokio::task::{JoinHandle, spawn_blocking};
use uuid::Uuid;

use super::atomic::write_atomically;
use super::event::{Event, PromptKey, Scope, ScopedEvent};
use super::redact::Redactor;
use super::stream_json::stream_json_line;

const FILE_NAME: &str = "transcript.jsonl";

/// Version of `transcript.json`.
const SCHEMA_VERSION: u32 = 1;

/// The writer of one prompt's `transcript.jsonl`.
///
/// A line is on its way to the disk before [`Journal::append`] returns, so whoever acts on an event
/// acts on something that is recorded: a killed run loses nothing it acted on. Against a lost machine
/// [`Journal::sync`] helps, at turn ends.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    file: Arc<File>,
    /// Bytes written to it.
    length: u64,
    key: PromptKey,
    session_id: Uuid,
    redactor: Arc<Redactor>,
    watchers: Sender<ScopedEvent>,
    syncing: Option<JoinHandle<io::Result<()>>>,
    is_torn: bool,
}

impl Journal {
    /// Makes `directory` with everything above it and an empty `transcript.jsonl` in it.
    ///
    /// An error when that file is there already: a transcript is never overwritten. Blocking.
    pub fn create(
        directory: &Path,
        key: PromptKey,
        session_id: Uuid,
        redactor: Arc<Redactor>,
        watchers: Sender<ScopedEvent>,
    ) -> io::Result<Self> {
        std::fs::create_dir_all(directory)?;
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create_new(true)
            .open(directory.join(FILE_NAME))?;
        Ok(Self {
            directory: directory.to_owned(),
            file: Arc::new(file),
            length: 0,
            key,
            session_id,
            redactor,
            watchers,
            syncing: None,
            is_torn: false,
        })
    }

    /// Where the transcript is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes the event's line, then hands the event on, waiting while the watchers are behind.
    ///
    /// When it cannot be written it is still handed on, so that the terminal and the reports know what
    /// happened, and the error comes back. Events for the eye alone are not written and are dropped
    /// when the watchers are behind.
    pub async fn append(&mut self, event: Event) -> io::Result<Arc<Event>> {
        let event = Arc::new(event);
        let scoped = ScopedEvent {
            scope: Scope::Prompt(self.key),
            event: Arc::clone(&event),
        };
        if event.body.is_for_the_eye_alone() {
            // A full or closed channel loses a piece of what is shown, never of what is recorded.
            let _ = self.watchers.try_send(scoped);
            return Ok(event);
        }
        let written = match stream_json_line(self.session_id, &event) {
            Some(line) => self.write_line(&line),
            None => Ok(()),
        };
        // Nobody watching is no fault of the conversation.
        let _ = self.watchers.send(scoped).await;
        written.map(|()| event)
    }

    /// Starts bringing what was written to the disk itself, without waiting for it.
    ///
    /// The error is that of the sync before, for which this waits; a turn lies between, so it is done.
    pub async fn sync(&mut self) -> io::Result<()> {
        self.synced().await?;
        let file = Arc::clone(&self.file);
        self.syncing = Some(spawn_blocking(move || file.sync_data()));
        Ok(())
    }

    /// Whether what was written is still there, at its place and in its whole length; the error says what
    /// somebody else did to it.
    ///
    /// What the model runs may reach the run's own directory. A record that was cut, replaced or removed
    /// behind the runner's back must not look like one.
    pub fn verify(&self) -> io::Result<()> {
        let held = self.file.metadata()?;
        let fault = match std::fs::symlink_metadata(self.directory.join(FILE_NAME)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                format!("{FILE_NAME} was removed by somebody else")
            }
            Err(error) => return Err(error),
            Ok(there) if (there.dev(), there.ino()) != (held.dev(), held.ino()) => {
                format!("{FILE_NAME} was replaced by somebody else")
            }
            Ok(_) if held.len() != self.length => format!(
                "{FILE_NAME} was changed by somebody else: {} bytes were written, it has {}",
                self.length,
                held.len()
            ),
            Ok(_) => return Ok(()),
        };
        Err(io::Error::other(fault))
    }

    /// Brings everything to the disk and writes `transcript.json`, the same as one document; an error also
    /// when [`Journal::verify`] finds one.
    pub async fn finish(mut self) -> io::Result<()> {
        let verified = self.verify();
        let synced = self.synced().await;
        let is_torn = self.is_torn;
        let (directory, session_id) = (self.directory, self.session_id);
        let file = self.file;
        spawn_blocking(move || {
            let synced = synced.and_then(|()| file.sync_data());
            let written = write_document(&directory, &file, session_id, is_torn);
            verified.and(synced).and(written)
        })
        .await
        .map_err(io::Error::other)?
    }

    async fn synced(&mut self) -> io::Result<()> {
        match self.syncing.take() {
            Some(syncing) => syncing.await.map_err(io::Error::other)?,
            None => Ok(()),
        }
    }

    fn write_line(&mut self, line: &str) -> io::Result<()> {
        let line = self.redactor.redact_json(line);
        let mut bytes = Vec::with_capacity(line.len() + 2);
        if self.is_torn {
            // After a write that failed half-way (a full disk) the next line must stand alone.
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        self.is_torn = true;
        self.write_all(&bytes)?;
        self.is_torn = false;
        Ok(())
    }

    /// Writes all of it, counting what reached the file also when the rest did not.
    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match (&*self.file).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.length += count as u64;
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// `transcript.jsonl` as one document. Lines are passed through one at a time, whatever their number. They
/// are read from the file that was written, not from its path, where by now may be anything.
fn write_document(
    directory: &Path,
    mut file: &File,
    session_id: Uuid,
    may_be_torn: bool,
) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    let lines = BufReader::new(file);
    write_atomically(&directory.join("transcript.json"), |document| {
        write!(
            document,
            "{{\"schema_version\":{SCHEMA_VERSION},\"session_id\":{},\"events\":[",
            json!(session_id.to_string())
        )?;
        let mut separator = "\n";
        let mut lines = lines;
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            let text = line.trim_ascii_end();
            let is_whole =
                !may_be_torn || serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok();
            if !text.is_empty() && is_whole {
                document.write_all(separator.as_bytes())?;
                document.write_all(text)?;
                separator = ",\n";
            }
            line.clear();
        }
        document.write_all(b"\n]}\n")
    })
}

/// Names that a run puts into its output directory itself, so that a job may not have them.
const TAKEN: [&str; 5] = [
    "run.json",
    "junit.xml",
    "summary.md",
    "report.html",
    "latest",
];

/// A directory's name for a job or a prompt, whatever its own name is.
///
/// Letters, digits, `.`, `_` and `-` stay; everything else becomes `-`, at most 100 bytes, no leading
/// dot. A name that had to be changed gets the beginning of its digest, so that two names never share a
/// directory and the same name always has the same.
pub fn path_name(name: &str) -> String {
    const LONGEST: usize = 100;
    const DIGEST_BYTES: usize = 4;
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_whole = !name.is_empty()
        && name.len() <= LONGEST
        && !name.starts_with('.')
        && name.chars().all(is_fit)
        && !TAKEN.contains(&name);
    if is_whole {
        return name.to_owned();
    }
    let digest = Sha256::digest(name.as_bytes());
    let mut path: String = name
        .trim_start_matches('.')
        .chars()
        .map(|c| if is_fit(c) { c } else { '-' })
        .take(LONGEST - 1 - 2 * DIGEST_BYTES)
        .collect();
    if !path.is_empty() {
        path.push('-');
    }
    for byte in &digest[..DIGEST_BYTES] {
        write!(path, "{byte:02x}").expect("a string takes everything");
    }
    path
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::Value;
    use time::macros::datetime;
    use tokio::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::transcript::EventBody;

    fn warning(message: &str) -> Event {
        event(EventBody::Warning {
            message: message.into(),
        })
    }

    fn event(body: EventBody) -> Event {
        Event {
            id: Uuid::from_u128(7),
            at: datetime!(2026-11-30 03:00 UTC),
            elapsed: Duration::ZERO,
            body,
        }
    }

    fn journal(directory: &Path, capacity: usize) -> (Journal, Receiver<ScopedEvent>) {
        let (sender, receiver) = channel(capacity);
        let redactor = Arc::new(Redactor::new(["hunter2-hunter2"]));
        let key = PromptKey { job: 0, prompt: 0 };
        let id = Uuid::from_u128(1);
        (
            Journal::create(directory, key, id, redactor, sender).unwrap(),
            receiver,
        )
    }

    #[tokio::test]
    async fn an_event_is_on_disk_masked_before_it_is_handed_on() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("job/prompt");
        let (mut journal, mut watcher) = journal(&directory, 4);
        journal
            .append(warning("hunter2-hunter2 is out"))
            .await
            .unwrap();
        let seen = watcher.try_recv().unwrap();
        assert_eq!(seen.scope, Scope::Prompt(PromptKey { job: 0, prompt: 0 }));
        journal.sync().await.unwrap();
        journal.append(warning("two")).await.unwrap();
        let text = std::fs::read_to_string(directory.join("transcript.jsonl")).unwrap();
        assert!(text.ends_with('\n'));
        let messages: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["message"].clone())
            .collect();
        assert_eq!(messages, ["*** is out", "two"]);

        journal.finish().await.unwrap();
        let document = std::fs::read_to_string(directory.join("transcript.json")).unwrap();
        let document: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["schema_version"], 1);
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(document["events"], Value::Array(lines));
    }

    #[tokio::test]
    async fn what_is_for_the_eye_alone_waits_for_nobody_and_leaves_no_line() {
        let root = tempfile::tempdir().unwrap();
        let (mut journal, watcher) = journal(root.path(), 1);
        for _ in 0..3 {
            let delta = event(EventBody::TextDelta { text: "a".into() });
            journal.append(delta).await.unwrap();
        }
        assert_eq!(watcher.len(), 1);
        drop(watcher);
        journal.append(warning("nobody watches")).await.unwrap();
        let text = std::fs::read_to_string(root.path().join("transcript.jsonl")).unwrap();
        assert_eq!(text.lines().count(), 1);
    }

    #[tokio::test]
    async fn a_transcript_is_never_overwritten() {
        let root = tempfile::tempdir().unwrap();
        let (_journal, _watcher) = journal(root.path(), 1);
        let (sender, _receiver) = channel(1);
        let again = Journal::create(
            root.path(),
            PromptKey { job: 0, prompt: 0 },
            Uuid::from_u128(1),
            Arc::default(),
            sender,
        );
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[tokio::test]
    async fn a_torn_line_is_left_behind_and_the_rest_stays_readable() {
        let root = tempfile::tempdir().unwrap();
        let (mut journal, _watcher) = journal(root.path(), 4);
        journal.append(warning("one")).await.unwrap();
        journal.write_all(b"{\"type\":\"sys").unwrap();
        journal.is_torn = true;
        journal.append(warning("two")).await.unwrap();
        journal.is_torn = true;
        journal.finish().await.unwrap();
        let document = std::fs::read(root.path().join("transcript.json")).unwrap();
        let document: Value = serde_json::from_slice(&document).unwrap();
        assert_eq!(document["events"].as_array().unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_transcript_that_somebody_else_touched_is_no_record() {
        type Touch = fn(&Path);
        let touches: [(Touch, &str); 5] = [
            (
                |path| std::fs::remove_file(path).unwrap(),
                "transcript.jsonl was removed by somebody else",
            ),
            (
                |path| {
                    std::fs::copy(path, path.with_extension("copy")).unwrap();
                    std::fs::rename(path.with_extension("copy"), path).unwrap();
                },
                "transcript.jsonl was replaced by somebody else",
            ),
            (
                |path| {
                    std::fs::rename(path, path.with_extension("moved")).unwrap();
                    std::os::unix::fs::symlink("transcript.moved", path).unwrap();
                },
                "transcript.jsonl was replaced by somebody else",
            ),
            (
                |path| std::fs::write(path, "").unwrap(),
                "transcript.jsonl was changed by somebody else: LENGTH bytes were written, it has 0",
            ),
            (
                |path| {
                    let mut file = OpenOptions::new().append(true).open(path).unwrap();
                    file.write_all(b"{}\n").unwrap();
                },
                "transcript.jsonl was changed by somebody else: LENGTH bytes were written, it has MORE",
            ),
        ];
        for (touch, expected) in touches {
            let root = tempfile::tempdir().unwrap();
            let (mut journal, _watcher) = journal(root.path(), 4);
            journal.append(warning("one")).await.unwrap();
            journal.verify().unwrap();
            touch(&root.path().join("transcript.jsonl"));
            let expected = expected
                .replace("LENGTH", &journal.length.to_string())
                .replace("MORE", &(journal.length + 3).to_string());
            assert_eq!(journal.verify().unwrap_err().to_string(), expected);
            let finished = journal.finish().await;
            assert_eq!(finished.unwrap_err().to_string(), expected);
            assert!(root.path().join("transcript.json").exists());
        }
    }

    #[test]
    fn ordinary_names_stay_and_others_become_safe_and_different() {
        for name in ["nightly", "prompt-1", "a.b_c", "x..y"] {
            assert_eq!(path_name(name), name);
        }
        assert_eq!(path_name("Nightly triage"), "Nightly-triage-cc5a3256");
        assert_ne!(path_name("a/b"), path_name("a:b"));
        assert_ne!(path_name("run.json"), "run.json");
    }

    proptest! {
        #[test]
        fn every_name_makes_a_safe_directory(name in any::<String>()) {
            let path = path_name(&name);
            prop_assert!(!path.is_empty() && path.len() <= 100);
            prop_assert!(!path.starts_with('.') && !path.contains(['/', '\0']));
        }
    }
}
