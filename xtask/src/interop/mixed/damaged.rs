//! A server of ours whose log is damaged heals, whoever leads and follows, also if it led before. Where another server
//! of ours runs, it gets the records that it lacks. Otherwise it joins the leader without a vote, gets a snapshot, and
//! votes again.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{FOLLOWERS, LEADER, OBSERVERS, SESSION_TIMEOUT_MS};
use crate::damage::{self, repair_log};
use crate::ensemble::Ensemble;
use crate::server::Program;
use crate::server_log::{self, Sync};
use crate::verdict;
use crate::wire::{Op, Session};

/// More than one record.
const WRITES: usize = 10;
/// A snapshot may be taken meanwhile, which covers the damage.
const TRIES_MAX: usize = 5;
/// The file that says that a server does not vote.
const MARK: &str = "herdsman.votingSuspended";
const MARK_MAX: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// Damages each of our servers, with all others running, and if only an observer of ours could send it records, once
/// more without that one.
pub fn everything(ensemble: &mut Ensemble) -> Result<()> {
    let [first, second] = FOLLOWERS;
    let [_, observer] = OBSERVERS;
    for id in [first, second, LEADER, observer] {
        if !is_ours(ensemble, id) {
            continue;
        }
        damage_and_start(ensemble, id).with_context(|| format!("server {id}"))?;
        let voters = FOLLOWERS.into_iter().chain([LEADER]);
        let is_only_voter = voters.filter(|other| is_ours(ensemble, *other)).eq([id]);
        if is_only_voter && is_ours(ensemble, observer) {
            ensemble.member_mut(observer).stop()?;
            damage_and_start(ensemble, id).with_context(|| format!("server {id}, alone"))?;
            ensemble.start(observer)?;
        }
        verdict::equal_nodes(ensemble)?;
    }
    Ok(())
}

/// Fails if the files of one of our servers, which have stopped, have a problem.
pub fn ensure_clean(ensemble: &Ensemble) -> Result<()> {
    let ours = ensemble.ids().filter(|id| is_ours(ensemble, *id));
    ours.map(|id| ensemble.member(id)).try_for_each(damage::ensure_clean)
}

fn is_ours(ensemble: &Ensemble, id: usize) -> bool {
    ensemble.member(id).program() == Program::Herdsman
}

fn damage_and_start(ensemble: &mut Ensemble, id: usize) -> Result<()> {
    let logged = ensemble.member(id).log()?.len();
    kill_with_records(ensemble, id)?;
    damage::damage_newest_log(&ensemble.member(id).data_dir())?;
    let others = ensemble.ids().filter(|other| ensemble.member(*other).is_running());
    let has_records = others.into_iter().any(|other| is_ours(ensemble, other));
    ensemble.start(id)?;
    // The next txn shows a server that did not vote that the leader has a quorum without it.
    write(ensemble)?;
    await_no_mark(ensemble, id)?;
    let leader = ensemble.leader()?.context("there is no leader")?;
    let log = ensemble.member(id).log()?;
    judge(&log[logged..], has_records, leader)
}

/// Kills a server whose last records no snapshot covers.
fn kill_with_records(ensemble: &mut Ensemble, id: usize) -> Result<()> {
    for _ in 0..TRIES_MAX {
        let first = write(ensemble)?;
        // So that all of it is in its log.
        let mut session = Session::connect(ensemble.member(id).address(), SESSION_TIMEOUT_MS)?;
        session.sync()?;
        session.close()?;
        ensemble.member_mut(id).kill()?;
        if damage::newest(&ensemble.member(id).data_dir(), "snapshot.")?.0 < first {
            return Ok(());
        }
        ensemble.start(id)?;
    }
    anyhow::bail!("a snapshot is taken each time")
}

/// Writes through the leader; returns the first zxid.
fn write(ensemble: &mut Ensemble) -> Result<i64> {
    let leader = ensemble.await_serving()?;
    let mut session = Session::connect(ensemble.member(leader).address(), SESSION_TIMEOUT_MS)?;
    let mut first = None;
    for number in 0..WRITES {
        let reply = session.ok(&Op::set_data("/m", Some(format!("{number}").as_bytes()), -1))?;
        first.get_or_insert(reply.zxid);
    }
    session.close()?;
    first.context("nothing was written")
}

/// Waits until a server votes that did not.
fn await_no_mark(ensemble: &Ensemble, id: usize) -> Result<()> {
    let mark = ensemble.member(id).data_dir().join("version-2").join(MARK);
    let deadline = Instant::now() + MARK_MAX;
    while mark.exists() {
        ensure!(Instant::now() < deadline, "{} remains", mark.display());
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// What the server logged since it was damaged.
fn judge(log: &str, has_records: bool, leader: usize) -> Result<()> {
    ensure!(repair_log::found_damage(log), "no damage was found:\n{log}");
    let spliced = repair_log::records_spliced(log);
    let joined = repair_log::joined_without_vote(log);
    if has_records {
        ensure!(spliced == 1 && !joined, "one record should have been repaired:\n{log}");
        return Ok(());
    }
    ensure!(spliced == 0 && joined, "it should have joined the leader without a vote:\n{log}");
    let snap = server_log::first_sync(Program::Herdsman, log, Sync::Snap);
    let from = format!("observing server {leader} ");
    ensure!(
        snap.is_some_and(|line| line.contains(&from)),
        "it should have got a snapshot from server {leader}:\n{log}"
    );
    Ok(())
}
