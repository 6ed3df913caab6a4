//! What is beneath the decoder: a request's body goes down, a status, headers and bytes come up.

use std::io::{self, Read};

use crate::message::Failure;

/// A request as it goes out: its body, in slices.
pub(super) struct WireRequest<'a> {
    pub(super) body: &'a [&'a str],
}

/// The beginning of an answer.
pub(super) struct WireResponse {
    pub(super) status: u16,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Box<dyn WireBody>,
}

/// The bytes of an answer. Reading blocks; an error of reading holds a [`crate::net::Fault`].
pub(super) trait WireBody: Read + Send {
    /// Called when the content is whole, instead of reading on to the end.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Carries requests, one at a time.
pub(super) trait Transport: Send + Sync {
    /// What it does, for messages: `POST https://…`.
    fn what(&self) -> &str;

    /// Sends a request and waits for the beginning of the answer. A failure says itself what it may
    /// have cost.
    fn open(&self, request: &WireRequest<'_>) -> Result<WireResponse, Failure>;

    /// Ends all waiting, now and later.
    fn cancel(&self);
}
