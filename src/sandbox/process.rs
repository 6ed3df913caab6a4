//! Running one program to its end, whatever it does.
//!
//! The program leads a session of its own, without a terminal and with an empty standard input. Both of
//! its outputs are one pipe, so their order is true. Its end is that of the program, not of the pipe: what
//! it left running may hold the pipe for as long as it likes, and is ended too. The program's first process
//! dies with the runner, however that dies.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, kill_process_group, pidfd_open,
    set_parent_process_death_signal, setsid,
};

use super::cancel::Cancel;
use super::capture::{Capture, Captured, OutputCap};
use super::survivors::{CALL_VARIABLE, Survivor, runner_mark, survivors};

/// After the program's end, for what still writes: `> >(tee log)` is done a moment after its shell.
const DRAIN_GRACE: Duration = Duration::from_millis(250);

/// Between TERM and KILL. A signal to the runner leaves 5 s for everything, reports included.
const TERM_GRACE: Duration = Duration::from_secs(1);

/// How long to wait for what was killed; only a process stuck in the kernel takes longer.
const KILL_GRACE: Duration = Duration::from_secs(1);

/// What is read at once: the usual size of a pipe.
const CHUNK_BYTES: usize = 64 * 1024;

/// A program to run.
#[derive(Clone, Debug)]
pub struct ProcessSpec {
    /// Its path, or a name looked up in the PATH of `env`: a name only where the job file may choose.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Where it runs; an existing directory.
    pub cwd: PathBuf,
    /// Its whole environment.
    pub env: BTreeMap<OsString, OsString>,
    /// Ended after this.
    pub timeout: Duration,
    /// How much of its output is kept.
    pub output_cap: OutputCap,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal, which did not come from here.
    Signalled(i32),
    /// Its time was up.
    TimedOut,
    /// [`Cancel`] was set.
    Cancelled,
}

/// A program that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How.
    pub ending: Ending,
    /// What it wrote to standard output and standard error, in the order in which it did.
    pub output: Captured,
    /// From start to end, what came after it included.
    pub duration: Duration,
    /// What it had left running when it ended by itself and what was ended then: command lines with
    /// process numbers.
    pub left_running: Vec<String>,
}

/// Runs a program until it ends, its time is up, or `cancel` is set; then ends everything it started
/// (TERM, a second later KILL) and returns.
///
/// Blocking; returns within a few seconds of the end in every case. Memory is bounded by
/// [`ProcessSpec::output_cap`]. An error means that the program could not be started.
pub fn run(spec: &ProcessSpec, cancel: &Cancel) -> io::Result<Finished> {
    let started = now();
    let mut running = Running::start(spec)?;
    let cause = running.watch(started.checked_add(spec.timeout), cancel)?;
    let left = match cause {
        Cause::Exited => running.drain()?,
        Cause::TimedOut | Cause::Cancelled => running.survivors(),
    };
    let left_running = match cause {
        Cause::Exited => left.iter().map(|survivor| survivor.name.clone()).collect(),
        Cause::TimedOut | Cause::Cancelled => Vec::new(),
    };
    running.end_everything(left)?;
    let ending = match (cause, running.reap()?) {
        (Cause::TimedOut, _) => Ending::TimedOut,
        (Cause::Cancelled, _) => Ending::Cancelled,
        (Cause::Exited, status) => ending_of(status),
    };
    Ok(Finished {
        ending,
        output: running.take_output(),
        duration: now().duration_since(started),
        left_running,
    })
}

