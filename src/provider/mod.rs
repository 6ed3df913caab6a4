//! Talks to models: a [`Request`](crate::message::Request) goes in, a [`Reply`](crate::message::Reply)
//! or a [`Failure`](crate::message::Failure) comes out, and while it streams, events for whoever listens.
//!
//! From the bottom: a transport turns a request body into a status, headers and bytes (HTTP, or a
//! cassette, each possibly recorded); `sse` turns bytes into events; `anthropic` knows their shapes;
//! `assemble` builds the reply; `failure` names what went wrong by what can be done about it. All of
//! it blocks the caller's thread; [`Provider::cancel`] ends that from another.
//!
//! Invariants: nothing is tried twice (the query loop decides that); a stream without `message_stop` is
//! a failure; blocks are kept in the bytes in which they go back; the bytes of a request before its
//! newest message are those of the request before; the key is in no message. This room knows no tools,
//! no policy, no money, and reads neither clock nor environment: both are handed in.

mod anthropic;
mod assemble;
mod auth;
mod block;
mod cassette;
mod exchange;
mod failure;
mod http;
mod mask;
mod normalise;
mod raw;
mod record;
mod replay;
mod script;
mod sse;
mod transport;
mod usage;

pub use auth::ApiKey;
pub use cassette::{Cassette, CassetteError};
pub use exchange::{Clock, Endpoint, Provider, Settings, StreamEvent};
pub use normalise::Places;
