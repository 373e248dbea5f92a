//! A counter that only a lock or an election protects.
//!
//! The holder reads the number and writes the next one, without a version, in a write that is fenced by the
//! holder's node. If two ever held at once from the servers' point of view, both would read the same number
//! and an addition would be lost. So the final number is at least that of the confirmed additions, and at
//! most those plus the ones with unknown outcome.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use herdsman_client::{Client, Fenced, Outcome};
use herdsman_recipes::Guard;
use tokio::time::sleep;

use super::Verdict;

/// The counts of one party.
#[derive(Clone, Copy, Default)]
struct Tally {
    confirmed: u64,
    unknown: u64,
    /// The holder had lost its node, or could not read the number.
    refused: u64,
    /// Could not become the holder.
    failed: u64,
    /// Read the number twice as a reader.
    read: u64,
    /// The number has changed in between.
    changed: u64,
}

/// One protected counter.
pub struct Counted {
    name: &'static str,
    path: String,
    line: String,
    /// The time between reading and writing, in which another holder would read the same number.
    pause: Duration,
    tallies: Mutex<BTreeMap<&'static str, Tally>>,
}

impl Counted {
    pub async fn new(judge: &Client, name: &'static str) -> Result<Self> {
        let path = format!("/long-run/{name}-counter");
        judge.create(&path, "0").parents().await?;
        let line = format!("/long-run/{name}");
        let (pause, tallies) = (Duration::ZERO, Mutex::default());
        Ok(Counted { name, path, line, pause, tallies })
    }

    /// The nodes of the holders are in this child of the protection.
    pub fn with_line(mut self, child: &str) -> Self {
        self.line = format!("{}/{child}", self.protection());
        self
    }

    /// Pauses before writing, where it takes long until the next one holds.
    pub fn with_pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// The directory with the nodes of the holders, of whom the first may add.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// The path of the lock or election that protects the counter.
    pub fn protection(&self) -> String {
        format!("/long-run/{}", self.name)
    }

    /// Adds one for a holder whose writes are fenced. Errors are expected.
    pub async fn add(&self, party: &'static str, fenced: &Fenced) {
        let added = async {
            let zk = fenced.client();
            zk.sync(&self.path).await?;
            let node = zk.get(&self.path).await?;
            let number: u64 = std::str::from_utf8(&node.data).unwrap_or("0").parse().unwrap_or(0);
            sleep(self.pause).await;
            fenced.set(&self.path, (number + 1).to_string()).await
        };
        match added.await {
            Ok(_) => self.note(party, |tally| tally.confirmed += 1),
            Err(error) if error.outcome() != Outcome::NotApplied => {
                self.note(party, |tally| tally.unknown += 1);
            }
            Err(_) => self.note(party, |tally| tally.refused += 1),
        }
    }

    /// Reads the number twice for a reader. No writer may change it while the reader's node exists, and if it
    /// exists afterwards, it has existed all the time.
    pub async fn read_twice(&self, party: &'static str, reader: &impl Guard) {
        let zk = reader.hold().client();
        let read = async {
            zk.sync(&self.path).await?;
            let first = zk.get(&self.path).await?.stat;
            sleep(Duration::from_millis(5)).await;
            let second = zk.get(&self.path).await?.stat;
            let is_held = zk.exists(reader.path()).await?.is_some();
            Ok::<_, herdsman_client::Error>((is_held, first.mzxid != second.mzxid))
        };
        let read = read.await;
        self.note(party, |tally| match read {
            Ok((true, has_changed)) => {
                tally.read += 1;
                tally.changed += u64::from(has_changed);
            }
            _ => tally.refused += 1,
        });
    }

    pub fn failed(&self, party: &'static str) {
        self.note(party, |tally| tally.failed += 1);
    }

    fn note(&self, party: &'static str, change: impl FnOnce(&mut Tally)) {
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        change(tallies.entry(party).or_default());
    }

    pub async fn verdict(&self, judge: &Client) -> Result<Verdict> {
        judge.sync(&self.path).await?;
        let data = judge.get(&self.path).await?.data;
        let number: u64 = std::str::from_utf8(&data)?.parse().context("the counter")?;
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let confirmed: u64 = tallies.values().map(|tally| tally.confirmed).sum();
        let unknown: u64 = tallies.values().map(|tally| tally.unknown).sum();
        let idle: Vec<_> = tallies
            .iter()
            .filter(|(_, tally)| tally.confirmed + tally.read == 0)
            .map(|(name, _)| *name)
            .collect();
        let changed: u64 = tallies.values().map(|tally| tally.changed).sum();
        let problem = if changed > 0 {
            Some(format!("the number has changed {changed} times under a reader"))
        } else if number < confirmed {
            Some(format!("{} additions are lost: two held at once", confirmed - number))
        } else if number > confirmed + unknown {
            Some(format!("{} additions too many", number - confirmed - unknown))
        } else if !idle.is_empty() {
            Some(format!("{} never held", idle.join(" and ")))
        } else {
            None
        };
        let parts = tallies.iter().map(|(name, tally)| {
            let Tally { confirmed, unknown, refused, failed, read, .. } = tally;
            let confirmed = if *read > 0 { *read } else { *confirmed };
            format!("{name} {confirmed} +{unknown} unknown, {refused} refused, {failed} failed")
        });
        let text = format!("{number} counted; {}", parts.collect::<Vec<_>>().join("; "));
        Ok(Verdict { name: self.name.to_owned(), text, problem })
    }
}
