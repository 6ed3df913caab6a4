//! Events of a stream into a reply.

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;

use crate::message::{ApiStopReason, Reply, RequestNumber, Usage};

use super::StreamEvent;
use super::anthropic::{self, Delta, Event, quote};
use super::block::{DoneBlock, OpenBlock};
use super::raw::mended;
use super::usage::Reported;

/// All blocks of a reply together take no more. The longest outputs of today's models are a few
/// megabytes, and hundreds of replies may stream at once.
const MAX_REPLY: usize = 64 * 1024 * 1024;

/// What a block and one of its members count beside their bytes, so that memory is bounded for a
/// reply of very many very small ones too.
const BLOCK_SIZE: usize = 1024;
const MEMBER_SIZE: usize = 64;

/// More warnings about one reply, and longer ones, tell nothing new.
const MAX_WARNINGS: usize = 20;
const MAX_WARNING_BYTES: usize = 2000;

/// Why no reply will come of a stream.
#[derive(Debug, PartialEq)]
pub(super) enum StreamFault {
    /// The server says so: the `error` member of its event.
    Error {
        error: Value,
        request_id: Option<String>,
    },
    /// An event that makes no sense where it stands, or is too much.
    Protocol(String),
    /// The end came before the reply was whole.
    Truncated(String),
}

/// What of a stream has arrived.
pub(super) struct Assembler<'a> {
    number: RequestNumber,
    /// Ids of calls that this conversation has used.
    used_ids: &'a HashSet<String>,
    id: Option<String>,
    model: Option<String>,
    reported: Reported,
    stop_reason: Option<ApiStopReason>,
    stop_details: Value,
    blocks: Vec<Slot>,
    /// What the blocks take, see [`MAX_REPLY`].
    size: usize,
    warnings: Vec<String>,
    has_begun: bool,
    is_complete: bool,
}

/// A block in the order in which blocks began.
struct Slot {
    index: Option<usize>,
    state: SlotState,
}

enum SlotState {
    Open(Box<OpenBlock>),
    Done(DoneBlock),
}

impl<'a> Assembler<'a> {
    /// For the answer to request `number`. An id in `used_ids` is not used again.
    pub(super) fn new(number: RequestNumber, used_ids: &'a HashSet<String>) -> Self {
        Self {
            number,
            used_ids,
            id: None,
            model: None,
            reported: Reported::nothing(),
            stop_reason: None,
            stop_details: Value::Null,
            blocks: Vec::new(),
            size: 0,
            warnings: Vec::new(),
            has_begun: false,
            is_complete: false,
        }
    }

    /// What has been reported of the reply's usage.
    pub(super) fn usage(&self) -> Usage {
        self.reported.usage()
    }

