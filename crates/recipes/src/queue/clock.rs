//! The servers' clock, as far as a client can know it.
//!
//! A server stamps every write with its leader's time, so one write (of a receipt only) yields the time; from then on
//! this process's clock, which only has to run at the right speed, measures how much time has passed. It is measured
//! from the arrival of the reply, so the result is late by at most the time of the reply's transmission, and never
//! early. The time is read again every minute, because leaders change and their clocks differ.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::receipts::Receipts;
use crate::error::{Error, Result};

const LEARN_AGAIN_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct ServerClock {
    receipts: Arc<Receipts>,
    learned: Mutex<Option<Learned>>,
}

#[derive(Clone, Copy, Debug)]
struct Learned {
    server_ms: i64,
    at: Instant,
}

impl ServerClock {
    pub(super) fn new(receipts: Arc<Receipts>) -> Self {
        ServerClock { receipts, learned: Mutex::default() }
    }

    /// Returns milliseconds since 1970 on the servers' clock.
    pub(super) async fn now_ms(&self) -> Result<i64> {
        let known = *self.learned.lock();
        let learned = match known {
            Some(learned) if learned.at.elapsed() < LEARN_AGAIN_AFTER => learned,
            _ => self.learn().await?,
        };
        let elapsed_ms = i64::try_from(learned.at.elapsed().as_millis()).unwrap_or(i64::MAX);
        Ok(learned.server_ms.saturating_add(elapsed_ms))
    }

    async fn learn(&self) -> Result<Learned> {
        loop {
            // If the reply was lost, so was the time stamp.
            if let Some(server_ms) = self.receipts.commit(&[]).await.map_err(Error::from)? {
                let learned = Learned { server_ms, at: Instant::now() };
                *self.learned.lock() = Some(learned);
                return Ok(learned);
            }
        }
    }
}
