//! Gives one znode very many children: several sessions, each with many creates in flight.
//!
//! `herdsman bench fill` creates trees, but spreads their znodes over many parents.

use std::ops::Range;

use anyhow::{Context, Result, ensure};

use super::VALUE_BYTES;
use crate::wire::{Op, Session};

const WRITERS: usize = 4;
const IN_FLIGHT_MAX: usize = 256;
const SESSION_TIMEOUT_MS: i32 = 40_000;

/// Creates a znode with this many children.
pub fn children(address: &str, parent: &str, count: usize) -> Result<()> {
    let mut session = Session::connect(address, SESSION_TIMEOUT_MS)?;
    session.ok(&Op::create(parent, None, 0))?;
    session.close()?;
    std::thread::scope(|scope| {
        let share = |writer: usize| count * writer / WRITERS..count * (writer + 1) / WRITERS;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(address, parent, share(writer))))
            .collect();
        writers.into_iter().try_for_each(|writer| {
            writer.join().map_err(|_| anyhow::anyhow!("a writer panicked"))?
        })
    })
    .with_context(|| format!("filling {parent} with {count} children"))
}

/// The name of a znode.
pub fn name(index: usize) -> String {
    format!("n{index:07}")
}

/// Sends all requests, many at a time; all replies must have this error code, 0 for success.
pub fn pipeline(session: &mut Session, err: i32, ops: impl Iterator<Item = Op>) -> Result<()> {
    let mut in_flight = 0;
    for op in ops {
        if in_flight == IN_FLIGHT_MAX {
            receive(session, err)?;
            in_flight -= 1;
        }
        session.send(&op)?;
        in_flight += 1;
    }
    (0..in_flight).try_for_each(|_| receive(session, err))
}

fn receive(session: &mut Session, err: i32) -> Result<()> {
    let reply = session.receive()?;
    ensure!(reply.err == err, "error code {} where {err} was expected", reply.err);
    Ok(())
}

fn write(address: &str, parent: &str, share: Range<usize>) -> Result<()> {
    let mut session = Session::connect(address, SESSION_TIMEOUT_MS)?;
    let value = [b'v'; VALUE_BYTES];
    let path = |index| format!("{parent}/{}", name(index));
    pipeline(&mut session, 0, share.map(|index| Op::create(&path(index), Some(&value), 0)))?;
    session.close()
}
