//! Measures the latency of other clients during a part.
//!
//! In: servers, a number of connections, and the number of writes per second over all of them. Out: for any
//! interval, the latencies of the writes that were due in it. The times at which writes are due do not
//! depend on replies: an outage of a second shows as a second, not as one slow write. A lost connection is
//! not reopened, and its requests in flight count as lost.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use mio::{Events, Poll};

use super::link::{self, Link, Scratch};
use crate::wire::{Decoder, NODE_EXISTS, Op, Session};

const ROOT: &str = "/busy";
const SESSION_TIMEOUT_MS: i32 = 60_000;
const VALUE: [u8; 100] = [b'v'; 100];
/// Connections being opened at the same time.
const OPENING_MAX: usize = 100;
const OPEN_MAX: Duration = Duration::from_secs(60);
/// How long to wait for the last replies.
const DRAIN_MAX: Duration = Duration::from_secs(30);
/// Limit of writes without a reply; at this limit no more are sent.
const IN_FLIGHT_MAX: usize = 200_000;
const POLL_MAX: Duration = Duration::from_millis(50);
const EVENTS_AT_ONCE: usize = 1024;

/// How many clients, and how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Clients over all servers.
    pub connections: usize,
    /// Writes per second over all clients.
    pub per_second: u32,
}

/// The running clients, on a separate thread.
pub struct Busy {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Record>>,
}

impl Busy {
    /// Creates a znode for each client, connects them and starts the writes.
    pub fn start(addresses: &[String], shape: Shape) -> Result<Busy> {
        make_znodes(&addresses[0], shape.connections)?;
        let addresses: Vec<SocketAddr> =
            addresses.iter().map(|address| address.parse()).collect::<Result<_, _>>()?;
        let mut clients = Clients::open(&addresses, shape.connections)?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || clients.work(shape.per_second, &asked));
        Ok(Busy { stop, thread })
    }

    /// Stops sending, waits for the last replies, and returns the record.
    pub fn finish(self) -> Result<Record> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the busy clients panicked"))?
    }
}

/// The writes of all clients and their latencies.
pub struct Record {
    begun: Instant,
    /// When a write was due and its latency, both in microseconds.
    samples: Vec<(u64, u64)>,
    /// Writes without a reply.
    pub lost: usize,
    /// Why the first one was lost.
    pub first_loss: Option<String>,
}

/// The latencies of the writes in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WriteLatencies {
    /// Answered writes per second.
    pub per_second: f64,
    /// The median.
    pub p50_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The maximum.
    pub longest_ms: f64,
}

impl Record {
    /// The writes that were due in this interval.
    pub fn between(&self, from: Instant, to: Instant) -> WriteLatencies {
        let us = |moment: Instant| {
            let since = moment.saturating_duration_since(self.begun);
            u64::try_from(since.as_micros()).expect("a run takes less than 2^64 µs")
        };
        let (first, last) = (us(from), us(to));
        let due = self.samples.iter().filter(|(due, _)| (first..last).contains(due));
        let mut times: Vec<u64> = due.map(|(_, took)| *took).collect();
        times.sort_unstable();
        let ms = |part: f64| percentile(&times, part) as f64 / 1000.0;
        WriteLatencies {
            per_second: times.len() as f64 * 1e6 / (last - first).max(1) as f64,
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
            longest_ms: ms(1.0),
        }
    }

    /// Fails if a write was not answered.
    pub fn ensure_whole(&self) -> Result<()> {
        let why = self.first_loss.as_deref().unwrap_or_default();
        ensure!(
            self.lost == 0,
            "{} writes of the busy clients were not answered: {why}",
            self.lost
        );
        Ok(())
    }
}

