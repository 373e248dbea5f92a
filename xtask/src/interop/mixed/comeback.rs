//! Servers that stop and rejoin: with their data (DIFF), with nothing (SNAP), with more than the other servers have
//! (TRUNC), and with a damaged log ([`damaged`]).

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::damaged;
use super::{FOLLOWERS, LEADER, OBSERVERS, REMEMBERED, SESSION_TIMEOUT_MS};
use crate::ensemble::Ensemble;
use crate::load::{self, History, Load};
use crate::server_log::{self, Sync};
use crate::verdict;
use crate::wire::{Op, Session};

const LOAD: load::Options =
    load::Options { clients: 3, seed: 1, timeout_ms: SESSION_TIMEOUT_MS, rest_max_ms: 50 };
const PROGRESS: u64 = 50;
const PROGRESS_MAX: Duration = Duration::from_secs(30);
/// In the names of nodes that must never be committed.
const NEVER: &str = "never-to-be-committed";
const LOGGED_MAX: Duration = Duration::from_secs(5);
const TRUNC_TRIES_MAX: usize = 5;

/// Runs all steps; fails at the first error; returns what the load recorded.
pub fn everything(ensemble: &mut Ensemble) -> Result<History> {
    let load = Load::start(&ensemble.addresses(), LOAD)?;
    let came_back = with_what_they_had(ensemble, &load);
    let history = load.finish()?;
    came_back?;
    with_nothing(ensemble)?;
    with_too_much(ensemble).context("a leader that logged txns that no other server has")?;
    damaged::everything(ensemble).context("a server with a damaged log")?;
    Ok(history)
}

/// Killed under load: one follower after the other, then both observers.
fn with_what_they_had(ensemble: &mut Ensemble, load: &Load) -> Result<()> {
    for ids in [&FOLLOWERS[..1], &FOLLOWERS[1..], &OBSERVERS[..]] {
        ensemble.kill(ids)?;
        load.await_progress(PROGRESS, PROGRESS_MAX)?;
        start_and_compare(ensemble, ids, Sync::Diff)?;
        load.await_progress(PROGRESS, PROGRESS_MAX)?;
    }
    Ok(())
}

/// Stopped, emptied, and started while there are no writes, when no leader remembers the first txns any
/// more.
fn with_nothing(ensemble: &mut Ensemble) -> Result<()> {
    write_much(ensemble.member(LEADER).address())?;
    for ids in [&FOLLOWERS[..1], &FOLLOWERS[1..], &OBSERVERS[..]] {
        for id in ids {
            ensemble.member_mut(*id).stop()?;
            ensemble.member_mut(*id).wipe()?;
        }
        start_and_compare(ensemble, ids, Sync::Snap)?;
        verdict::equal_nodes(ensemble)?;
    }
    Ok(())
}

fn write_much(address: &str) -> Result<()> {
    let mut session = Session::connect(address, SESSION_TIMEOUT_MS)?;
    for _ in 0..REMEMBERED / 100 + 1 {
        for number in 0..100 {
            session.send(&Op::set_data("/m", Some(format!("{number}").as_bytes()), -1))?;
        }
        for _ in 0..100 {
            ensure!(session.receive()?.err == 0, "a write failed");
        }
    }
    session.close()
}

fn start_and_compare(ensemble: &mut Ensemble, ids: &[usize], expected: Sync) -> Result<()> {
    ids.iter().try_for_each(|id| ensemble.member_mut(*id).launch())?;
    let leader = ensemble.await_serving()?;
    ids.iter().try_for_each(|id| ensure_sync(ensemble, *id, leader, expected))
}

fn ensure_sync(ensemble: &Ensemble, id: usize, leader: usize, expected: Sync) -> Result<()> {
    let (member, leader) = (ensemble.member(id), ensemble.member(leader));
    let sync = server_log::last_sync(member.program(), &member.log()?);
    ensure!(
        sync == Some(expected),
        "{member} rejoined {leader} with {sync:?}, expected {expected:?}"
    );
    Ok(())
}

/// The leader logs proposals while both followers are dead, dies, and is restarted when one of them leads:
/// it must drop the proposals.
fn with_too_much(ensemble: &mut Ensemble) -> Result<()> {
    for _ in 0..TRUNC_TRIES_MAX {
        let logged = propose_without_followers(ensemble)?;
        ensemble.member_mut(LEADER).kill()?;
        FOLLOWERS.iter().try_for_each(|id| ensemble.member_mut(*id).launch())?;
        // Nothing is written before the old leader has rejoined: Apache truncates a log only within one
        // epoch, and sends a snapshot otherwise.
        let leader = ensemble.await_serving()?;
        ensemble.start(LEADER)?;
        if logged {
            ensure_sync(ensemble, LEADER, leader, Sync::Trunc)?;
            return ensure_dropped(ensemble);
        }
        // The leader stepped down too soon; it must lead again for another attempt.
        ensemble.member_mut(leader).stop()?;
        ensemble.await_serving()?;
        ensemble.start(leader)?;
    }
    anyhow::bail!("the leader never logged anything after its followers were dead")
}

/// Whether the leader has logged a write that no other server can have received.
fn propose_without_followers(ensemble: &mut Ensemble) -> Result<bool> {
    let mut session = Session::connect(ensemble.member(LEADER).address(), SESSION_TIMEOUT_MS)?;
    session.ok(&Op::set_data("/m", Some(b"before"), -1))?;
    ensemble.kill(&FOLLOWERS)?;
    for number in 0..3 {
        let create = Op::create(&format!("/m/{NEVER}{number}"), None, 0);
        if session.send(&create).is_err() {
            return Ok(false);
        }
    }
    let deadline = Instant::now() + LOGGED_MAX;
    while !is_logged(&ensemble.member(LEADER).data_dir())? {
        if Instant::now() > deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(true)
}

fn is_logged(data_dir: &Path) -> Result<bool> {
    let wanted = format!("{NEVER}2").into_bytes();
    for entry in fs::read_dir(data_dir.join("version-2"))? {
        let path = entry?.path();
        let is_log = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("log."));
        if is_log && fs::read(&path)?.windows(wanted.len()).any(|bytes| bytes == wanted) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn ensure_dropped(ensemble: &Ensemble) -> Result<()> {
    let mut session = Session::connect(ensemble.member(LEADER).address(), SESSION_TIMEOUT_MS)?;
    session.ok(&Op::set_data("/m", Some(b"went on"), -1))?;
    session.close()?;
    let nodes = verdict::equal_nodes(ensemble)?;
    let left: Vec<_> = nodes.keys().filter(|path| path.contains(NEVER)).collect();
    ensure!(left.is_empty(), "never committed, but there: {left:?}");
    Ok(())
}
