//! Ports for the servers of a test, not used by any other process of this program at the same time.
//!
//! A process takes ports from blocks, and keeps a file locked for each of its blocks until it ends: a port
//! that was free a moment ago could otherwise be assigned to a step that runs in parallel. The ports are
//! below the range that the system uses for outgoing connections, and outside of the one that
//! `herdsman-testing` uses.

use std::fs::{self, File, OpenOptions};
use std::net::TcpListener;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};

const PORTS: Range<u16> = 20_000..30_000;
const BLOCK: u16 = 100;

/// The current block, and the first of its ports that was not assigned yet.
struct Block {
    ports: Range<u16>,
    /// Its lock; used-up blocks stay locked, because their servers may still be running.
    _lock: File,
}

/// Returns the first of this many adjacent ports on which nothing listens. Each port is returned once.
pub fn free_ports(count: u16) -> Result<u16> {
    static BLOCKS: Mutex<Vec<Block>> = Mutex::new(Vec::new());
    ensure!(count <= BLOCK, "at most {BLOCK} ports at once");
    let mut blocks = BLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(block) = blocks.last_mut() {
            while block.ports.len() >= usize::from(count) {
                let first = block.ports.start;
                block.ports.start += count;
                if (first..first + count).all(is_free) {
                    return Ok(first);
                }
            }
        }
        blocks.push(next_block()?);
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// A block that no process uses.
fn next_block() -> Result<Block> {
    let user = rustix::process::getuid().as_raw();
    let dir = std::env::temp_dir().join(format!("herdsman-ports-{user}"));
    fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    for start in PORTS.step_by(usize::from(BLOCK)) {
        let path = dir.join(start.to_string());
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.with_context(|| format!("opening {}", path.display()))?;
        if lock.try_lock().is_ok() {
            return Ok(Block { ports: start..start + BLOCK, _lock: lock });
        }
    }
    bail!("all ports from {} to {} are in use by other tests", PORTS.start, PORTS.end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_returned_twice() {
        let mut all = Vec::new();
        for _ in 0..60 {
            let first = free_ports(5).unwrap();
            all.extend(first..first + 5);
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn too_many_ports_are_rejected() {
        assert!(free_ports(BLOCK + 1).is_err());
    }
}
