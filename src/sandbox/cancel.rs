//! One flag that ends blocking work.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// Set once, seen by whoever does blocking work for a prompt: as a flag to look at, and as a file
/// descriptor that a poll wakes up for. Clones share the flag.
#[derive(Clone, Debug)]
pub struct Cancel {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    is_set: AtomicBool,
    event: OwnedFd,
}

impl Cancel {
    /// A flag that is not set. Fails when the process is out of file descriptors.
    pub fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            shared: Arc::new(Shared {
                is_set: AtomicBool::new(false),
                event,
            }),
        })
    }

    /// Sets the flag, for good.
    pub fn set(&self) {
        self.shared.is_set.store(true, Ordering::SeqCst);
        // The only error is a counter that is full, and then it is readable already.
        let _ = rustix::io::write(&self.shared.event, &1_u64.to_ne_bytes());
    }

    /// Whether it was set.
    pub fn is_set(&self) -> bool {
        self.shared.is_set.load(Ordering::SeqCst)
    }
}

/// Readable from the moment the flag is set; never to be read from.
impl AsFd for Cancel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(cancel: &Cancel) -> bool {
        let now = Timespec::default();
        poll(&mut [PollFd::new(cancel, PollFlags::IN)], Some(&now)).unwrap() == 1
    }

    #[test]
    fn a_clone_sees_what_was_set_by_flag_and_by_poll() {
        let cancel = Cancel::new().unwrap();
        let clone = cancel.clone();
        assert_eq!((clone.is_set(), is_readable(&clone)), (false, false));
        cancel.set();
        cancel.set();
        assert_eq!((clone.is_set(), is_readable(&clone)), (true, true));
    }
}