    /// Whether the server has begun to answer.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether any content block has begun.
    pub(super) fn has_output(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Whether `message_stop` was seen; events after it do not count.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Takes the data of the next event.
    pub(super) fn take(
        &mut self,
        data: &[u8],
        on: &mut dyn FnMut(StreamEvent<'_>),
    ) -> Result<(), StreamFault> {
        // Some adapters end with a `[DONE]` that is no JSON.
        if self.is_complete {
            return Ok(());
        }
        let cause = match anthropic::decode(data) {
            Ok(event) => return self.take_event(event, on),
            Err(cause) => cause,
        };
        // Half a character is no reason to lose a reply. It is looked for only here, so that every
        // other event is read once.
        match std::str::from_utf8(data).map(mended) {
            Ok(Cow::Owned(mended)) => {
                let event = anthropic::decode(mended.as_bytes()).map_err(StreamFault::Protocol)?;
                self.take_event(event, on)
            }
            _ => Err(StreamFault::Protocol(cause)),
        }
    }

    fn take_event(
        &mut self,
        event: Event<'_>,
        on: &mut dyn FnMut(StreamEvent<'_>),
    ) -> Result<(), StreamFault> {
        match event {
            Event::BlockDelta { index, delta } => self.grow(index, delta, on)?,
            Event::BlockStart { index, fields } => self.begin_block(index, fields)?,
            Event::BlockStop { index } => self.end_block(index, on)?,
            Event::MessageStart {
                id,
                model,
                usage,
                input_transformations,
            } => {
                self.id = id;
                self.model = model;
                self.reported.begin(usage);
                self.note_transformations(input_transformations);
                if !std::mem::replace(&mut self.has_begun, true) {
                    on(StreamEvent::Began);
                }
            }
            Event::MessageDelta {
                stop_reason,
                stop_details,
                usage,
                input_transformations,
            } => {
                if let Some(name) = stop_reason.filter(|name| !name.is_empty()) {
                    self.stop_reason = Some(ApiStopReason::from_name(&name));
                }
                if let Some(details) = stop_details {
                    self.stop_details = details;
                }
                self.reported.update(usage);
                self.note_transformations(input_transformations);
            }
            Event::MessageStop => self.complete(on)?,
            Event::Error { error, request_id } => {
                return Err(StreamFault::Error { error, request_id });
            }
            Event::Ping => {}
            Event::Unknown(kind) => {
                self.warn(format!(
                    "the stream has an unknown event {}",
                    quote(kind.as_bytes())
                ));
            }
        }
        Ok(())
    }

    /// The whole reply. `asked_model` stands in where the server names none.
    pub(super) fn into_reply(
        mut self,
        asked_model: &str,
        request_id: Option<String>,
        duration: Duration,
    ) -> Reply {
        match &self.stop_reason {
            None => self.warn("the reply has no stop reason".to_owned()),
            Some(ApiStopReason::Other(name)) => {
                let name = quote(name.as_bytes());
                self.warn(format!("the reply has an unknown stop reason {name}"));
            }
            Some(_) => {}
        }
        let mut reply = Reply {
            id: self.id,
            request_id,
            model: self.model.unwrap_or_else(|| asked_model.to_owned()),
            blocks: Vec::with_capacity(self.blocks.len()),
            calls: Vec::new(),
            text: String::new(),
            stop_reason: self.stop_reason,
            stop_details: self.stop_details,
            usage: self.reported.usage(),
            usage_is_final: self.reported.is_final(),
            warnings: self.warnings,
            duration,
        };
        for slot in self.blocks {
            let SlotState::Done(done) = slot.state else {
                continue;
            };
            reply.blocks.extend(done.block);
            reply.calls.extend(done.call);
            match done.text {
                // Most replies have one text, which may be long.
                Some(text) if reply.text.is_empty() => reply.text = text,
                Some(text) => reply.text.push_str(&text),
                None => {}
            }
        }
        reply
    }

    /// The message has ended.
    fn complete(&mut self, on: &mut dyn FnMut(StreamEvent<'_>)) -> Result<(), StreamFault> {
        self.expect_begun("the end of a message")?;
        // A server that forgets to end its blocks has ended them all now.
        for slot in 0..self.blocks.len() {
            self.end_slot(slot, on);
        }
        let has_calls = self
            .blocks
            .iter()
            .any(|slot| matches!(&slot.state, SlotState::Done(done) if done.call.is_some()));
        // Calls speak for themselves; text without a reason to end may be any part of a reply.
        if self.stop_reason.is_none() && !has_calls {
            let cause = "the reply ended without a stop reason, so it may not be whole";
            return Err(StreamFault::Truncated(cause.to_owned()));
        }
        self.is_complete = true;
        Ok(())
    }

    fn expect_begun(&self, what: &str) -> Result<(), StreamFault> {
        if self.has_begun {
            return Ok(());
        }
        let cause = format!("{what} that never began: there was no message_start");
        Err(StreamFault::Protocol(cause))
    }

    /// Counts what a block takes.
    fn count(&mut self, bytes: usize) -> Result<(), StreamFault> {
        self.size = self.size.saturating_add(bytes);
        if self.size <= MAX_REPLY {
            return Ok(());
        }
        let cause = format!("a reply over {} MiB is not taken", MAX_REPLY / 1024 / 1024);
        Err(StreamFault::Protocol(cause))
    }

    fn begin_block(
        &mut self,
        index: Option<usize>,
        fields: Vec<(String, String)>,
    ) -> Result<(), StreamFault> {
        self.expect_begun("content of a message")?;
        let members = fields
            .iter()
            .map(|(name, raw)| name.len() + raw.len() + MEMBER_SIZE);
        self.count(BLOCK_SIZE + members.sum::<usize>())?;
        let mut block = OpenBlock::new(fields).map_err(StreamFault::Protocol)?;
        if let Some(id) = block.call_id()
            && (id.is_empty() || self.is_used(&id))
        {
            let fresh = self.fresh_id();
            self.warn(format!("the tool_use id {id:?} was replaced by {fresh:?}"));
            block.set_call_id(&fresh);
        }
        let state = SlotState::Open(Box::new(block));
        self.blocks.push(Slot { index, state });
        Ok(())
    }

    fn grow(
        &mut self,
        index: Option<usize>,
        delta: Delta<'_>,
        on: &mut dyn FnMut(StreamEvent<'_>),
    ) -> Result<(), StreamFault> {
        self.count(match &delta {
            Delta::Citation(citation) => citation.len() + MEMBER_SIZE,
            delta => delta.size(),
        })?;
        let slot = self.find(index, "a delta")?;
        let SlotState::Open(block) = &mut self.blocks[slot].state else {
            let cause = "a delta for a block that has ended";
            return Err(StreamFault::Protocol(cause.to_owned()));
        };
        match delta {
            Delta::Unknown(kind) => {
                self.warn(format!(
                    "the stream has an unknown delta {}",
                    quote(kind.as_bytes())
                ));
            }
            delta => {
                block.grow(&delta);
                if let Delta::Text(piece) = &delta
                    && !piece.is_empty()
                {
                    on(StreamEvent::TextDelta(piece));
                }
            }
        }
        Ok(())
    }

    fn end_block(
        &mut self,
        index: Option<usize>,
        on: &mut dyn FnMut(StreamEvent<'_>),
    ) -> Result<(), StreamFault> {
        let slot = self.find(index, "an end")?;
        self.end_slot(slot, on);
        Ok(())
    }

    /// Closes a block; some adapters do so twice.
    fn end_slot(&mut self, slot: usize, on: &mut dyn FnMut(StreamEvent<'_>)) {
        let SlotState::Open(block) = &mut self.blocks[slot].state else {
            return;
        };
        let mut done = block.close();
        let warning = done.warning.take();
        if let Some(call) = &done.call {
            on(StreamEvent::CallComplete(call));
        }
        self.blocks[slot].state = SlotState::Done(done);
        if let Some(warning) = warning {
            self.warn(warning);
        }
    }

    /// The newest block with `index`; the newest of all where a server gives none.
    fn find(&self, index: Option<usize>, what: &str) -> Result<usize, StreamFault> {
        self.blocks
            .iter()
            .rposition(|slot| index.is_none() || slot.index == index)
            .ok_or_else(|| StreamFault::Protocol(format!("{what} of a block that never began")))
    }

    fn note_transformations(&mut self, transformations: Option<Value>) {
        if let Some(transformations) = transformations
            && transformations
                .as_array()
                .is_none_or(|list| !list.is_empty())
        {
            self.warn(format!("the server changed the input: {transformations}"));
        }
    }

    fn warn(&mut self, mut warning: String) {
        if warning.len() > MAX_WARNING_BYTES {
            warning.truncate(warning.floor_char_boundary(MAX_WARNING_BYTES));
            warning.push('…');
        }
        if self.warnings.contains(&warning) {
            return;
        }
        match self.warnings.len() {
            ..MAX_WARNINGS => self.warnings.push(warning),
            MAX_WARNINGS => self
                .warnings
                .push("more warnings about this reply were left out".to_owned()),
            _ => {}
        }
    }

    fn is_used(&self, id: &str) -> bool {
        self.used_ids.contains(id)
            || self.blocks.iter().any(|slot| match &slot.state {
                SlotState::Open(block) => block.call_id().as_deref() == Some(id),
                SlotState::Done(done) => done.call.as_ref().is_some_and(|call| call.id == id),
            })
    }

    /// Made from the request's number and the block's place, so that a replay makes the same.
    fn fresh_id(&self) -> String {
        let stem = format!("toolu_r{}_{}", self.number, self.blocks.len());
        let mut id = stem.clone();
        let mut suffix = 1;
        while self.is_used(&id) {
            suffix += 1;
            id = format!("{stem}_{suffix}");
        }
        id
    }
}

#[cfg(test)]
mod tests;
