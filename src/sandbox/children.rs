//! Nothing that was started outlives a runner that leaves in a hurry.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::process::{now, wait_readable};
use super::survivors::of_this_runner;

/// How long to go on: killing takes a moment, and only a process stuck in the kernel takes longer.
const PATIENCE: Duration = Duration::from_millis(500);

/// Kills everything that [`run`](super::run) has started in this process, on whatever thread, and what
/// those programs have started, as far as it is found: by session, or by the variable that each call's
/// programs bear in their environment.
///
/// For a runner that is about to leave at once, while calls still run. Blocking, half a second at most.
/// What is started in the same moment is not seen; a program's first process dies with the runner itself.
pub fn end_children() {
    let until = now() + PATIENCE;
    let mut sessions = BTreeSet::new();
    loop {
        let (leaders, left) = of_this_runner(&mut sessions);
        if left.is_empty() || now() >= until {
            return;
        }
        // The group first, all at once: one by one, what forks would be quicker.
        for leader in leaders.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process_group(leader, Signal::KILL);
        }
        for survivor in &left {
            survivor.signal(Signal::KILL);
        }
        for survivor in &left {
            // A poll that fails is asked again, by looking for what is left.
            let _ = wait_readable(&survivor.pidfd, until);
        }
    }
}