/// The percentile of sorted numbers; 0 if there are none.
fn percentile(sorted: &[u64], part: f64) -> u64 {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

fn make_znodes(address: &str, count: usize) -> Result<()> {
    let mut session = Session::connect(address, SESSION_TIMEOUT_MS)?;
    let root = std::iter::once(ROOT.to_string());
    for path in root.chain((0..count).map(path)) {
        let reply = session.call(&Op::create(&path, Some(&VALUE), 0))?;
        ensure!([0, NODE_EXISTS].contains(&reply.err), "creating {path}: code {}", reply.err);
    }
    session.close()
}

fn path(client: usize) -> String {
    format!("{ROOT}/{client}")
}

struct Clients {
    poll: Poll,
    scratch: Scratch,
    clients: Vec<Client>,
    in_flight: usize,
    record: Record,
}

struct Client {
    /// `None` after the connection was lost.
    link: Option<Link>,
    is_open: bool,
    write: Vec<u8>,
    /// When each of its unanswered writes was due.
    due_us: VecDeque<u64>,
}

impl Clients {
    fn open(addresses: &[SocketAddr], count: usize) -> Result<Clients> {
        let record =
            Record { begun: Instant::now(), samples: Vec::new(), lost: 0, first_loss: None };
        let (poll, scratch) = (Poll::new()?, Scratch::new());
        let mut clients = Clients { poll, scratch, clients: Vec::new(), in_flight: 0, record };
        let deadline = Instant::now() + OPEN_MAX;
        for index in 0..count {
            let address = addresses[index % addresses.len()];
            let mut link = Link::dial(address, index, &clients.poll)?;
            link.send(&link::connect_request(SESSION_TIMEOUT_MS))?;
            let write = link::request(1, &Op::set_data(&path(index), Some(&VALUE), -1));
            let due_us = VecDeque::new();
            clients.clients.push(Client { link: Some(link), is_open: false, write, due_us });
            let is_last = index + 1 == count;
            while clients.opening() > if is_last { 0 } else { OPENING_MAX } {
                clients.turn(POLL_MAX)?;
                ensure!(Instant::now() < deadline, "the busy clients cannot connect");
            }
        }
        Ok(clients)
    }

    fn opening(&self) -> usize {
        self.clients.iter().filter(|client| !client.is_open).count()
    }

    fn work(&mut self, per_second: u32, stop: &AtomicBool) -> Result<Record> {
        self.record.begun = Instant::now();
        let us_between = 1e6 / f64::from(per_second);
        let (mut sent, mut due_us) = (0, 0.0);
        while !stop.load(Ordering::Relaxed) {
            let now_us = self.now_us();
            while due_us <= now_us as f64 && self.in_flight < IN_FLIGHT_MAX {
                self.send(sent % self.clients.len(), due_us as u64);
                sent += 1;
                due_us += us_between;
            }
            let pause = Duration::from_micros((due_us - now_us as f64).max(0.0) as u64);
            self.turn(pause.min(POLL_MAX))?;
        }
        let deadline = Instant::now() + DRAIN_MAX;
        while self.in_flight > 0 && Instant::now() < deadline {
            self.turn(POLL_MAX)?;
        }
        for index in 0..self.clients.len() {
            if !self.clients[index].due_us.is_empty() {
                self.lose(index, &anyhow!("no reply within {DRAIN_MAX:?}"));
            }
        }
        let empty =
            Record { begun: self.record.begun, samples: Vec::new(), lost: 0, first_loss: None };
        Ok(std::mem::replace(&mut self.record, empty))
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.record.begun.elapsed().as_micros())
            .expect("a run takes less than 2^64 µs")
    }

    fn send(&mut self, index: usize, due_us: u64) {
        let client = &mut self.clients[index];
        let Some(link) = &mut client.link else {
            self.record.lost += 1;
            return;
        };
        client.due_us.push_back(due_us);
        self.in_flight += 1;
        if let Err(error) = link.send(&client.write) {
            self.lose(index, &error.into());
        }
    }

    /// Gives up its connection.
    fn lose(&mut self, index: usize, why: &anyhow::Error) {
        let client = &mut self.clients[index];
        let lost = client.due_us.len();
        client.link = None;
        client.due_us.clear();
        self.in_flight -= lost;
        self.record.lost += lost.max(1);
        self.record.first_loss.get_or_insert_with(|| format!("client {index}: {why:#}"));
    }

    fn turn(&mut self, timeout: Duration) -> Result<()> {
        let mut events = Events::with_capacity(EVENTS_AT_ONCE);
        match self.poll.poll(&mut events, Some(timeout)) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return Ok(()),
            result => result.context("waiting for replies")?,
        }
        for event in &events {
            let index = event.token().0;
            if let Err(error) = self.receive(index) {
                self.lose(index, &error);
            }
        }
        Ok(())
    }

    fn receive(&mut self, index: usize) -> Result<()> {
        let now_us = self.now_us();
        let Clients { scratch, clients, in_flight, record, .. } = self;
        let Client { link, is_open, due_us, .. } = &mut clients[index];
        let Some(link) = link else { return Ok(()) };
        link.flush()?;
        link.receive(scratch, |frame| {
            let mut frame = Decoder::new(frame);
            if !*is_open {
                frame.take(4 + 4)?;
                ensure!(frame.long()? != 0, "the server refused the session");
                *is_open = true;
                return Ok(());
            }
            frame.take(4 + 8)?;
            let err = frame.int()?;
            ensure!(err == 0, "a write was answered with error code {err}");
            let due = due_us.pop_front().context("a reply without a request")?;
            record.samples.push((due, now_us.saturating_sub(due)));
            *in_flight -= 1;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writes_that_were_due_in_the_interval_count() {
        let begun = Instant::now();
        let samples = (0..200).map(|at| (at * 10_000, if at < 100 { 1000 } else { at * 1000 }));
        let record = Record { begun, samples: samples.collect(), lost: 0, first_loss: None };
        let second = Duration::from_secs(1);
        let quiet = record.between(begun, begun + second);
        assert_eq!((quiet.per_second, quiet.p99_ms, quiet.longest_ms), (100.0, 1.0, 1.0));
        let rough = record.between(begun + second, begun + 2 * second);
        assert_eq!((rough.p50_ms, rough.p99_ms, rough.longest_ms), (149.0, 198.0, 199.0));
        assert_eq!(
            record.between(begun + 5 * second, begun + 6 * second),
            WriteLatencies::default()
        );
        assert!(record.ensure_whole().is_ok());
    }
}
