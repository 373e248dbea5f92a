//! Servers that stop and rejoin: with the data they had (DIFF), with nothing (SNAP), with more than the other servers
//! have (TRUNC), and with a damaged log.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{FOLLOWERS, LEADER, OBSERVERS, REMEMBERED, SESSION_TIMEOUT_MS};
use crate::damage;
use crate::ensemble::Ensemble;
use crate::load::{self, History, Load};
use crate::server::Program;
use crate::server_log::{self, Sync};
use crate::verdict;
use crate::wire::{Op, Session};

const LOAD: load::Options =
    load::Options { clients: 3, seed: 1, timeout_ms: SESSION_TIMEOUT_MS, rest_max_ms: 50 };
const PROGRESS: u64 = 50;
const PROGRESS_MAX: Duration = Duration::from_secs(30);
/// Stands in nodes that must not outlive their leader.
const NEVER: &str = "never-to-be-committed";
/// More than one record, and too few for a snapshot.
const WRITES_BEFORE_DAMAGE: usize = 10;
const LOGGED_MAX: Duration = Duration::from_secs(5);
const TRUNC_TRIES_MAX: usize = 5;

/// Fails at the first thing that does not go as it must; returns what the load noted.
pub fn everything(ensemble: &mut Ensemble) -> Result<History> {
    let load = Load::start(&ensemble.addresses(), LOAD)?;
    let came_back = with_what_they_had(ensemble, &load);
    let history = load.finish()?;
    came_back?;
    with_nothing(ensemble)?;
    with_too_much(ensemble).context("a leader that logged txns that no other server has")?;
    with_damage(ensemble).context("a follower with a damaged log")?;
    Ok(history)
}

/// Killed under load, one follower after the other, then both observers.
fn with_what_they_had(ensemble: &mut Ensemble, load: &Load) -> Result<()> {
    for ids in [&FOLLOWERS[..1], &FOLLOWERS[1..], &OBSERVERS[..]] {
        ensemble.kill(ids)?;
        load.await_progress(PROGRESS, PROGRESS_MAX)?;
        start_and_compare(ensemble, ids, Sync::Diff)?;
        load.await_progress(PROGRESS, PROGRESS_MAX)?;
    }
    Ok(())
}

/// Stopped, emptied, and started while there are no writes, when no leader remembers the first txns.
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
        "{member} came back to {leader} with {sync:?}, expected {expected:?}"
    );
    Ok(())
}

/// The leader logs proposals while both followers are dead, dies, and is restarted when one of them
/// leads: it must forget the proposals.
fn with_too_much(ensemble: &mut Ensemble) -> Result<()> {
    for _ in 0..TRUNC_TRIES_MAX {
        let logged = propose_in_vain(ensemble)?;
        ensemble.member_mut(LEADER).kill()?;
        FOLLOWERS.iter().try_for_each(|id| ensemble.member_mut(*id).launch())?;
        // Nobody writes before the old leader is back: Apache cuts a log only within one epoch, and
        // sends a snapshot otherwise.
        let leader = ensemble.await_serving()?;
        ensemble.start(LEADER)?;
        if logged {
            ensure_sync(ensemble, LEADER, leader, Sync::Trunc)?;
            return ensure_forgotten(ensemble);
        }
        // The leader stepped down too soon; it must lead again for another try.
        ensemble.member_mut(leader).stop()?;
        ensemble.await_serving()?;
        ensemble.start(leader)?;
    }
    anyhow::bail!("the leader never logged anything after its followers were dead")
}

/// Whether the leader logged a write that no other server can have seen.
fn propose_in_vain(ensemble: &mut Ensemble) -> Result<bool> {
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

/// A follower of ours whose log is damaged heals, whoever leads and follows: with records of our other servers, or with
/// a tree from the leader.
fn with_damage(ensemble: &mut Ensemble) -> Result<()> {
    for id in FOLLOWERS {
        if ensemble.member(id).program() != Program::Herdsman {
            continue;
        }
        let mut session = Session::connect(ensemble.member(LEADER).address(), SESSION_TIMEOUT_MS)?;
        for number in 0..WRITES_BEFORE_DAMAGE {
            session.ok(&Op::set_data("/m", Some(format!("{id}-{number}").as_bytes()), -1))?;
        }
        session.close()?;
        // So that all of it is in its log.
        let mut session = Session::connect(ensemble.member(id).address(), SESSION_TIMEOUT_MS)?;
        session.sync()?;
        session.close()?;
        ensemble.member_mut(id).kill()?;
        damage::damage_newest_log(&ensemble.member(id).data_dir())?;
        ensemble.start(id)?;
        verdict::equal_nodes(ensemble)?;
    }
    Ok(())
}

fn ensure_forgotten(ensemble: &Ensemble) -> Result<()> {
    let mut session = Session::connect(ensemble.member(LEADER).address(), SESSION_TIMEOUT_MS)?;
    session.ok(&Op::set_data("/m", Some(b"went on"), -1))?;
    session.close()?;
    let nodes = verdict::equal_nodes(ensemble)?;
    let left: Vec<_> = nodes.keys().filter(|path| path.contains(NEVER)).collect();
    ensure!(left.is_empty(), "never committed, but there: {left:?}");
    Ok(())
}
