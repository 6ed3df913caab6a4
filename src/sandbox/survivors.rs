//! What a program started and left running.
//!
//! Found in `/proc` by session and, for what has left the session, by a variable in its environment.
//! What both leaves its session and clears its environment is not found.

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

/// The processes that `leader`, a session leader whose number is still taken (not yet waited for), has
/// started and that still run, itself left out; `call` is the value of [`CALL_VARIABLE`].
pub(super) fn survivors(leader: Pid, call: &str) -> Vec<Survivor> {
    // In a process namespace with somebody else's /proc the numbers there mean nothing to us.
    let own = getpid().as_raw_nonzero().get().to_string();
    if fs::read_link("/proc/self").ok().as_deref() != Some(Path::new(&own)) {
        return Vec::new();
    }
    let (Some(newest), Ok(entries)) = (newest_pid(), fs::read_dir("/proc")) else {
        return Vec::new();
    };
    let leader = leader.as_raw_nonzero().get();
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|&pid| is_younger(pid, leader, newest))
        .filter_map(|pid| survivor(pid, leader, call))
        .collect()
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

fn survivor(pid: i32, leader: i32, call: &str) -> Option<Survivor> {
    // Opened before looking, so that what is looked at is what will be signalled.
    let pidfd = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (is_running, group, session) = parse_stat(&stat)?;
    if !is_running || !(session == leader || has_variable(pid, call)) {
        return None;
    }
    let command_line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    Some(Survivor {
        pidfd,
        is_in_group: group == leader,
        name: format!("{} (process {pid})", name(&command_line, &stat)),
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

/// Whether it runs (is no zombie), its process group and its session. Source: proc(5), `/proc/pid/stat`;
/// the second field is a name in parentheses that may itself hold any character.
fn parse_stat(stat: &str) -> Option<(bool, i32, i32)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let is_running = !matches!(fields.next()?, "Z" | "X");
    let _parent = fields.next()?;
    Some((
        is_running,
        fields.next()?.parse().ok()?,
        fields.next()?.parse().ok()?,
    ))
}

fn has_variable(pid: i32, call: &str) -> bool {
    let variable = format!("{CALL_VARIABLE}={call}");
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| {
        environ
            .split(|&byte| byte == 0)
            .any(|entry| entry == variable.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        assert_eq!(parse_stat("7 (a) Z (b) S 1 20 30 0"), Some((true, 20, 30)));
        assert_eq!(parse_stat("7 (sh) Z 1 20 30 0"), Some((false, 20, 30)));
        assert_eq!(parse_stat("7 (sh"), None);
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
