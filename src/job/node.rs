//! The YAML tree with every value's place.

use super::locate::{Span, Style};

/// A value and where it stands; an alias stands where it is used.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) span: Span,
    pub(super) content: Content,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key and its value; a key that is repeated is repeated here.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) value: Node,
}

/// A mapping's key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    pub(super) span: Span,
    pub(super) text: String,
}

/// A value without parts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scalar {
    /// The text meant; for a value that YAML takes for something else than text, the text written.
    pub(super) text: String,
    pub(super) kind: Kind,
    pub(super) style: Style,
}

/// What YAML (1.2, core schema) takes a scalar for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Whole(i128),
    Float(f64),
    Text,
}
