//! The first signal ends the run in order, the second at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::sandbox::end_children;

/// A signal that ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndingSignal {
    /// Such as `SIGTERM`.
    pub name: &'static str,
    /// 128 and the signal's number.
    pub exit_code: u8,
}

const SIGINT: EndingSignal = EndingSignal {
    name: "SIGINT",
    exit_code: 130,
};
const SIGTERM: EndingSignal = EndingSignal {
    name: "SIGTERM",
    exit_code: 143,
};
const SIGHUP: EndingSignal = EndingSignal {
    name: "SIGHUP",
    exit_code: 129,
};

/// Listens from now on. The receiver shows the first signal that came.
pub fn listen() -> std::io::Result<watch::Receiver<Option<EndingSignal>>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let (first, ended) = watch::channel(None);
    tokio::spawn(async move {
        loop {
            let received = tokio::select! {
                Some(()) = interrupt.recv() => SIGINT,
                Some(()) = terminate.recv() => SIGTERM,
                Some(()) = hangup.recv() => SIGHUP,
                else => return,
            };
            // Nobody listening means that there is nothing left to end in order.
            if first.borrow().is_some() || first.receiver_count() == 0 {
                leave_at_once(received);
            }
            first.send_replace(Some(received));
        }
    });
    Ok(ended)
}

/// Waits for the first signal; for ever when none comes.
pub(super) async fn first(signal: &mut watch::Receiver<Option<EndingSignal>>) -> EndingSignal {
    let received = signal
        .wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|signal| *signal);
    match received {
        Some(signal) => signal,
        // Whoever listened is gone: no signal will come.
        None => std::future::pending().await,
    }
}

/// What is on disk by now is all there will be: transcripts are written as things happen. But nothing that
/// was started goes on when nobody watches it any more.
#[expect(clippy::exit, reason = "a second signal asks not to wait for anything")]
fn leave_at_once(signal: EndingSignal) -> ! {
    end_children();
    std::process::exit(i32::from(signal.exit_code))
}
