//! Who may work in a directory now: readers together, writers alone.
//!
//! First come, first served: a writer that waits is not overtaken by readers. Directories that lie in one
//! another are one place.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// With whom a lease is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseKind {
    /// With others who change nothing either.
    Shared,
    /// With nobody, for something may be changed.
    Exclusive,
}

/// All leases of a run. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Leases {
    state: Arc<Mutex<State>>,
}

/// The right to work in a directory; given back when dropped.
#[derive(Debug)]
pub struct Lease {
    leases: Leases,
    number: u64,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    held: Vec<Claim>,
    waiting: VecDeque<(Claim, oneshot::Sender<Lease>)>,
}

#[derive(Clone, Debug)]
struct Claim {
    number: u64,
    dir: PathBuf,
    kind: LeaseKind,
}

impl Claim {
    fn conflicts_with(&self, other: &Self) -> bool {
        let overlap = self.dir.starts_with(&other.dir) || other.dir.starts_with(&self.dir);
        overlap && (self.kind == LeaseKind::Exclusive || other.kind == LeaseKind::Exclusive)
    }
}

impl Leases {
    /// Waits until nobody who came before stands in the way. `dir` is absolute, links followed. Dropping
    /// the future gives up the place in the queue.
    #[expect(
        clippy::missing_panics_doc,
        reason = "a claim leaves the queue only with its lease or after its receiver"
    )]
    pub async fn acquire(&self, dir: &Path, kind: LeaseKind) -> Lease {
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.lock();
            let number = state.next;
            state.next += 1;
            let dir = dir.to_owned();
            let claim = Claim { number, dir, kind };
            state.waiting.push_back((claim, sender));
        }
        self.grant();
        receiver
            .await
            .expect("a claim leaves the queue only with its lease or after its receiver")
    }

    /// Gives leases to all who wait and whom nobody before them stands in the way of.
    fn grant(&self) {
        let mut granted = Vec::new();
        {
            let mut state = self.lock();
            let mut before = state.held.clone();
            for (claim, sender) in std::mem::take(&mut state.waiting) {
                if sender.is_closed() {
                    continue;
                }
                let is_free = !before.iter().any(|other| claim.conflicts_with(other));
                before.push(claim.clone());
                if is_free {
                    let number = claim.number;
                    state.held.push(claim);
                    let leases = self.clone();
                    granted.push((sender, Lease { leases, number }));
                } else {
                    state.waiting.push_back((claim, sender));
                }
            }
        }
        // Outside the lock: a lease that nobody takes any more is dropped here, and that locks.
        for (sender, lease) in granted {
            let _ = sender.send(lease);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here leaves the state half changed when it panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leases
            .lock()
            .held
            .retain(|claim| claim.number != self.number);
        self.leases.grant();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Acquiring<'a> = Pin<Box<dyn Future<Output = Lease> + 'a>>;

    fn acquire<'a>(leases: &'a Leases, dir: &'a str, kind: LeaseKind) -> Acquiring<'a> {
        let mut acquiring: Acquiring<'a> = Box::pin(leases.acquire(Path::new(dir), kind));
        // The place in the queue is taken at the first poll.
        match poll(&mut acquiring) {
            Some(lease) => Box::pin(std::future::ready(lease)),
            None => acquiring,
        }
    }

    fn poll(acquiring: &mut Acquiring<'_>) -> Option<Lease> {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(acquiring).poll(&mut context) {
            Poll::Ready(lease) => Some(lease),
            Poll::Pending => None,
        }
    }

    #[test]
    fn readers_share_writers_do_not_and_nobody_overtakes() {
        let leases = Leases::default();
        let mut first = acquire(&leases, "/w", LeaseKind::Shared);
        let mut second = acquire(&leases, "/w", LeaseKind::Shared);
        let mut writer = acquire(&leases, "/w", LeaseKind::Exclusive);
        let mut late = acquire(&leases, "/w", LeaseKind::Shared);
        let mut elsewhere = acquire(&leases, "/w2", LeaseKind::Exclusive);

        let (first, second) = (poll(&mut first).unwrap(), poll(&mut second).unwrap());
        assert!(poll(&mut elsewhere).is_some());
        drop(first);
        assert!(poll(&mut writer).is_none());
        drop(second);
        assert!(poll(&mut late).is_none());
        let writing = poll(&mut writer).unwrap();
        assert!(poll(&mut late).is_none());
        drop(writing);
        assert!(poll(&mut late).is_some());
    }

    #[test]
    fn a_directory_in_another_is_the_same_place() {
        let leases = Leases::default();
        let whole = poll(&mut acquire(&leases, "/w", LeaseKind::Exclusive)).unwrap();
        let mut part = acquire(&leases, "/w/sub", LeaseKind::Exclusive);
        let mut sibling = acquire(&leases, "/w-other", LeaseKind::Exclusive);
        assert!(poll(&mut part).is_none());
        assert!(poll(&mut sibling).is_some());
        drop(whole);
        assert!(poll(&mut part).is_some());
    }

    #[test]
    fn who_gives_up_waiting_stands_in_nobodys_way() {
        let leases = Leases::default();
        let reading = poll(&mut acquire(&leases, "/w", LeaseKind::Shared)).unwrap();
        let writer = acquire(&leases, "/w", LeaseKind::Exclusive);
        let mut reader = acquire(&leases, "/w", LeaseKind::Shared);
        assert!(poll(&mut reader).is_none());
        drop(writer);
        // Noticed when somebody else comes or goes.
        drop(acquire(&leases, "/elsewhere", LeaseKind::Shared));
        assert!(poll(&mut reader).is_some());
        drop(reading);
    }
}
