//! The rooms of lightsout; `ARCHITECTURE.md` has the picture.
//!
//! Each room's own documentation begins its `mod.rs`. The sentences below are comments, since links in
//! that documentation would else be looked for here.

// The front door: arguments, one file a command.
pub mod cli;
// The conductor: does what the query loop asks for.
pub mod run;

// Witnesses: folds over events.
pub mod report;
// What happened; written first, acted on after.
pub mod transcript;

// The only room that names ureq.
pub mod net;
// Talks to models; knows no tools, no policy.
pub mod provider;
// Processes that end when they should.
pub mod sandbox;
// What the model can do.
pub mod tools;
// The directory the tools work in.
pub mod workspace;

// Prices and the ledger.
pub mod budget;
// What was asked.
pub mod job;
// Messages, requests, replies, failures.
pub mod message;
// Limits and prices of models, compiled in.
pub mod models;
// What is allowed.
pub mod policy;
// The query loop as a pure machine.
pub mod query;
// JSON Schema for tool arguments.
pub mod schema;
// Stop reasons, outcomes, exit codes.
pub mod stop;
