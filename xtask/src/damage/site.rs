//! An ensemble that has stopped, a copy of its files, and what must happen when it starts again with damage.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::combinations::{Case, ENTRIES, SERVERS};
use super::records::{self, Damage, Record};
use super::repair_log::{self, Finding, Waiting};
use super::{POLL, WAITS_MAX};
use crate::ensemble::{Ensemble, Member, Network, Role, Settings};
use crate::paths;
use crate::rng::Rng;
use crate::run;
use crate::server::Program;
use crate::wire::{Op, Session, Ticket};

/// The znodes whose txns are damaged; the first entry is the session that creates them.
const PATHS: [&str; 3] = ["/a", "/b", "/c"];
const DATA: &[u8] = b"acknowledged";
const LOCK: &str = "herdsman.lock";
const TICK_MS: u32 = 200;
const SYNC_LIMIT: u32 = 5;
/// Longer than writing the entries takes.
const SESSION_TIMEOUT_MS: i32 = 4000;
/// How long servers that have to wait are watched.
const WATCHED: Duration = Duration::from_secs(3);
/// Time for a client to get a session that it must not get.
const REFUSED_MAX: Duration = Duration::from_millis(500);

/// The ensemble.
pub struct Site {
    ensemble: Ensemble,
    dir: PathBuf,
    /// The zxids of the entries.
    zxids: Vec<i64>,
    /// For each server, where they are.
    records: Vec<Vec<Record>>,
}

/// How servers got back what they lacked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repairs {
    /// Servers that put records into their logs.
    pub spliced: usize,
    /// Servers that joined a leader without a vote.
    pub joined: usize,
}

/// Opens a session. On a busy machine a server that has just begun to serve may lose its role once more.
fn connect(member: &Member) -> Result<Session> {
    let deadline = Instant::now() + WAITS_MAX;
    loop {
        match Session::connect(member.address(), SESSION_TIMEOUT_MS) {
            Err(_) if Instant::now() < deadline => std::thread::sleep(POLL),
            result => return result,
        }
    }
}

impl Site {
    /// Starts three servers, writes the entries, and kills the servers once all of them have all entries.
    pub fn prepare(name: &str) -> Result<Site> {
        let dir = paths::fresh_dir(name)?;
        let servers = [(Program::Herdsman, Role::Participant); SERVERS];
        let settings = Settings::new(TICK_MS, SYNC_LIMIT);
        let mut ensemble = Ensemble::new(&dir, &servers, &settings, Network::Loopback)?;
        let leader = ensemble.start_all()?;
        let mut session = connect(ensemble.member(leader))?;
        let mut zxids = Vec::new();
        for path in PATHS {
            session.ok(&Op::create(path, Some(DATA), 0))?;
            zxids.push(session.data(path)?.1.czxid());
        }
        zxids.insert(0, zxids[0] - 1);
        let records =
            ensemble.ids().map(|id| records::await_all(&ensemble.member(id).data_dir(), &zxids));
        let records = records.collect::<Result<Vec<_>>>()?;
        let ids: Vec<_> = ensemble.ids().collect();
        ensemble.kill(&ids)?;
        for id in ensemble.ids() {
            let template = dir.join("template").join(id.to_string());
            paths::copy_dir(&ensemble.member(id).data_dir(), &template)?;
        }
        Ok(Site { ensemble, dir, zxids, records })
    }

    /// Removes its files.
    pub fn remove(self) -> Result<()> {
        Ok(fs::remove_dir_all(&self.dir)?)
    }

