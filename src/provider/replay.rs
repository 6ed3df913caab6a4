//! The transport that is a cassette: answers without a network, beneath the decoder, so that the same
//! code runs.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::job::Matching;
use crate::message::{Billing, Failure, FailureKind, Usage};
use crate::net::{Fault, FaultKind};

use super::cassette::{
    Cassette, CassetteError, Content, Recorded, directory, file_name, recorded_prompts,
};
use super::normalise::{Normaliser, Places, first_difference};
use super::script::Scripted;
use super::transport::{Transport, WireBody, WireRequest, WireResponse};

/// One conversation's answers in order.
pub(super) struct Replay {
    what: String,
    prompt: String,
    answers: Answers,
    position: AtomicUsize,
    idle_timeout: Duration,
    stop: Arc<Stop>,
}

enum Answers {
    Recorded {
        directory: PathBuf,
        count: usize,
        /// Whether requests must be the recorded ones.
        strict: Option<Normaliser>,
    },
    Scripted(Vec<Scripted>),
}

impl Replay {
    /// A YAML file has no requests to compare with, so `matching` is of no matter there.
    pub(super) fn new(
        cassette: &Cassette,
        prompt: &str,
        matching: Matching,
        places: &Places,
        idle_timeout: Duration,
    ) -> Result<Self, CassetteError> {
        let what = format!("replaying {}", cassette.path.display());
        let answers = match &cassette.content {
            Content::Script(script) => {
                let id = prompt.rsplit('/').next().unwrap_or(prompt);
                let replies = script.replies(id).ok_or_else(|| {
                    CassetteError(format!("{what}: it has no replies for the prompt {id:?}"))
                })?;
                Answers::Scripted(replies.to_vec())
            }
            Content::Recorded => {
                let directory = cassette.path.join(directory(prompt));
                let mut count = 0;
                while directory
                    .join(file_name(count + 1, "response.json"))
                    .exists()
                {
                    count += 1;
                }
                if count == 0 {
                    return Err(no_recording(&what, prompt, &cassette.path));
                }
                let strict = match matching {
                    Matching::Strict => Some(Normaliser::new(places)),
                    Matching::Order => None,
                };
                Answers::Recorded {
                    directory,
                    count,
                    strict,
                }
            }
        };
        Ok(Self {
            what,
            prompt: prompt.to_owned(),
            answers,
            position: AtomicUsize::new(0),
            idle_timeout,
            stop: Arc::default(),
        })
    }

    fn fail(&self, cause: impl fmt::Display) -> Failure {
        Failure::new(FailureKind::Cassette, format!("{}: {cause}", self.what))
    }

    fn recorded(
        &self,
        directory: &Path,
        number: usize,
        strict: Option<&Normaliser>,
        request: &WireRequest<'_>,
    ) -> Result<Scripted, Failure> {
        let read = |end: &str| {
            let path = directory.join(file_name(number, end));
            std::fs::read(&path)
                .map_err(|error| self.fail(format_args!("{}: {error}", path.display())))
        };
        let not_json = |end: &str, error: serde_json::Error| {
            let path = directory.join(file_name(number, end));
            self.fail(format_args!("{}: {error}", path.display()))
        };
        if let Some(normaliser) = strict {
            let recorded: Value = serde_json::from_slice(&read("request.json")?)
                .map_err(|error| not_json("request.json", error))?;
            let now: Value = serde_json::from_str(&request.body.concat())
                .map_err(|error| self.fail(format_args!("the request is no JSON: {error}")))?;
            if let Some(difference) = first_difference(&recorded, &normaliser.normal(now)) {
                return Err(self.fail(format_args!(
                    "request {number} of {} departs from the recorded one at {}: recorded {}, now {}",
                    self.prompt, difference.path, difference.recorded, difference.now
                )));
            }
        }
        let recorded: Recorded = serde_json::from_slice(&read("response.json")?)
            .map_err(|error| not_json("response.json", error))?;
        if let Some(failure) = recorded.failure {
            return Err(failure.failure());
        }
        let mut steps = vec![Step::Bytes(read("response.body")?)];
        steps.extend(recorded.broken.map(|broken| Step::Fault(broken.fault())));
        Ok(Scripted {
            status: recorded.status.unwrap_or(200),
            headers: recorded.headers,
            delay: Duration::ZERO,
            steps,
        })
    }
}

