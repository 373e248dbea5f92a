//! Lanes shared out to threads: each thread drives its own with a load of its own, in the same window.
//!
//! One thread is the rule. It answers for more than a server of a few cores can do, and it does not take a
//! second core from a server on the same machine.

use std::io;
use std::thread;

use anyhow::{Context as _, Result};

use crate::closed_loop::{Drive, drive};
use crate::lane::Lane;
use crate::load::Load;
use crate::tally::Tally;

/// Which thread's share of the numbers: every `of`th, beginning with `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) index: u32,
    pub(crate) of: u32,
}

impl Part {
    /// All of them.
    pub(crate) const WHOLE: Part = Part { index: 0, of: 1 };

    pub(crate) fn first(self) -> u32 {
        self.index
    }

    pub(crate) fn after(self, number: u32) -> u32 {
        number.saturating_add(self.of)
    }
}

/// Drives lanes on one thread for each load, and adds up what they count. The lanes that still work, and the
/// loads, come back.
pub(crate) fn drive_all<L: Load + Send>(
    lanes: &mut Vec<Lane>,
    mut loads: Vec<L>,
    how: Drive<'_>,
) -> Result<(Vec<L>, Tally)> {
    let mut shares = share_out(std::mem::take(lanes), loads.len());
    let results: Vec<io::Result<Tally>> = if let ([load], [share]) =
        (&mut loads[..], &mut shares[..])
    {
        vec![drive(share, load, how)]
    } else {
        thread::scope(|scope| {
            let work = loads.iter_mut().zip(&mut shares);
            let threads: Vec<_> =
                work.map(|(load, share)| scope.spawn(move || drive(share, load, how))).collect();
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

/// Deals lanes out, so that each share has servers and lanes like the others.
fn share_out(lanes: Vec<Lane>, shares: usize) -> Vec<Vec<Lane>> {
    let mut dealt: Vec<Vec<Lane>> = (0..shares).map(|_| Vec::new()).collect();
    for (index, lane) in lanes.into_iter().enumerate() {
        dealt[index % shares].push(lane);
    }
    dealt
}
