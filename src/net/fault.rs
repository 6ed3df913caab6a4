//! What can go wrong beneath HTTP's own statuses.

use std::fmt;
use std::io;

/// A request that got no (whole) answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What went wrong, by what can be done about it.
    pub kind: FaultKind,
    /// Whether the body was already on its way, so that the server may have acted on it.
    pub sent: bool,
    /// The cause, in lower case.
    pub message: String,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// No connection: name not found, refused, timed out.
    Unreachable,
    /// The connection broke.
    Broken,
    /// The answer ended before it was whole.
    Ended,
    /// Nothing came for longer than the idle limit.
    Idle,
    /// A certificate is not trusted, a header or a proxy cannot be used: trying again would not help.
    Refused,
    /// What came is not HTTP.
    Protocol,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl Fault {
    /// From an error of ureq; `sent` as in [`Fault::sent`].
    pub(super) fn of(error: ureq::Error, sent: bool) -> Self {
        let before_or = |after: FaultKind| {
            if sent { after } else { FaultKind::Unreachable }
        };
        let (kind, message) = match error {
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
                (FaultKind::Unreachable, "no connection in time".to_owned())
            }
            ureq::Error::Timeout(_) if !sent => {
                (FaultKind::Unreachable, "no connection in time".to_owned())
            }
            ureq::Error::Timeout(_) => (FaultKind::Idle, "nothing came in time".to_owned()),
            ureq::Error::Io(error) => return Self::of_io(&error, sent),
            // The proxy's own answer: a 4xx will not change, anything else may.
            ureq::Error::ConnectProxyFailed(reason) if reason.contains("responded 4") => {
                (FaultKind::Refused, reason)
            }
            ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed
            | ureq::Error::ConnectProxyFailed(_) => (FaultKind::Unreachable, error.to_string()),
            ureq::Error::Tls(_)
            | ureq::Error::Rustls(_)
            | ureq::Error::Pem(_)
            | ureq::Error::TlsRequired
            | ureq::Error::Http(_)
            | ureq::Error::BadUri(_)
            | ureq::Error::InvalidProxyUrl => (FaultKind::Refused, error.to_string()),
            ureq::Error::Protocol(_)
            | ureq::Error::LargeResponseHeader(..)
            | ureq::Error::Decompress(..) => (FaultKind::Protocol, error.to_string()),
            other => (before_or(FaultKind::Broken), other.to_string()),
        };
        Self {
            kind,
            sent,
            message: lower_first(&message),
        }
    }

    fn of_io(error: &io::Error, sent: bool) -> Self {
        let kind = match error.kind() {
            // rustls reports a bad certificate so, and nothing else does before the body is sent.
            io::ErrorKind::InvalidData if !sent => FaultKind::Refused,
            io::ErrorKind::UnexpectedEof if sent => FaultKind::Ended,
            _ if sent => FaultKind::Broken,
            _ => FaultKind::Unreachable,
        };
        Self {
            kind,
            sent,
            message: lower_first(&error.to_string()),
        }
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// Something that a person must set right before any request can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupError(pub(super) String);

impl SetupError {
    /// `message`: what was tried on what, then the cause.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SetupError {}
