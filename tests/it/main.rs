//! Tests from outside: one binary, a file a subject.

mod provider;
mod server;
