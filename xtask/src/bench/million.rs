//! The cost of a tree with a million znodes: memory, a restart after `kill -9`, and the gap in replies
//! while a snapshot is written.
//!
//! Each program is measured alone: the other server would take memory, and its snapshots disk bandwidth.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::VALUE_BYTES;
use super::generator::{self, Load, Znodes};
use super::lab::{FILL_ROOT, Lab, PROGRAMS, spec, target, target_name};
use super::raw::{LIMIT, Measured};
use crate::server::{Program, Spec};
use crate::wire::{Op, Session, Ticket};

/// After a fill, a server may still write a snapshot.
const SETTLE: Duration = Duration::from_secs(5);
const RESTART_MAX: Duration = Duration::from_secs(600);
const CONNECT_INTERVAL: Duration = Duration::from_millis(5);
const ANSWER_MAX: Duration = Duration::from_secs(1);
const SESSION_TIMEOUT_MS: i32 = 30_000;
/// The length of the names that the load generator gives to its znodes.
const NAME_BYTES: usize = 8;
/// More changes than any load makes.
const NEVER: usize = 1_000_000_000;
const CONNECTIONS: usize = 64;
const DEPTH: usize = 16;

/// The memory of a process before and after it is filled.
pub fn memory(lab: &mut Lab) -> Result<Measured> {
    let mut measured = Measured::default();
    let znodes = lab.scale.znodes;
    for program in PROGRAMS {
        let dir = lab.filled_dir(program)?;
        let server = spec(program, &dir).start()?;
        let before = server.resident_bytes()?;
        generator::fill(&target(program, &server), FILL_ROOT, znodes)?;
        std::thread::sleep(SETTLE);
        let after = server.resident_bytes()?;
        let each = after.saturating_sub(before) as f64 / znodes as f64;
        println!("{}: {before} bytes before, {after} after {znodes} znodes", program.name());
        measured.note("bytes_per_znode", target_name(program), each);
        lab.keep_filled(program, server, dir)?;
    }
    measured.note("bytes_per_znode", LIMIT, (VALUE_BYTES + NAME_BYTES) as f64);
    Ok(measured)
}

/// The time from the start of the process to the first answered read.
pub fn restart(lab: &mut Lab) -> Result<Measured> {
    let mut measured = Measured::default();
    for _ in 0..lab.scale.rounds {
        for program in PROGRAMS {
            let copy = lab.filled_copy(program)?;
            if program == Program::Herdsman {
                measured.note("restart_s", LIMIT, time_to_read_newest(&copy)?.as_secs_f64());
            }
            let took = restart_once(&spec(program, &copy), FILL_ROOT)?.as_secs_f64();
            println!("{}: {took:.2} s", program.name());
            measured.note("restart_s", target_name(program), took);
        }
    }
    Ok(measured)
}

/// The time from the start of a server to its reply about a znode. A new client connects every few
/// milliseconds, whether the earlier ones have their replies or not: Apache accepts clients before it is
/// ready and never answers some of those.
pub fn restart_once(spec: &Spec, path: &'static str) -> Result<Duration> {
    let begun = Instant::now();
    let mut server = spec.launch()?;
    let (answered_in, answered) = channel();
    while begun.elapsed() < RESTART_MAX {
        server.ensure_alive()?;
        let (address, answered_in) = (server.address.clone(), answered_in.clone());
        std::thread::spawn(move || {
            if reads(&address, path) {
                // The receiver is dropped once another client has got its reply.
                let _ = answered_in.send(Instant::now());
            }
        });
        if let Ok(moment) = answered.recv_timeout(CONNECT_INTERVAL) {
            server.kill()?;
            return Ok(moment - begun);
        }
    }
    anyhow::bail!("no answer within {RESTART_MAX:?}:\n{}", server.log_tail())
}

/// Whether a new client gets a reply soon.
fn reads(address: &str, path: &str) -> bool {
    let ticket = Ticket::new(SESSION_TIMEOUT_MS);
    let Ok(Some(mut session)) = Session::open(address, &ticket, ANSWER_MAX) else {
        return false;
    };
    session.ok(&Op::exists(path)).is_ok()
}