    /// Where its files are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Damages entries and starts all servers: they must heal, or wait.
    pub fn run(&mut self, case: Case) -> Result<Repairs> {
        let mut random = Rng::new(case.seed ^ u64::from(case.combination.0) << 32);
        let mut what = Vec::new();
        self.restore()?;
        for id in self.ensemble.ids() {
            let data_dir = self.ensemble.member(id).data_dir();
            for (entry, record) in self.records[id - 1].iter().enumerate() {
                if case.combination.damages(id - 1, entry) {
                    let damage = *random.pick(&Damage::ALL);
                    damage.inflict(&data_dir, record, &mut random)?;
                    what.push(format!("{:#x} on {id}: {damage:?}", self.zxids[entry]));
                }
            }
        }
        let outcome = match case.combination.is_recoverable() {
            true => self.heal().and_then(|()| self.repairs(case)),
            false => self.wait(case).map(|()| Repairs::default()),
        };
        self.kill_running()?;
        outcome.with_context(|| what.join(", "))
    }

    /// A server.
    pub fn member(&self, id: usize) -> &Member {
        self.ensemble.member(id)
    }

    /// A server, to change how it starts.
    pub fn member_mut(&mut self, id: usize) -> &mut Member {
        self.ensemble.member_mut(id)
    }

    /// Where a server has the last entry.
    pub fn last_record(&self, id: usize) -> &Record {
        &self.records[id - 1][ENTRIES - 1]
    }

    /// Gives all servers the files of the template and empty logs.
    pub fn restore(&self) -> Result<()> {
        for id in self.ensemble.ids() {
            let member = self.ensemble.member(id);
            fs::remove_dir_all(member.data_dir())?;
            paths::copy_dir(&self.dir.join("template").join(id.to_string()), &member.data_dir())?;
            fs::write(member.log_path(), "")?;
        }
        Ok(())
    }

    /// Kills the servers that run.
    pub fn kill_running(&mut self) -> Result<()> {
        let ids = self.ensemble.ids();
        let running: Vec<_> = ids.filter(|id| self.ensemble.member(*id).is_running()).collect();
        self.ensemble.kill(&running)
    }

    /// Starts and stops all servers: all entries must be on all of them, in clean files.
    pub fn heal(&mut self) -> Result<()> {
        self.ensemble.start_all()?;
        for id in self.ensemble.ids() {
            let mut session = connect(self.ensemble.member(id))?;
            session.sync()?;
            for (path, zxid) in PATHS.iter().zip(&self.zxids[1..]) {
                let (data, stat) = session.data(path)?;
                ensure!(data.as_deref() == Some(DATA), "server {id} has {data:?} in {path}");
                ensure!(
                    stat.czxid() == *zxid,
                    "server {id} says that {path} is of {:#x}",
                    stat.czxid()
                );
            }
        }
        self.ensemble.stop_all()?;
        for id in self.ensemble.ids() {
            ensure_clean(self.ensemble.member(id))?;
        }
        Ok(())
    }

    /// Each server with damage must have found it and got back what it lacked.
    fn repairs(&self, case: Case) -> Result<Repairs> {
        let mut repairs = Repairs::default();
        for id in self.ensemble.ids() {
            let log = self.ensemble.member(id).log()?;
            let damaged = case.combination.damaged_on(id - 1);
            ensure!(
                repair_log::found_damage(&log) == (damaged > 0),
                "server {id} has {damaged} damaged records and says:\n{log}"
            );
            let spliced = repair_log::records_spliced(&log);
            if repair_log::joined_without_vote(&log) {
                repairs.joined += 1;
            } else {
                ensure!(
                    spliced == damaged,
                    "server {id} had {damaged} damaged records and put {spliced} into its log:\n{log}"
                );
                repairs.spliced += usize::from(damaged > 0);
            }
        }
        Ok(repairs)
    }

