//! HTTP for whoever needs it: the only room that names ureq.
//!
//! In goes a request (a URL, headers, the body as slices), out come status, headers and a body that
//! blocks the caller's thread while it is read, or a [`Fault`]. Proxies and certificate authorities
//! come from an [`Environment`] that is handed in; nothing is read from the process's own. Redirects
//! are never followed, statuses are no errors here, nothing is tried twice. This room knows no model,
//! no provider, no key.

mod certificates;
mod client;
mod environment;
mod fault;

pub use client::{Body, Client, Network, Response};
pub use environment::Environment;
pub use fault::{Fault, FaultKind, SetupError};
