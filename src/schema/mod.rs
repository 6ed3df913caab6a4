//! JSON Schema for tool arguments.
//!
//! The part of JSON Schema that tools describe their arguments with: `type`, `properties`, `required`,
//! `additionalProperties: false`, `items`, `enum`, `minimum`, `maximum`, `pattern`. Anything else in a
//! schema is taken as a comment. In goes what a model sent, out comes what the tool gets, or every fault in
//! the words in which models were trained to read them.

mod fault;
mod validate;

pub use fault::{Fault, input_validation_error};
pub use validate::validate;
