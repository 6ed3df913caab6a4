//! Recording: a transport that passes everything on and keeps a copy, in the form `cassette.rs` reads.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::message::{Billing, Failure, FailureKind};
use crate::net::Fault;

use super::cassette::{
    CassetteError, FORMAT, FORMAT_VERSION, MANIFEST, Recorded, RecordedFailure, RecordedFault,
    directory, file_name,
};
use super::mask::{Mask, mask_value, masked_body};
use super::normalise::{Normaliser, Places};
use super::transport::{Transport, WireBody, WireRequest, WireResponse};

type Steady = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Headers that decide something; others may hold cookies and account ids.
const KEPT_HEADERS: [&str; 8] = [
    "content-type",
    "location",
    "request-id",
    "retry-after",
    "retry-after-ms",
    "x-request-id",
    "x-should-retry",
    "date",
];

/// A longer answer is not recorded: it is kept in memory until it has ended, and is the largest reply
/// that is taken several times over.
const MAX_ANSWER: usize = 256 * 1024 * 1024;

pub(super) struct Recording {
    inner: Box<dyn Transport>,
    directory: PathBuf,
    normaliser: Normaliser,
    mask: Mask,
    clock: Steady,
    count: AtomicUsize,
}

impl Recording {
    pub(super) fn new(
        inner: Box<dyn Transport>,
        root: &Path,
        prompt: &str,
        places: &Places,
        mask: Mask,
        clock: Steady,
    ) -> Result<Self, CassetteError> {
        let directory = root.join(directory(prompt));
        let prepare = || {
            std::fs::create_dir_all(&directory)?;
            remove_recording(&directory)?;
            let manifest = json!({"format": FORMAT, "version": FORMAT_VERSION});
            std::fs::write(root.join(MANIFEST), format!("{manifest}\n"))
        };
        prepare().map_err(|error| {
            CassetteError(format!("recording into {}: {error}", directory.display()))
        })?;
        Ok(Self {
            inner,
            directory,
            normaliser: Normaliser::new(places),
            mask,
            clock,
            count: AtomicUsize::new(0),
        })
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> Failure {
        let directory = self.directory.display();
        Failure::new(
            FailureKind::Cassette,
            format!("{}: recording into {directory}: {error}", self.inner.what()),
        )
    }
}

/// An older recording's files: a mix of two would match nothing.
fn remove_recording(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_ours = name.split_once('.').is_some_and(|(number, end)| {
            number.bytes().all(|byte| byte.is_ascii_digit())
                && ["request.json", "response.json", "response.body"].contains(&end)
        });
        if is_ours {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

impl Transport for Recording {
    fn what(&self) -> &str {
        self.inner.what()
    }

    fn open(&self, request: &WireRequest<'_>) -> Result<WireResponse, Failure> {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        let body: Value =
            serde_json::from_str(&request.body.concat()).map_err(|error| self.failed(&error))?;
        let mut normal = self.normaliser.normal(body);
        mask_value(&mut normal, &*self.mask);
        let path = self.directory.join(file_name(number, "request.json"));
        std::fs::write(path, format!("{normal:#}\n")).map_err(|error| self.failed(&error))?;
        let started = (self.clock)();
        let mut tape = Tape {
            base: self.directory.clone(),
            number,
            recorded: Recorded::default(),
            bytes: Vec::new(),
            mask: Arc::clone(&self.mask),
            clock: Arc::clone(&self.clock),
            started,
            is_written: false,
        };
        let opened = self.inner.open(request);
        tape.recorded.headers_ms = tape.elapsed();
        match opened {
            Ok(response) => {
                tape.recorded.status = Some(response.status);
                tape.recorded.headers = response
                    .headers
                    .iter()
                    .filter(|(name, _)| {
                        KEPT_HEADERS.contains(&name.as_str())
                            || name.starts_with("anthropic-ratelimit-")
                    })
                    .cloned()
                    .collect();
                let body = Box::new(Taped {
                    inner: Some(response.body),
                    tape,
                });
                Ok(WireResponse { body, ..response })
            }
            Err(failure) => {
                tape.recorded.failure = Some(RecordedFailure {
                    kind: failure.kind.name().to_owned(),
                    message: failure.message.clone(),
                    sent: failure.billing != Billing::Nothing,
                });
                tape.write().map_err(|error| self.failed(&error))?;
                Err(failure)
            }
        }
    }

    fn cancel(&self) {
        self.inner.cancel();
    }
}

/// An answer while it is recorded; written as a whole when it has ended.
struct Tape {
    base: PathBuf,
    number: usize,
    recorded: Recorded,
    bytes: Vec<u8>,
    mask: Mask,
    clock: Steady,
    started: Duration,
    is_written: bool,
}

impl Tape {
    fn elapsed(&self) -> u64 {
        let elapsed = (self.clock)().saturating_sub(self.started);
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    }

    /// Writes the answer once. The description comes last: an answer without one does not count.
    fn write(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_written, true) {
            return Ok(());
        }
        self.recorded.duration_ms = self.elapsed();
        self.recorded.mask(&*self.mask);
        let path = |end| self.base.join(file_name(self.number, end));
        if self.recorded.failure.is_none() {
            let bytes = masked_body(&std::mem::take(&mut self.bytes), &*self.mask);
            std::fs::write(path("response.body"), bytes)?;
        }
        let mut text = serde_json::to_vec_pretty(&self.recorded)?;
        text.push(b'\n');
        std::fs::write(path("response.json"), text)
    }
}

struct Taped {
    /// `None` once it is finished.
    inner: Option<Box<dyn WireBody>>,
    tape: Tape,
}

impl Read for Taped {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(inner) = &mut self.inner else {
            return Ok(0);
        };
        match inner.read(buffer) {
            Ok(0) => {
                self.tape.write()?;
                Ok(0)
            }
            Ok(count) if self.tape.bytes.len() + count > MAX_ANSWER => {
                let limit = MAX_ANSWER / 1024 / 1024;
                Err(io::Error::other(format!(
                    "an answer over {limit} MiB is not recorded"
                )))
            }
            Ok(count) => {
                self.tape.bytes.extend_from_slice(&buffer[..count]);
                Ok(count)
            }
            Err(error) => {
                let fault = error
                    .get_ref()
                    .and_then(|inner| inner.downcast_ref::<Fault>());
                if let Some(fault) = fault {
                    self.tape.recorded.broken = Some(RecordedFault::of(fault));
                    self.tape.write()?;
                }
                Err(error)
            }
        }
    }
}

impl WireBody for Taped {
    fn finish(mut self: Box<Self>) -> io::Result<()> {
        let finished = self.inner.take().map_or(Ok(()), WireBody::finish);
        self.tape.write()?;
        finished
    }
}

impl Drop for Taped {
    /// An answer that the reader gave up, such as an error in the stream.
    fn drop(&mut self) {
        // The reader has its own failure to report, and there is nobody here to tell another.
        let _ = self.tape.write();
    }
}