/// The time to read the newest snapshot and the newest log: no server that keeps its tree in memory can
/// start faster.
fn time_to_read_newest(data_dir: &Path) -> Result<Duration> {
    let files = [newest(data_dir, "snapshot.")?, newest(data_dir, "log.")?];
    let begun = Instant::now();
    for file in files.into_iter().flatten() {
        let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
        std::hint::black_box(bytes);
    }
    Ok(begun.elapsed())
}

fn newest(data_dir: &Path, prefix: &str) -> Result<Option<PathBuf>> {
    let named = files(data_dir, prefix)?.into_iter();
    Ok(named.max_by_key(|(zxid, _)| *zxid).map(|(_, path)| path))
}

/// The files `PREFIXzxid` and their zxids.
fn files(data_dir: &Path, prefix: &str) -> Result<Vec<(u64, PathBuf)>> {
    let dir = data_dir.join("version-2");
    let mut found = Vec::new();
    for entry in fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let zxid = name.strip_prefix(prefix).map(|zxid| u64::from_str_radix(zxid, 16));
        if let Some(Ok(zxid)) = zxid {
            found.push((zxid, path));
        }
    }
    Ok(found)
}

/// The longest time without any reply under mixed load while snapshots are taken, and the same without
/// snapshots, which is due to the machine and the load alone.
pub fn snapshot(lab: &mut Lab) -> Result<Measured> {
    let mut measured = Measured::default();
    let snap_count = lab.scale.snap_count;
    for _ in 0..lab.scale.rounds {
        for program in PROGRAMS {
            let quiet = longest_gap_ms(lab, program, NEVER)?;
            ensure!(quiet.snapshots == 0, "{} took a snapshot without a request", program.name());
            let busy = longest_gap_ms(lab, program, snap_count)?;
            ensure!(busy.snapshots > 0, "{} took no snapshot during the load", program.name());
            println!(
                "{}: longest gap {:.1} ms with {} snapshots, {:.1} ms without",
                program.name(),
                busy.gap_ms,
                busy.snapshots,
                quiet.gap_ms
            );
            measured.note("gap_ms", target_name(program), busy.gap_ms);
            measured.note("gap_without_snapshot_ms", target_name(program), quiet.gap_ms);
            measured.note("snapshots", target_name(program), busy.snapshots as f64);
        }
    }
    Ok(measured)
}

struct Gap {
    gap_ms: f64,
    snapshots: usize,
}

fn longest_gap_ms(lab: &mut Lab, program: Program, snap_count: usize) -> Result<Gap> {
    let dir = lab.filled_copy(program)?;
    let spec = spec(program, &dir).property("zookeeper.snapCount", &snap_count.to_string());
    let server = spec.start()?;
    let before = files(&dir, "snapshot.")?.len();
    let load = Load {
        keys: lab.scale.znodes,
        root: FILL_ROOT.into(),
        znodes: Znodes::Filled,
        rounds: 1,
        duration_s: lab.scale.duration_s * 2,
        ..Load::new("mixed", CONNECTIONS, DEPTH, &lab.scale)
    };
    let report = load.run(&[target(program, &server)], lab.work())?;
    // Old snapshots are removed once an hour, so none of these has been removed yet.
    let snapshots = files(&dir, "snapshot.")?.len().saturating_sub(before);
    let gaps = report.rows.iter().flat_map(|row| &row.rounds).map(|round| round.longest_gap_us);
    let gap_us = gaps.max().context("no round")?;
    server.kill()?;
    Ok(Gap { gap_ms: gap_us as f64 / 1000.0, snapshots })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_file_has_the_highest_zxid() {
        let dir = tempfile::tempdir().unwrap();
        let version_2 = dir.path().join("version-2");
        fs::create_dir(&version_2).unwrap();
        for name in ["snapshot.9", "snapshot.10", "log.1", "snapshot.tmp", "acceptedEpoch"] {
            fs::write(version_2.join(name), name).unwrap();
        }
        let name = |prefix| newest(dir.path(), prefix).unwrap().map(|path| path.ends_with("x"));
        assert_eq!(name("missing."), None);
        assert_eq!(files(dir.path(), "snapshot.").unwrap().len(), 2);
        assert!(newest(dir.path(), "snapshot.").unwrap().unwrap().ends_with("snapshot.10"));
    }
}
