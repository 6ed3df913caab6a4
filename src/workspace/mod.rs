//! The directory the tools work in.
//!
//! Says where a path leads ([`Workspace::resolve`]), opens what was resolved in such a way that a link
//! put there later leads nowhere ([`Beneath`]), and keeps writers alone ([`Leases`]). Knows no rules: who
//! may open what is decided elsewhere, on what this room resolved.

mod beneath;
mod lease;
mod resolve;

pub use beneath::{Beneath, OpenFault};
pub use lease::{Lease, LeaseKind, Leases};
pub use resolve::{Location, Workspace};
