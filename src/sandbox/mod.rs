//! Processes that end when they should.

/// Set once, seen by whoever does blocking work for a prompt.
#[derive(Clone, Debug)]
pub struct Cancel {}