    /// No server may serve or change its files, and each must say for which txns it waits, and what it has heard from
    /// the other servers about them.
    fn wait(&mut self, case: Case) -> Result<()> {
        let files: Vec<_> =
            self.ensemble.ids().map(|id| self.files_of(id)).collect::<Result<_>>()?;
        let (early, last) = Site::order(case);
        for id in early {
            self.ensemble.member_mut(id).launch()?;
        }
        for id in early {
            self.await_waiting(id)?;
        }
        // Both others answer it from the beginning, so its first message is complete, unless the machine is very slow.
        self.ensemble.member_mut(last).launch()?;
        self.await_waiting(last)?;
        let start = Instant::now();
        loop {
            self.ensure_nothing_served()?;
            let judged = self.judge_messages(case);
            if judged.is_ok() && start.elapsed() >= WATCHED {
                break;
            }
            if start.elapsed() >= WAITS_MAX {
                return judged;
            }
            std::thread::sleep(POLL);
        }
        self.kill_running()?;
        for (id, before) in self.ensemble.ids().zip(files) {
            let after = self.files_of(id)?;
            let changed = |name: &&PathBuf| before.get(*name) != after.get(*name);
            let changed: BTreeSet<_> = before.keys().chain(after.keys()).filter(changed).collect();
            ensure!(changed.is_empty(), "server {id} has changed its files: {changed:?}");
        }
        Ok(())
    }

    /// The servers that start first, and the one that starts when both wait.
    fn order(case: Case) -> ([usize; 2], usize) {
        let last = 1 + usize::from(case.combination.0) % SERVERS;
        let next = |id: usize| id % SERVERS + 1;
        ([next(last), next(next(last))], last)
    }

    /// Waits until a server has said what it waits for.
    fn await_waiting(&mut self, id: usize) -> Result<()> {
        let deadline = Instant::now() + WAITS_MAX;
        while Waiting::last(&self.ensemble.member(id).log()?).is_none() {
            self.ensure_nothing_served()?;
            if Instant::now() >= deadline {
                bail!("server {id} does not wait:\n{}", self.ensemble.member(id).log()?);
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// No server may have a role, and no client may get a session.
    fn ensure_nothing_served(&mut self) -> Result<()> {
        for (id, mode) in self.ensemble.modes()? {
            ensure!(mode.is_none(), "server {id} serves as {mode:?}, although entries are lost");
            let ticket = Ticket::new(SESSION_TIMEOUT_MS);
            let session = Session::open(self.ensemble.member(id).address(), &ticket, REFUSED_MAX);
            ensure!(
                !matches!(session, Ok(Some(_))),
                "server {id} opened a session, although entries are lost"
            );
        }
        Ok(())
    }

    fn judge_messages(&self, case: Case) -> Result<()> {
        let (_, last) = Site::order(case);
        let lost: Vec<i64> = case.combination.lost().map(|entry| self.zxids[entry]).collect();
        for id in self.ensemble.ids() {
            let log = self.ensemble.member(id).log()?;
            let waiting = Waiting::last(&log).context("it does not wait any more")?;
            for peer in self.ensemble.ids().filter(|peer| *peer != id) {
                for zxid in &lost {
                    let found = waiting.found_at(*zxid, peer);
                    let is_right = match id == last {
                        true => found == Some(Finding::Damaged),
                        false => matches!(found, Some(Finding::Damaged | Finding::NotAnswered)),
                    };
                    ensure!(
                        is_right,
                        "server {id} reports {found:?} of {zxid:#x} on server {peer}:\n{log}"
                    );
                }
            }
            let others = self.zxids.iter().filter(|zxid| !lost.contains(zxid));
            for zxid in others.filter(|_| id == last) {
                ensure!(!waiting.is_for(*zxid), "server {id} waits for {zxid:#x}, too:\n{log}");
            }
        }
        Ok(())
    }

    /// The files of a server with their content, except for the lock, which names the process.
    fn files_of(&self, id: usize) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.ensemble.member(id).data_dir()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    folders.push(entry.path());
                } else if entry.file_name() != LOCK {
                    files.insert(entry.path(), fs::read(entry.path())?);
                }
            }
        }
        Ok(files)
    }
}

/// Fails if `herdsman inspect` finds a problem in the files of a server that has stopped.
pub fn ensure_clean(member: &Member) -> Result<()> {
    let mut verify = Command::new(paths::herdsman());
    verify.args(["inspect", "data-dir", "--verify"]).arg(member.data_dir());
    let done = run::all_output(&mut verify, "")?;
    ensure!(done.success, "the files of {member} are not clean:\n{}", done.printed);
    Ok(())
}
