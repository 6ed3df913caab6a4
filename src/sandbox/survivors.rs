//! What a program started and left running.
//!
//! Found in `/proc` by session and, for what has left the session, by a variable in its environment.
//! What both leaves its session and clears its environment is not found.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

/// The variable by which a process is recognised that has left the session.
pub(super) const CALL_VARIABLE: &str = "LIGHTSOUT_CALL";

/// What is told of a command line, in characters.
const MAX_NAME_CHARS: usize = 200;

/// A process that outlived the one that was asked for.
#[derive(Debug)]
pub(super) struct Survivor {
    pub(super) pidfd: OwnedFd,
    /// Whether it is in the leader's process group, and so was signalled with it.
    pub(super) is_in_group: bool,
    /// For a person: its command line and number.
    pub(super) name: String,
}

impl Survivor {
    pub(super) fn signal(&self, signal: Signal) {
        // It may have ended by itself in the meantime, which is what is wanted.
        let _ = pidfd_send_signal(&self.pidfd, signal);
    }
}

/// What the values of [`CALL_VARIABLE`] begin with here: the runner's number and when it was started, in
/// clock ticks since boot, for from outside a container another runner of the same number may be seen.
pub(super) fn runner_mark() -> String {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The 22nd field; see `Stat::parse`.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let started = rest.split_whitespace().nth(19).unwrap_or("0");
    format!("{}.{started}-", std::process::id())
}

/// The processes that `leader`, a session leader whose number is still taken (not yet waited for), has
/// started and that still run, itself left out; `call` is the value of [`CALL_VARIABLE`].
pub(super) fn survivors(leader: Pid, call: &str) -> Vec<Survivor> {
    let (true, Some(newest)) = (is_proc_ours(), newest_pid()) else {
        return Vec::new();
    };
    let leader = leader.as_raw_nonzero().get();
    let mut left = Vec::new();
    for pid in all_processes().filter(|&pid| is_younger(pid, leader, newest)) {
        let belongs = |stat: &Stat| {
            stat.session == leader || has_variable(pid, |value| value == call.as_bytes())
        };
        left.extend(survivor(pid, leader, belongs));
    }
    left
}

/// Of this whole process: the session leaders among its children, those that ended and were not waited for
/// included, and everything that runs in their sessions or bears the runner's mark. `sessions` collects
/// the leaders over several looks, for what is left of a session whose leader is gone.
pub(super) fn of_this_runner(sessions: &mut BTreeSet<i32>) -> (Vec<i32>, Vec<Survivor>) {
    if !is_proc_ours() {
        return (Vec::new(), Vec::new());
    }
    let own = getpid().as_raw_nonzero().get();
    let mark = runner_mark();
    let is_leader = |pid: &i32| {
        // A child of ours in another session than its own is one that was there before us.
        stat(*pid).is_some_and(|(_, stat)| stat.parent == own && stat.session == *pid)
    };
    let leaders: Vec<i32> = all_processes().filter(is_leader).collect();
    sessions.extend(&leaders);
    let mut left = Vec::new();
    for pid in all_processes().filter(|&pid| pid != own) {
        let belongs = |stat: &Stat| {
            sessions.contains(&stat.session)
                || has_variable(pid, |value| value.starts_with(mark.as_bytes()))
        };
        left.extend(survivor(pid, own, belongs));
    }
    (leaders, left)
}

/// In a process namespace with somebody else's /proc the numbers there mean nothing to us.
fn is_proc_ours() -> bool {
    let own = getpid().as_raw_nonzero().get().to_string();
    fs::read_link("/proc/self").ok().as_deref() == Some(Path::new(&own))
}

fn all_processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
}

/// The last field of `/proc/loadavg`: the number given out last. Source: proc(5).
fn newest_pid() -> Option<i32> {
    let loadavg = fs::read_to_string("/proc/loadavg").ok()?;
    loadavg.split_whitespace().last()?.parse().ok()
}

/// Whether `pid` was given out after `leader`'s. Numbers rise up to a maximum and begin again; so most of
/// the machine's processes need no closer look.
fn is_younger(pid: i32, leader: i32, newest: i32) -> bool {
    leader < pid || (newest < leader && pid <= newest)
}

fn survivor(pid: i32, group: i32, belongs: impl Fn(&Stat) -> bool) -> Option<Survivor> {
    // Opened before looking, so that what is looked at is what will be signalled.
    let pidfd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    let (text, stat) = stat(pid)?;
    if !stat.is_running || !belongs(&stat) {
        return None;
    }
    let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    Some(Survivor {
        pidfd,
        is_in_group: stat.group == group,
        name: format!("{} (process {pid})", name(&command_line, &text)),
    })
}

/// The arguments, as a line; for what is just turning into another program and has none, the name.
fn name(command_line: &[u8], stat: &str) -> String {
    let arguments = String::from_utf8_lossy(command_line);
    let line = arguments.replace(|c: char| c.is_control(), " ");
    let program = || Some(stat.split_once('(')?.1.rsplit_once(')')?.0);
    match line.trim() {
        "" => program().unwrap_or_default().to_owned(),
        line => line.chars().take(MAX_NAME_CHARS).collect(),
    }
}

/// What `/proc/PID/stat` says of a process.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    /// Neither ended nor a zombie.
    is_running: bool,
    parent: i32,
    group: i32,
    session: i32,
}

impl Stat {
    /// Source: proc(5), `/proc/pid/stat`; the second field is a name in parentheses that may itself hold any
    /// character.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let is_running = !matches!(fields.next()?, "Z" | "X");
        let mut number = || fields.next()?.parse().ok();
        Some(Self {
            is_running,
            parent: number()?,
            group: number()?,
            session: number()?,
        })
    }
}

/// The text, in which the name is not always UTF-8, and what it says.
fn stat(pid: i32) -> Option<(String, Stat)> {
    let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let stat = Stat::parse(&text)?;
    Some((text, stat))
}

/// Whether a process has [`CALL_VARIABLE`] in its environment, with a value that fits.
fn has_variable(pid: i32, fits: impl Fn(&[u8]) -> bool) -> bool {
    let name = format!("{CALL_VARIABLE}=");
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| {
        environ
            .split(|&byte| byte == 0)
            .filter_map(|entry| entry.strip_prefix(name.as_bytes()))
            .any(fits)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let expected = |is_running| {
            Some(Stat {
                is_running,
                parent: 1,
                group: 20,
                session: 30,
            })
        };
        assert_eq!(Stat::parse("7 (a) Z (b) S 1 20 30 0"), expected(true));
        assert_eq!(Stat::parse("7 (sh) Z 1 20 30 0"), expected(false));
        assert_eq!(Stat::parse("7 (sh"), None);
    }

    #[test]
    fn a_process_is_named_by_its_arguments_or_else_its_program() {
        let stat = "7 (my (prog)) S 1";
        assert_eq!(name(b"sleep\x00300\0", stat), "sleep 300");
        assert_eq!(name(b"bash\0-c\0a\nb\0", stat), "bash -c a b");
        assert_eq!(name(b"", stat), "my (prog)");
    }

    #[test]
    fn younger_is_told_across_the_wrap_of_numbers() {
        for (pid, leader, newest, expected) in [
            (101, 100, 120, true),
            (99, 100, 120, false),
            (100, 100, 120, false),
            (130, 100, 120, true),
            (32_000, 31_000, 400, true),
            (350, 31_000, 400, true),
            (500, 31_000, 400, false),
        ] {
            assert_eq!(is_younger(pid, leader, newest), expected, "{pid}");
        }
    }
}