fn ending_of(status: Option<ExitStatus>) -> Ending {
    // None: killed, and yet stuck in the kernel.
    let Some(status) = status else {
        return Ending::Signalled(Signal::KILL.as_raw());
    };
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Signalled(signal.unwrap_or_default()),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "deadlines of a process are in real time and enter no conversation but as its result"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

enum Cause {
    Exited,
    TimedOut,
    Cancelled,
}

/// What a wait was woken by.
#[derive(PartialEq, Eq)]
enum Woken {
    Output,
    Exit,
    Cancel,
    Nothing,
}

/// A program that has been started. Dropped early, it is killed.
struct Running {
    child: Child,
    leader: Pid,
    pidfd: OwnedFd,
    /// `None` once nobody holds its other end.
    pipe: Option<OwnedFd>,
    capture: Capture,
    chunk: Vec<u8>,
    call: String,
    is_reaped: bool,
}

impl Running {
    fn start(spec: &ProcessSpec) -> io::Result<Self> {
        // Unique on the machine as long as the runner lives.
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let number = CALLS.fetch_add(1, Ordering::Relaxed);
        let call = format!("{}{number}", runner_mark());

        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&reader, OFlags::NONBLOCK)?;
        let mut child = spawn(spec, &call, writer)?;
        let leader = Pid::from_child(&child);
        let pidfd = match pidfd_open(leader, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(errno) => {
                let _ = kill_process_group(leader, Signal::KILL);
                child.wait()?;
                return Err(errno.into());
            }
        };
        Ok(Self {
            child,
            leader,
            pidfd,
            pipe: Some(reader),
            capture: Capture::new(spec.output_cap),
            chunk: vec![0; CHUNK_BYTES],
            call,
            is_reaped: false,
        })
    }

    /// Takes in output until the program ends, its time is up or somebody cancels.
    fn watch(&mut self, deadline: Option<Instant>, cancel: &Cancel) -> io::Result<Cause> {
        loop {
            match self.wait(deadline, true, Some(cancel))? {
                Woken::Exit => return Ok(Cause::Exited),
                Woken::Cancel => return Ok(Cause::Cancelled),
                Woken::Output | Woken::Nothing => {}
            }
            if deadline.is_some_and(|deadline| now() >= deadline) {
                return Ok(Cause::TimedOut);
            }
        }
    }

    /// Takes in what was written before the program ended; when something it started still runs and
    /// holds the pipe, waits a moment for that too. Returns what still runs then.
    fn drain(&mut self) -> io::Result<Vec<Survivor>> {
        self.read_what_is_there()?;
        let left = self.survivors();
        if self.pipe.is_none() || left.is_empty() {
            return Ok(left);
        }
        let until = now() + DRAIN_GRACE;
        while self.pipe.is_some() && now() < until {
            self.wait(Some(until), false, None)?;
        }
        Ok(self.survivors())
    }

    /// Ends the program, if it still runs, and everything it started, of which `left` is known; then
    /// takes in what they wrote last.
    fn end_everything(&mut self, left: Vec<Survivor>) -> io::Result<()> {
        if !left.is_empty() || !self.has_exited() {
            self.end_all(left)?;
        }
        self.read_what_is_there()
    }

    fn end_all(&mut self, mut left: Vec<Survivor>) -> io::Result<()> {
        self.signal_all(&left, Signal::TERM);
        self.wait_for_end_of(&mut left, now() + TERM_GRACE)?;
        // Again and again, for it may fork while it is being killed; not for ever, for it may be stuck.
        let until = now() + KILL_GRACE;
        while now() < until {
            left = self.survivors();
            if left.is_empty() && self.has_exited() {
                break;
            }
            self.signal_all(&left, Signal::KILL);
            self.wait_for_end_of(&mut left, until)?;
        }
        Ok(())
    }

    /// Takes in all that was written until now; not for ever, should somebody go on writing.
    fn read_what_is_there(&mut self) -> io::Result<()> {
        let until = now() + DRAIN_GRACE;
        while now() < until && self.read_chunk()? {}
        Ok(())
    }

    fn survivors(&self) -> Vec<Survivor> {
        survivors(self.leader, &self.call)
    }

    /// Signals the process group at once, and one by one what has left it. The leader has not been
    /// waited for, so the group's number cannot be another's.
    fn signal_all(&self, left: &[Survivor], signal: Signal) {
        let _ = kill_process_group(self.leader, signal);
        for survivor in left.iter().filter(|survivor| !survivor.is_in_group) {
            survivor.signal(signal);
        }
    }

    fn wait_for_end_of(&mut self, left: &mut Vec<Survivor>, until: Instant) -> io::Result<()> {
        while now() < until {
            left.retain(|survivor| !is_readable(&survivor.pidfd));
            if left.is_empty() && self.has_exited() {
                return Ok(());
            }
            // A list of any length is not polled as a whole: each in turn, for a short while.
            let slice = (now() + Duration::from_millis(20)).min(until);
            match left.first() {
                Some(survivor) => wait_readable(&survivor.pidfd, slice)?,
                None => wait_readable(&self.pidfd, slice)?,
            }
            let until = now() + Duration::from_millis(20);
            while now() < until && self.read_chunk()? {}
        }
        Ok(())
    }

    fn has_exited(&self) -> bool {
        is_readable(&self.pidfd)
    }

    /// Waits for output, and for the program's end and for `cancel` where wanted, and takes in a chunk.
    fn wait(
        &mut self,
        until: Option<Instant>,
        for_exit: bool,
        cancel: Option<&Cancel>,
    ) -> io::Result<Woken> {
        let mut fds = Vec::with_capacity(3);
        let mut what = Vec::with_capacity(3);
        if let Some(cancel) = cancel {
            fds.push(PollFd::new(cancel, PollFlags::IN));
            what.push(Woken::Cancel);
        }
        if for_exit {
            fds.push(PollFd::new(&self.pidfd, PollFlags::IN));
            what.push(Woken::Exit);
        }
        if let Some(pipe) = &self.pipe {
            fds.push(PollFd::new(pipe, PollFlags::IN));
            what.push(Woken::Output);
        }
        poll_until(&mut fds, until)?;
        // The first one counts: a flood of output hides neither the end nor the cancellation.
        let ready = fds.iter().position(|fd| !fd.revents().is_empty());
        let woken = ready.map_or(Woken::Nothing, |index| what.swap_remove(index));
        if woken == Woken::Output {
            self.read_chunk()?;
        }
        Ok(woken)
    }

    /// Takes in what is there, at most a chunk. False when there is nothing, now or for good.
    fn read_chunk(&mut self) -> io::Result<bool> {
        let Some(pipe) = &self.pipe else {
            return Ok(false);
        };
        match rustix::io::read(pipe, &mut self.chunk[..]) {
            Ok(0) => {
                self.pipe = None;
                Ok(false)
            }
            Ok(length) => {
                self.capture.push(&self.chunk[..length]);
                Ok(true)
            }
            Err(Errno::INTR) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The program's status; `None` when it cannot be had, for it is stuck in the kernel.
    fn reap(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        self.is_reaped = status.is_some();
        Ok(status)
    }

    fn take_output(&mut self) -> Captured {
        let none = OutputCap { head: 0, tail: 0 };
        std::mem::replace(&mut self.capture, Capture::new(none)).finish()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_reaped {
            let _ = kill_process_group(self.leader, Signal::KILL);
            let _ = wait_readable(&self.pidfd, now() + KILL_GRACE);
            let _ = self.child.try_wait();
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the place that the others are sent to"
)]
fn spawn(spec: &ProcessSpec, call: &str, writer: OwnedFd) -> io::Result<Child> {
    let mut command = Command::new(&spec.program);
    command
        .args(&spec.args)
        .current_dir(&spec.cwd)
        .env_clear()
        .envs(&spec.env)
        .env(CALL_VARIABLE, call)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let runner = getpid();
    let prepare = move || {
        setsid()?;
        // Sent at the end of the thread that forked, not of the process (PR_SET_PDEATHSIG(2const)): that
        // thread waits in `run` for as long as the program lives.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(runner) {
            // It died before the line above: nobody is left to die.
            return Err(Errno::SRCH.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made; nothing is allocated, no lock is taken:
    // turning an errno into an io::Error does neither.
    #[expect(
        unsafe_code,
        reason = "a session of its own and a signal at the runner's end cannot be had from std otherwise"
    )]
    unsafe {
        command.pre_exec(prepare);
    }
    // The command, and with it our copies of the pipe's writing end, is dropped on return.
    command.spawn()
}

fn is_readable(fd: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

pub(super) fn wait_readable(fd: impl AsFd, until: Instant) -> io::Result<()> {
    poll_until(&mut [PollFd::new(&fd, PollFlags::IN)], Some(until))
}

/// Polls, also across signals; without `until` for ever.
fn poll_until(fds: &mut [PollFd<'_>], until: Option<Instant>) -> io::Result<()> {
    loop {
        let timeout = until.map(|until| {
            let left = until.saturating_duration_since(now());
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        match poll(fds, timeout.as_ref()) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn bash(script: &str, timeout: Duration) -> ProcessSpec {
        ProcessSpec {
            program: "bash".into(),
            args: vec!["-c".into(), script.into()],
            cwd: "/".into(),
            env: BTreeMap::from([("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())]),
            timeout,
            output_cap: OutputCap {
                head: 1000,
                tail: 100,
            },
        }
    }

    fn run_bash(script: &str, timeout: Duration) -> Finished {
        run(&bash(script, timeout), &Cancel::new().unwrap()).unwrap()
    }

    fn text(finished: &Finished) -> String {
        String::from_utf8(finished.output.head.clone()).unwrap()
    }

    const LONG: Duration = Duration::from_secs(100);

    /// Whether a process runs (is neither gone nor a zombie that nobody waits for).
    fn is_running(pid: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn output_comes_in_true_order_with_the_exit_status() {
        let finished = run_bash("echo a; echo b >&2; echo c; exit 7", LONG);
        assert_eq!(
            (finished.ending, text(&finished).as_str()),
            (Ending::Exited(7), "a\nb\nc\n")
        );
        assert_eq!(finished.output.total, 6);
        assert_eq!(finished.left_running, Vec::<String>::new());
    }

    #[test]
    fn a_signal_is_not_an_exit_status() {
        assert_eq!(run_bash("kill -9 $$", LONG).ending, Ending::Signalled(9));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let mut spec = bash("", LONG);
        spec.program = "no-such-program".into();
        let error = run(&spec, &Cancel::new().unwrap()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn g02_a_background_child_that_keeps_the_pipe_is_not_waited_for() {
        for script in [
            "sleep 300 & echo started $!",
            "sleep 300 >/dev/null & echo started $!",
            "sleep 300 >/dev/null 2>&1 & echo started $!",
            "set -m; sleep 300 & echo started $!",
            "setsid sleep 300 & echo started $!",
        ] {
            let finished = run_bash(script, LONG);
            assert_eq!(finished.ending, Ending::Exited(0), "{script}");
            assert!(finished.duration < Duration::from_secs(2), "{finished:?}");
            let text = text(&finished);
            let pid = text.strip_prefix("started ").unwrap().trim();
            // Its name is that of the shell until it has become another program.
            let left: Vec<bool> = finished
                .left_running
                .iter()
                .map(|name| name.ends_with(&format!(" (process {pid})")))
                .collect();
            assert_eq!(left, [true], "{script}: {:?}", finished.left_running);
            assert!(!is_running(pid), "{script}");
        }
    }

    #[test]
    fn what_a_process_substitution_writes_late_is_kept() {
        let finished = run_bash("echo hi > >(cat)", LONG);
        assert_eq!(text(&finished), "hi\n");
    }

    #[test]
    fn g03_the_time_limit_reaches_the_whole_tree() {
        let script = r#"trap "" TERM; (sleep 300) & echo $!; sleep 300"#;
        let finished = run_bash(script, Duration::from_millis(300));
        assert_eq!(finished.ending, Ending::TimedOut);
        assert!(finished.duration < Duration::from_secs(4), "{finished:?}");
        let text = text(&finished);
        assert!(!text.is_empty() && !is_running(&text), "{text}");
    }

    #[test]
    fn what_heeds_term_is_not_waited_for_until_kill() {
        let finished = run_bash("echo a; sleep 300", Duration::from_millis(100));
        assert_eq!(
            (finished.ending, text(&finished).as_str()),
            (Ending::TimedOut, "a\n")
        );
        assert!(finished.duration < TERM_GRACE, "{finished:?}");
    }

    #[test]
    fn cancelling_ends_it() {
        let dir = tempfile::tempdir().unwrap();
        let ready = dir.path().join("ready");
        let path = ready.display();
        let script = format!("mkfifo {path}; echo $$; echo >{path}; sleep 300");
        let cancel = Cancel::new().unwrap();
        let runner = std::thread::spawn({
            let (spec, cancel) = (bash(&script, LONG), cancel.clone());
            move || run(&spec, &cancel).unwrap()
        });
        while fs::read(&ready).is_err() {
            std::thread::yield_now();
        }
        cancel.set();
        let finished = runner.join().unwrap();
        assert_eq!(finished.ending, Ending::Cancelled);
        assert!(!is_running(&text(&finished)));
    }

    #[test]
    fn g04_there_is_no_terminal_and_no_input() {
        let script = r#"
            read x; echo "read: $?"
            read x </dev/tty && echo terminal
            read -r _ _ _ _ _ session _ </proc/$$/stat; [ "$session" = $$ ] && echo leader
            exit 0"#;
        let finished = run_bash(script, LONG);
        let text = text(&finished);
        assert!(text.starts_with("read: 1\n"), "{text}");
        assert!(text.ends_with("leader\n"), "{text}");
        assert!(!text.contains("terminal"), "{text}");
    }

    #[test]
    fn g42_of_a_flood_head_and_tail_are_kept() {
        let finished = run_bash("yes | head -c 60000000; echo LAST-LINE; exit 3", LONG);
        assert_eq!(finished.ending, Ending::Exited(3));
        assert_eq!(finished.output.total, 60_000_010);
        assert_eq!(
            (finished.output.head.len(), finished.output.tail.len()),
            (1000, 100)
        );
        assert!(finished.output.tail.ends_with(b"LAST-LINE\n"));
    }

    #[test]
    fn the_environment_is_the_given_one() {
        let mut spec = bash("", LONG);
        (spec.program, spec.args) = ("env".into(), Vec::new());
        let finished = run(&spec, &Cancel::new().unwrap()).unwrap();
        let text = text(&finished);
        let mut names: Vec<&str> = text
            .lines()
            .filter_map(|line| Some(line.split_once('=')?.0))
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["LIGHTSOUT_CALL", "PATH"]);
    }
}
