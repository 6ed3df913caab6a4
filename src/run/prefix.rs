//! Of parallel prompts with an equal prefix one goes first, so that the others read its cache.
//!
//! A provider's cache entry can be read only once the first reply has begun: requests that are sent
//! together all miss, and all pay for writing. Source: Anthropic API documentation, "Prompt caching".

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::watch;

use crate::message::Head;

/// One gate for all prompts of a run.
#[derive(Debug, Default)]
pub struct PrefixGate {
    warming: Mutex<HashMap<u64, watch::Receiver<bool>>>,
}

/// What a prompt must do about its prefix.
pub enum Entry {
    /// Go first, and open the gate when the reply begins or fails (dropping does it too).
    Lead(Lead),
    /// Wait until the gate is open.
    Follow(watch::Receiver<bool>),
}

/// Held by the prompt that goes first.
pub struct Lead {
    open: watch::Sender<bool>,
}

impl Lead {
    /// The reply has begun: the others may go.
    pub fn open(&self) {
        self.open.send_replace(true);
    }
}

impl PrefixGate {
    /// Enters with a conversation's head.
    pub fn enter(&self, head: &Head) -> Entry {
        let mut warming = self.warming.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = digest(head);
        if let Some(gate) = warming.get(&digest) {
            return Entry::Follow(gate.clone());
        }
        let (open, gate) = watch::channel(false);
        warming.insert(digest, gate);
        Entry::Lead(Lead { open })
    }
}

/// A cache is not worth waiting longer for than this: a leader that stalls must not stall the others.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Waits until the prompt that went first has begun its reply or given up, at most 20 s.
pub(super) async fn wait(mut gate: watch::Receiver<bool>) {
    // An error of the channel means that the leader is gone, which opens the gate as well.
    let _ = tokio::time::timeout(LONGEST_WAIT, gate.wait_for(|open| *open)).await;
}

/// Equal heads have equal digests; a collision only makes one prompt wait for another's first byte.
fn digest(head: &Head) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};

    let mut hasher = DefaultHasher::new();
    head.model.hash(&mut hasher);
    head.system.hash(&mut hasher);
    for tool in &head.tools {
        tool.name.hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(system: &str) -> Head {
        Head {
            model: "m".into(),
            system: system.into(),
            tools: vec![],
        }
    }

    #[tokio::test]
    async fn the_first_leads_and_the_others_wait_until_it_opens_or_is_gone() {
        let gate = PrefixGate::default();
        let Entry::Lead(lead) = gate.enter(&head("a")) else {
            panic!("the first leads")
        };
        let Entry::Follow(follow) = gate.enter(&head("a")) else {
            panic!("the second follows")
        };
        assert!(
            matches!(gate.enter(&head("b")), Entry::Lead(_)),
            "another prefix has its own leader"
        );
        assert!(!*follow.borrow());
        lead.open();
        wait(follow).await;
        drop(lead);
        let Entry::Follow(late) = gate.enter(&head("a")) else {
            panic!("the prefix stays warm")
        };
        wait(late).await;
    }
}
