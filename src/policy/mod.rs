//! What is allowed: rules, and the one place where a call is judged by them.
//!
//! Pure: paths arrive resolved, commands are parsed here. Deny first, then allow; what nothing
//! allows is denied.

mod decide;
mod rule;

pub use decide::{Access, Call, Decision, Permit, Place, Policy, Resolved, Roots, Target};
pub use rule::{Rule, RuleError};
