//! The conversation as it is sent: append-only, and no request while a call lacks its answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::message::{
    Block, BlockKind, BlockPosition, Head, Message, Request, RequestNumber, Role, Usage,
};

/// Blocks between two breakpoints beyond which one more is set between them. The API looks back at
/// most 20 blocks from a breakpoint. Source: Anthropic API documentation, "Prompt caching".
const BLOCKS_BETWEEN_BREAKPOINTS: usize = 15;

/// Tokens that the server adds to what is sent and bills as input: the tool preamble. Source: Anthropic
/// API documentation, "Tool use", which names at most about 800.
const PREAMBLE_TOKENS: u64 = 2000;

/// The conversation so far.
#[derive(Debug, Default)]
pub struct History {
    messages: Vec<Arc<Message>>,
    /// Ids of calls that have no answer yet.
    open_calls: BTreeSet<String>,
    /// Length of the history at each request that differed from the one before: where its newest
    /// message ends.
    sent_lengths: Vec<usize>,
    /// Input tokens the API reported for the first `.1` messages, which hold the head too.
    reported: Option<(u64, usize)>,
}

impl History {
    /// Appends a message of the runner.
    pub fn push_user(&mut self, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            self.messages.push(Arc::new(Message {
                role: Role::User,
                blocks,
            }));
        }
    }

    /// Appends a reply; `calls` are the ids of its calls. A reply without a block is left out, for the
    /// API refuses empty messages. Without `usage` nothing is learned of what the input counts.
    pub fn push_reply(
        &mut self,
        blocks: &[Block],
        calls: impl IntoIterator<Item = String>,
        usage: Option<&Usage>,
    ) {
        // No request has no input: whoever reports none counts none.
        let reported = usage.map(Usage::prompt_tokens).filter(|tokens| *tokens > 0);
        if let Some(tokens) = reported {
            self.reported = Some((tokens, self.messages.len()));
        }
        self.open_calls.extend(calls);
        if !blocks.is_empty() {
            self.messages.push(Arc::new(Message {
                role: Role::Assistant,
                blocks: blocks.to_vec(),
            }));
        }
    }

    /// Appends the results of all open calls as one message, in the order given, with `notes` behind.
    ///
    /// # Panics
    /// When `results` are not exactly the answers to the open calls: a defect of the loop.
    pub fn push_results(
        &mut self,
        results: Vec<(String, Block)>,
        notes: impl IntoIterator<Item = Block>,
    ) {
        let answered: BTreeSet<String> = results.iter().map(|(id, _)| id.clone()).collect();
        assert!(
            answered == self.open_calls && results.len() == answered.len(),
            "results answer each open call once"
        );
        self.open_calls.clear();
        self.push_user(
            results
                .into_iter()
                .map(|(_, block)| block)
                .chain(notes)
                .collect(),
        );
    }

    /// The messages.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// The next request and the most input tokens it can cost.
    ///
    /// # Panics
    /// When a call lacks its answer: a defect of the loop.
    pub fn request(
        &mut self,
        number: RequestNumber,
        head: &Arc<Head>,
        max_tokens: u64,
    ) -> (Request, u64) {
        assert!(
            self.open_calls.is_empty(),
            "a call lacks its answer: {:?}",
            self.open_calls
        );
        if self.sent_lengths.last() != Some(&self.messages.len()) {
            self.sent_lengths.push(self.messages.len());
        }
        let request = Request {
            number,
            head: Arc::clone(head),
            max_tokens,
            messages: self.messages.clone(),
            breakpoints: self.breakpoints(),
        };
        (request, self.input_bound(head))
    }

    fn breakpoints(&self) -> Vec<BlockPosition> {
        let [.., newest] = self.sent_lengths[..] else {
            return Vec::new();
        };
        let newest = self.last_cacheable(newest);
        let previous = match self.sent_lengths[..] {
            [.., previous, _] => self.last_cacheable(previous),
            _ => None,
        };
        let between = previous
            .zip(newest)
            .and_then(|(from, to)| self.between(from, to));
        previous.into_iter().chain(between).chain(newest).collect()
    }

    /// The last block that may be marked in the first `length` messages.
    fn last_cacheable(&self, length: usize) -> Option<BlockPosition> {
        let message = length.checked_sub(1)?;
        let block = self.messages[message]
            .blocks
            .iter()
            .rposition(|b| b.kind() != BlockKind::Thinking)?;
        Some(BlockPosition { message, block })
    }

    /// A block about halfway between two breakpoints, when many lie there.
    fn between(&self, from: BlockPosition, to: BlockPosition) -> Option<BlockPosition> {
        let positions: Vec<BlockPosition> = (from.message..=to.message)
            .flat_map(|message| {
                (0..self.messages[message].blocks.len())
                    .map(move |block| BlockPosition { message, block })
            })
            .filter(|p| (p.message, p.block) > (from.message, from.block))
            .filter(|p| (p.message, p.block) < (to.message, to.block))
            .collect();
        if positions.len() <= BLOCKS_BETWEEN_BREAKPOINTS {
            return None;
        }
        let half = positions.len() / 2;
        positions[half..]
            .iter()
            .find(|p| self.messages[p.message].blocks[p.block].kind() != BlockKind::Thinking)
            .copied()
    }

    /// What the API reported for what it has seen, plus one token a byte of what is new, plus the
    /// server's preamble.
    fn input_bound(&self, head: &Head) -> u64 {
        let (known, seen) = self.reported.unwrap_or_else(|| (head_bound(head), 0));
        let new: u64 = self.messages[seen..]
            .iter()
            .flat_map(|message| &message.blocks)
            .map(Block::input_bound)
            .sum();
        known + new + PREAMBLE_TOKENS
    }
}

