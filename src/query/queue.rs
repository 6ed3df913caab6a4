//! Which call of a reply may start now.

use crate::message::{ToolResult, ToolUse};

/// The calls of one reply, in order, and how far each has come.
#[derive(Debug, Default)]
pub(super) struct Queue {
    calls: Vec<Queued>,
}

#[derive(Debug)]
struct Queued {
    call: ToolUse,
    progress: Progress,
}

#[derive(Debug)]
enum Progress {
    Undecided,
    Allowed {
        is_read_only: bool,
    },
    Running {
        is_read_only: bool,
    },
    Answered {
        result: ToolResult,
        notes: Vec<String>,
    },
}

impl Queue {
    pub(super) fn new(calls: &[ToolUse]) -> Self {
        let queued = |call: &ToolUse| Queued {
            call: call.clone(),
            progress: Progress::Undecided,
        };
        Self {
            calls: calls.iter().map(queued).collect(),
        }
    }

    fn find(&mut self, id: &str) -> Option<&mut Queued> {
        self.calls.iter_mut().find(|queued| queued.call.id == id)
    }

    /// The policy allows a call; false when no such call waits for a decision.
    pub(super) fn allow(&mut self, id: &str, is_read_only: bool) -> bool {
        match self.find(id) {
            Some(queued) if matches!(queued.progress, Progress::Undecided) => {
                queued.progress = Progress::Allowed { is_read_only };
                true
            }
            _ => false,
        }
    }

    /// A call has its answer; false when no such call waits for one.
    pub(super) fn answer(&mut self, result: ToolResult, notes: Vec<String>) -> bool {
        match self.find(&result.tool_use_id) {
            Some(queued) if !matches!(queued.progress, Progress::Answered { .. }) => {
                queued.progress = Progress::Answered { result, notes };
                true
            }
            _ => false,
        }
    }

    /// Marks as running, and names, every call that may start: one that only reads may run beside
    /// others that only read, up to `parallel`; any other runs alone, after all before it.
    pub(super) fn start(&mut self, parallel: usize) -> Vec<String> {
        let mut running = self
            .calls
            .iter()
            .filter(|queued| matches!(queued.progress, Progress::Running { .. }))
            .count();
        let mut started = Vec::new();
        let mut all_before_answered = true;
        for queued in &mut self.calls {
            match queued.progress {
                Progress::Answered { .. } => continue,
                Progress::Running { is_read_only: true } => {}
                Progress::Allowed { is_read_only: true } if running < parallel.max(1) => {
                    queued.progress = Progress::Running { is_read_only: true };
                    started.push(queued.call.id.clone());
                    running += 1;
                }
                Progress::Allowed {
                    is_read_only: false,
                } if all_before_answered => {
                    queued.progress = Progress::Running {
                        is_read_only: false,
                    };
                    started.push(queued.call.id.clone());
                    break;
                }
                Progress::Undecided
                | Progress::Allowed { .. }
                | Progress::Running {
                    is_read_only: false,
                } => break,
            }
            all_before_answered = false;
        }
        started
    }

    /// The calls without an answer, in order.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &ToolUse> {
        self.calls
            .iter()
            .filter(|queued| !matches!(queued.progress, Progress::Answered { .. }))
            .map(|queued| &queued.call)
    }

    /// The answers and their notes in the order of the calls, leaving the queue empty; `None` while
    /// one is missing.
    pub(super) fn take_answers(&mut self) -> Option<Vec<(ToolResult, Vec<String>)>> {
        if self.unanswered().next().is_some() {
            return None;
        }
        let answers = std::mem::take(&mut self.calls)
            .into_iter()
            .filter_map(|queued| match queued.progress {
                Progress::Answered { result, notes } => Some((result, notes)),
                Progress::Undecided | Progress::Allowed { .. } | Progress::Running { .. } => None,
            });
        Some(answers.collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::ToolInput;

    /// `r` is a call that only reads, `w` one that may write; named by their position.
    fn queue(kinds: &str) -> Queue {
        let calls: Vec<ToolUse> = (0..kinds.len())
            .map(|i| ToolUse {
                id: i.to_string(),
                name: "T".into(),
                input: ToolInput::Json(json!({})),
            })
            .collect();
        let mut queue = Queue::new(&calls);
        for (i, kind) in kinds.chars().enumerate() {
            assert!(kind == '?' || queue.allow(&i.to_string(), kind == 'r'));
        }
        queue
    }

    fn answer(queue: &mut Queue, id: &str) {
        assert!(queue.answer(ToolResult::text(id, "ok", false), vec![]));
    }

    #[test]
    fn readers_run_together_and_writers_alone_in_order() {
        for (kinds, first, then) in [
            ("rrr", "012", ""),
            ("rrw", "01", ""),
            ("wr", "0", "1"),
            ("ww", "0", "1"),
            ("r?r", "0", ""),
        ] {
            let mut queue = queue(kinds);
            assert_eq!(queue.start(10).concat(), first, "{kinds}");
            assert_eq!(queue.start(10), [""; 0], "{kinds}: nothing starts twice");
            answer(&mut queue, "0");
            assert_eq!(queue.start(10).concat(), then, "{kinds}");
        }
    }

    #[test]
    fn at_most_so_many_readers_run_at_once() {
        let mut queue = queue("rrrr");
        assert_eq!(queue.start(2).concat(), "01");
        answer(&mut queue, "1");
        assert_eq!(queue.start(2).concat(), "2");
    }

    #[test]
    fn a_second_answer_to_one_call_is_not_taken() {
        let mut queue = queue("r");
        answer(&mut queue, "0");
        assert!(!queue.answer(ToolResult::text("0", "again", false), vec![]));
        assert!(!queue.answer(ToolResult::text("7", "stray", false), vec![]));
        assert_eq!(queue.take_answers().unwrap().len(), 1);
    }
}
