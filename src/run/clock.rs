//! The only source of time and chance.

use std::sync::Arc;
use std::time::{Duration, Instant};

use time::OffsetDateTime;
use uuid::Uuid;

use crate::provider;

/// Time since the run began, by a steady clock, and the wall clock beside it.
#[derive(Clone, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where time comes from"
    )]
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// Since the run began.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// The wall clock, UTC.
    pub fn utc(&self) -> OffsetDateTime {
        OffsetDateTime::now_utc()
    }

    /// The point of tokio's clock at which this clock shows `at`.
    pub fn instant(&self, at: Duration) -> tokio::time::Instant {
        // A point too far away to express is a day away: by then the question is moot.
        let instant = self
            .start
            .checked_add(at)
            .unwrap_or(self.start + Duration::from_hours(24));
        tokio::time::Instant::from_std(instant)
    }

    /// This clock as `provider` takes it.
    pub fn for_provider(&self) -> provider::Clock {
        let clock = self.clone();
        provider::Clock {
            steady: Arc::new(move || clock.now()),
            wall: Arc::new(|| OffsetDateTime::now_utc().into()),
        }
    }

    /// A new id for an event.
    pub fn event_id(&self) -> Uuid {
        Uuid::new_v4()
    }

    /// A new id that sorts by time, for a run or a conversation.
    pub fn time_ordered_id(&self) -> Uuid {
        Uuid::now_v7()
    }
}