fn no_recording(what: &str, prompt: &str, path: &Path) -> CassetteError {
    let there: Vec<String> = recorded_prompts(path)
        .iter()
        .filter_map(|prompt| Some(prompt.strip_prefix(path).ok()?.display().to_string()))
        .collect();
    let there = if there.is_empty() {
        "none".to_owned()
    } else {
        there.join(", ")
    };
    CassetteError(format!(
        "{what}: it has no recording of {prompt:?}; it has: {there}"
    ))
}

impl Transport for Replay {
    fn what(&self) -> &str {
        &self.what
    }

    fn open(&self, request: &WireRequest<'_>) -> Result<WireResponse, Failure> {
        let position = self.position.fetch_add(1, Ordering::SeqCst);
        let count = match &self.answers {
            Answers::Recorded { count, .. } => *count,
            Answers::Scripted(replies) => replies.len(),
        };
        if position >= count {
            let replies = if count == 1 { "reply" } else { "replies" };
            return Err(self.fail(format_args!(
                "it has {count} {replies} for {}, and this is request {}",
                self.prompt,
                position + 1
            )));
        }
        let answer = match &self.answers {
            Answers::Scripted(replies) => replies[position].clone(),
            Answers::Recorded {
                directory, strict, ..
            } => self.recorded(directory, position + 1, strict.as_ref(), request)?,
        };
        let mut delay = answer.delay;
        if delay > self.idle_timeout {
            delay = self.idle_timeout;
        }
        let unknown = Billing::Unknown(Usage::default());
        if !self.stop.wait(delay) {
            return Err(Failure {
                billing: unknown,
                ..self.fail("cancelled")
            });
        }
        if answer.delay > self.idle_timeout {
            let message = format!("{}: nothing came in time", self.what);
            let failure = Failure::new(FailureKind::IdleTimeout, message);
            return Err(Failure {
                billing: unknown,
                ..failure
            });
        }
        Ok(WireResponse {
            status: answer.status,
            headers: answer.headers,
            body: Box::new(Played {
                steps: answer.steps.into(),
                offset: 0,
                idle_timeout: self.idle_timeout,
                stop: Arc::clone(&self.stop),
            }),
        })
    }

    fn cancel(&self) {
        self.stop.set();
    }
}

/// One thing that happens to the reader of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Bytes(Vec<u8>),
    /// Nothing comes any more, and nothing ends it.
    Stall,
    Fault(Fault),
}

struct Played {
    steps: VecDeque<Step>,
    /// Bytes of the first step that were read.
    offset: usize,
    idle_timeout: Duration,
    stop: Arc<Stop>,
}

impl Read for Played {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.steps.front() {
                None => return Ok(0),
                Some(Step::Bytes(bytes)) => {
                    let rest = &bytes[self.offset..];
                    let count = rest.len().min(buffer.len());
                    buffer[..count].copy_from_slice(&rest[..count]);
                    self.offset += count;
                    if count > 0 {
                        return Ok(count);
                    }
                    self.offset = 0;
                    self.steps.pop_front();
                }
                Some(Step::Stall) => {
                    let kind = if self.stop.wait(self.idle_timeout) {
                        FaultKind::Idle
                    } else {
                        FaultKind::Broken
                    };
                    let message = "nothing came in time".to_owned();
                    return Err(io::Error::other(Fault {
                        kind,
                        sent: true,
                        message,
                    }));
                }
                Some(Step::Fault(fault)) => return Err(io::Error::other(fault.clone())),
            }
        }
    }
}

impl WireBody for Played {
    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

/// Set once; whoever waits is woken.
#[derive(Default)]
struct Stop {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn set(&self) {
        *self.is_set.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for `duration`; whether it was never set.
    fn wait(&self, duration: Duration) -> bool {
        let is_set = self.is_set.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(is_set, duration, |is_set| !*is_set);
        let (is_set, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !*is_set
    }
}
