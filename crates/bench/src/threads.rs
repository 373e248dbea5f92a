//! Distributes lanes over threads: each thread drives its own lanes with its own load, in the same window.
//!
//! One thread is the default. It generates more load than a server with a few cores can handle, and it does not
//! take a second core from a server on the same machine.

use std::io;
use std::thread;

use anyhow::{Context as _, Result};

use crate::closed_loop::{DriveOptions, drive};
use crate::lane::Lane;
use crate::load::Load;
use crate::tally::Tally;

/// The share of a thread in numbers: every `of`th, beginning with `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadShare {
    pub(crate) index: u32,
    pub(crate) of: u32,
}

impl ThreadShare {
    /// All numbers.
    pub(crate) const WHOLE: ThreadShare = ThreadShare { index: 0, of: 1 };

    pub(crate) fn first(self) -> u32 {
        self.index
    }

    pub(crate) fn after(self, number: u32) -> u32 {
        number.saturating_add(self.of)
    }
}

/// Drives lanes on one thread for each load, and adds up the counts. Returns the loads; `lanes` contains the lanes
/// that still work.
pub(crate) fn drive_all<L: Load + Send>(
    lanes: &mut Vec<Lane>,
    mut loads: Vec<L>,
    options: DriveOptions<'_>,
) -> Result<(Vec<L>, Tally)> {
    let mut shares = share_out(std::mem::take(lanes), loads.len());
    let results: Vec<io::Result<Tally>> =
        if let ([load], [share]) = (&mut loads[..], &mut shares[..]) {
            vec![drive(share, load, options)]
        } else {
            thread::scope(|scope| {
                let work = loads.iter_mut().zip(&mut shares);
                let threads: Vec<_> = work
                    .map(|(load, share)| scope.spawn(move || drive(share, load, options)))
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap_or_else(|_| Err(died())))
                    .collect()
            })
        };
    lanes.extend(shares.into_iter().flatten());
    let mut sum = Tally::new();
    for result in results {
        sum.merge(result.context("driving connections")?);
    }
    Ok((loads, sum))
}

fn died() -> io::Error {
    io::Error::other("a thread of the load generator panicked")
}

/// Distributes lanes evenly, so that each share has the same mix of servers.
fn share_out(lanes: Vec<Lane>, shares: usize) -> Vec<Vec<Lane>> {
    let mut dealt: Vec<Vec<Lane>> = (0..shares).map(|_| Vec::new()).collect();
    for (index, lane) in lanes.into_iter().enumerate() {
        dealt[index % shares].push(lane);
    }
    dealt
}