fn head_bound(head: &Head) -> u64 {
    let tools: usize = head
        .tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.to_string().len())
        .sum();
    (head.system.len() + tools) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Arc<Head> {
        Arc::new(Head {
            model: "m".into(),
            system: "s".repeat(10),
            tools: vec![],
        })
    }

    fn text(text: &str) -> Block {
        Block::text(text).unwrap()
    }

    fn request(history: &mut History, number: u32) -> (Request, u64) {
        history.request(RequestNumber(number), &head(), 100)
    }

    #[test]
    fn the_first_bound_counts_every_byte_and_later_ones_start_from_what_was_reported() {
        let mut history = History::default();
        let prompt = text("hello");
        history.push_user(vec![prompt.clone()]);
        assert_eq!(request(&mut history, 1).1, 10 + prompt.input_bound() + 2000);
        let reply = text("hi");
        let usage = Usage {
            input_tokens: 7,
            cache_read_input_tokens: 5,
            ..Usage::default()
        };
        history.push_reply(std::slice::from_ref(&reply), [], Some(&usage));
        history.push_user(vec![prompt.clone()]);
        assert_eq!(
            request(&mut history, 2).1,
            12 + reply.input_bound() + prompt.input_bound() + 2000
        );
        // What is not reported, or as nothing, changes nothing of what was.
        for usage in [None, Some(&Usage::default())] {
            let before = request(&mut history, 3).1;
            history.push_reply(std::slice::from_ref(&reply), [], usage);
            assert_eq!(request(&mut history, 4).1, before + reply.input_bound());
        }
    }

    #[test]
    fn the_newest_and_the_previous_newest_block_are_marked_and_a_retry_changes_nothing() {
        let mut history = History::default();
        history.push_user(vec![text("a")]);
        let first = request(&mut history, 1).0.breakpoints;
        assert_eq!(
            first,
            [BlockPosition {
                message: 0,
                block: 0
            }]
        );
        history.push_reply(&[text("b")], [], None);
        history.push_user(vec![text("c"), text("d")]);
        let expected = [
            BlockPosition {
                message: 0,
                block: 0,
            },
            BlockPosition {
                message: 2,
                block: 1,
            },
        ];
        assert_eq!(request(&mut history, 2).0.breakpoints, expected);
        assert_eq!(request(&mut history, 3).0.breakpoints, expected);
    }

    #[test]
    fn a_long_stretch_gets_a_breakpoint_between_and_never_on_thinking() {
        let mut history = History::default();
        history.push_user(vec![text("a")]);
        request(&mut history, 1);
        let thinking = Block::from_wire(BlockKind::Thinking, r#"{"type":"thinking"}"#);
        let mut blocks = vec![thinking; 18];
        blocks.push(text("end"));
        history.push_reply(&blocks, [], None);
        history.push_user(vec![text("b")]);
        assert_eq!(
            request(&mut history, 2).0.breakpoints,
            [
                BlockPosition {
                    message: 0,
                    block: 0
                },
                BlockPosition {
                    message: 1,
                    block: 18
                },
                BlockPosition {
                    message: 2,
                    block: 0
                },
            ]
        );
    }

    #[test]
    #[should_panic(expected = "a call lacks its answer")]
    fn no_request_leaves_while_a_call_lacks_its_answer() {
        let mut history = History::default();
        history.push_reply(&[text("x")], ["toolu_1".to_owned()], None);
        request(&mut history, 1);
    }
}
