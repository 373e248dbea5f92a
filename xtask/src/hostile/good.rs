//! Well-behaved clients: one request at a time, with a limit on its latency.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::wire::{Op, Session, Ticket};

const CLIENTS: usize = 3;
const SESSION_TIMEOUT_MS: i32 = 20_000;
/// A request that takes this long has failed.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pause between two requests, so that good clients do not use up the machine themselves.
const PAUSE: Duration = Duration::from_millis(1);
/// A few are enough: a stopped server would cause thousands.
const ERRORS_MAX: usize = 3;

/// The latencies of requests, and the first errors.
#[derive(Debug, Default)]
pub struct Times {
    /// Of each request.
    pub times: Vec<Duration>,
    /// The first errors.
    pub errors: Vec<String>,
}

impl Times {
    /// The number of answered requests.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Adds the measurements of another turn.
    pub fn add(&mut self, other: Times) {
        self.times.extend(other.times);
        self.errors.extend(other.errors);
    }

    /// The latency that one request in a hundred exceeds.
    pub fn p99(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        let index = (times.len() * 99).div_ceil(100).max(1) - 1;
        times.get(index).copied().unwrap_or_default()
    }
}

/// A few clients, each with its own session and znode.
pub struct GoodClients {
    sessions: Vec<Session>,
}

impl GoodClients {
    /// Opens their sessions.
    pub fn open(address: &str) -> Result<GoodClients> {
        let mut sessions = Vec::new();
        for number in 0..CLIENTS {
            let ticket = Ticket::new(SESSION_TIMEOUT_MS);
            let opened = Session::open(address, &ticket, TIMEOUT)?;
            let mut session = opened.ok_or_else(|| anyhow::anyhow!("a new session was refused"))?;
            session.ok(&Op::create(&path(number), Some(b"good"), 0))?;
            sessions.push(session);
        }
        Ok(GoodClients { sessions })
    }

    /// Runs them for a while and measures.
    pub fn measure(&mut self, turn: Duration) -> Times {
        let deadline = Instant::now() + turn;
        let mut all = Times::default();
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..)
                .zip(&mut self.sessions)
                .map(|(number, session)| scope.spawn(move || work(session, number, deadline)))
                .collect();
            for worker in workers {
                all.add(worker.join().expect("a good client does not panic"));
            }
        });
        all
    }

    /// Keeps their sessions alive while nothing is measured.
    pub fn keep_alive(&mut self) -> Result<()> {
        for (number, session) in (0..).zip(&mut self.sessions) {
            session.ok(&Op::get_data(&path(number)))?;
        }
        Ok(())
    }
}

fn path(number: usize) -> String {
    format!("/good-{number}")
}

fn work(session: &mut Session, number: usize, deadline: Instant) -> Times {
    let path = path(number);
    let child = format!("{path}/child");
    let requests = [
        Op::get_data(&path),
        Op::set_data(&path, Some(&[7; 100]), -1),
        Op::create(&child, None, 0),
        Op::delete(&child, -1),
    ];
    let mut times = Times::default();
    // Complete rounds, so that the child is deleted at the end.
    while Instant::now() < deadline && times.errors.len() < ERRORS_MAX {
        for request in &requests {
            let begun = Instant::now();
            if let Err(error) = session.ok(request) {
                times.errors.push(format!("{:?}: {error:#}", request.kind()));
                return times;
            }
            times.times.push(begun.elapsed());
            std::thread::sleep(PAUSE);
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_in_a_hundred_may_be_slower() {
        let mut times = Times::default();
        assert_eq!(times.p99(), Duration::ZERO);
        times.times = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(times.p99(), Duration::from_millis(198));
    }
}
