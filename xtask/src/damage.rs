//! Damages the logs of three real servers in every combination, and checks that the ensemble heals itself.
//!
//! The experiment is that of "Protocol-Aware Recovery for Consensus-Based Storage" (FAST'18): four log entries on each of
//! three servers, each of them intact or damaged, so 4,096 combinations. In 2,401 of them every entry is intact
//! somewhere: then the ensemble must come up by itself, with all entries on all servers, and leave clean files. In the
//! others it must wait, serve nothing, and say for which txns.
//!
//! In: which combinations, and a seed that decides what of each damaged record is overwritten. A failed case prints the
//! command that runs it alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::ensemble::{Ensemble, Mode, Network, Role, Settings};
use crate::paths;
use crate::rng::Rng;
use crate::run;
use crate::server::Program;
use crate::wire::{Op, Session};

const SERVERS: usize = 3;
/// The entries that can be damaged: a session and three znodes.
const ENTRIES: usize = 4;
const PATHS: [&str; ENTRIES - 1] = ["/a", "/b", "/c"];
const DATA: &[u8] = b"acknowledged";
const CASES: u16 = 1 << (SERVERS * ENTRIES);
const TICK_MS: u32 = 200;
const SYNC_LIMIT: u32 = 5;
/// Longer than any case takes, so that the session does not end in the middle of the experiment.
const SESSION_TIMEOUT_MS: i32 = 4000;
/// How long a server that has to wait is watched.
const WATCHED: Duration = Duration::from_secs(3);
const WAITS_MAX: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);
/// Before the payload of a record: its checksum and its length.
const HEAD_BYTES: usize = 12;
const FILE_HEAD_BYTES: usize = 16;

/// Which combinations to try.
#[derive(Args)]
pub struct Options {
    /// How many combinations to draw.
    #[arg(long, default_value_t = 30)]
    cases: usize,
    /// Try all of them; several hours.
    #[arg(long)]
    all: bool,
    /// Only combinations in which every entry is intact somewhere.
    #[arg(long)]
    recoverable: bool,
    /// Try this combination alone: a bit for each entry of each server, server 1 first.
    #[arg(long, value_parser = case_number)]
    case: Option<u16>,
    /// With --all, every N-th combination from the K-th on, as K/N: for several runs side by side.
    #[arg(long, value_parser = part)]
    part: Option<(u16, u16)>,
    /// Decides which combinations are drawn, and what is damaged in each record.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn case_number(text: &str) -> Result<u16, String> {
    let number = u16::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    number.filter(|case| *case < CASES).ok_or_else(|| "not a number below 0x1000".to_owned())
}

fn part(text: &str) -> Result<(u16, u16), String> {
    let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    parts.filter(|(k, n)| k < n).ok_or_else(|| "not K/N with K below N".to_owned())
}

/// What of a record is overwritten.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// A bit of the checksum.
    Checksum,
    /// The length, by zeros.
    Length,
    /// A byte of the payload.
    Body,
    /// The mark at the end.
    Mark,
    /// All of it, by zeros, as if a sector could not be written.
    Whole,
}

const DAMAGES: [Damage; 5] =
    [Damage::Checksum, Damage::Length, Damage::Body, Damage::Mark, Damage::Whole];

/// A combination: bit `server * ENTRIES + entry` says that this entry is damaged there.
#[derive(Clone, Copy)]
struct Case(u16);

impl Case {
    fn damages(self, server: usize, entry: usize) -> bool {
        self.0 >> (server * ENTRIES + entry) & 1 == 1
    }

    /// The entries that are damaged on all servers.
    fn lost(self) -> impl Iterator<Item = usize> {
        (0..ENTRIES).filter(move |entry| (0..SERVERS).all(|server| self.damages(server, *entry)))
    }

    fn is_recoverable(self) -> bool {
        self.lost().next().is_none()
    }
}

/// Runs the experiment; fails with the first case that goes wrong.
pub fn run(options: &Options) -> Result<()> {
    Program::Herdsman.ensure_here()?;
    let mut site = Site::prepare()?;
    let cases = chosen(options);
    let start = Instant::now();
    let (mut healed, mut waited) = (0, 0);
    for (number, case) in cases.iter().enumerate() {
        let outcome = site.run(*case, options.seed);
        let Case(bits) = *case;
        outcome.with_context(|| {
            format!(
                "case {bits:#05x}; again: cargo xtask damage --case {bits:03x} --seed {}",
                options.seed
            )
        })?;
        if case.is_recoverable() {
            healed += 1;
        } else {
            waited += 1;
        }
        if (number + 1) % 100 == 0 {
            println!(
                "{} of {} cases, {:.0} s",
                number + 1,
                cases.len(),
                start.elapsed().as_secs_f64()
            );
        }
    }
    println!("{healed} combinations healed, {waited} waited for what is damaged everywhere");
    Ok(())
}

fn chosen(options: &Options) -> Vec<Case> {
    if let Some(case) = options.case {
        return vec![Case(case)];
    }
    let is_wanted = |case: &Case| !options.recoverable || case.is_recoverable();
    if options.all {
        let (k, n) = options.part.unwrap_or((0, 1));
        return (k..CASES).step_by(n.into()).map(Case).filter(is_wanted).collect();
    }
    let mut random = Rng::new(options.seed);
    let draw = || Case(u16::try_from(random.below(CASES.into())).expect("below 4,096"));
    std::iter::repeat_with(draw).filter(is_wanted).take(options.cases).collect()
}

/// An ensemble that has stopped, and a copy of its files.
struct Site {
    ensemble: Ensemble,
    template: PathBuf,
    /// The zxids of the entries.
    zxids: Vec<i64>,
    /// For each server, where they are.
    records: Vec<Vec<Record>>,
}

impl Site {
    /// Starts three servers, writes the entries, and kills the servers once all of them have all entries.
    fn prepare() -> Result<Site> {
        let work = paths::fresh_dir(&format!("damage-{}", std::process::id()))?;
        let servers = [(Program::Herdsman, Role::Participant); SERVERS];
        let settings = Settings::new(TICK_MS, SYNC_LIMIT);
        let mut ensemble = Ensemble::new(&work, &servers, &settings, Network::Loopback)?;
        let leader = ensemble.start_all()?;
        let mut session = Session::connect(ensemble.member(leader).address(), SESSION_TIMEOUT_MS)?;
        let mut zxids = Vec::new();
        for path in PATHS {
            session.ok(&Op::create(path, Some(DATA), 0))?;
            zxids.push(session.data(path)?.1.czxid());
        }
        zxids.insert(0, zxids[0] - 1);
        let records = ensemble.ids().map(|id| await_all(&ensemble.member(id).data_dir(), &zxids));
        let records = records.collect::<Result<Vec<_>>>()?;
        let ids: Vec<_> = ensemble.ids().collect();
        ensemble.kill(&ids)?;
        let template = work.join("template");
        for id in ensemble.ids() {
            paths::copy_dir(&ensemble.member(id).data_dir(), &template.join(id.to_string()))?;
        }
        Ok(Site { ensemble, template, zxids, records })
    }

    fn run(&mut self, case: Case, seed: u64) -> Result<()> {
        let mut random = Rng::new(seed ^ u64::from(case.0) << 32);
        let mut what = Vec::new();
        for id in self.ensemble.ids() {
            let data_dir = self.ensemble.member(id).data_dir();
            fs::remove_dir_all(&data_dir)?;
            paths::copy_dir(&self.template.join(id.to_string()), &data_dir)?;
            for (entry, record) in self.records[id - 1].iter().enumerate() {
                if case.damages(id - 1, entry) {
                    let damage = *random.pick(&DAMAGES);
                    damage_record(&data_dir, record, damage, &mut random)?;
                    what.push(format!("{:#x} on {id}: {damage:?}", self.zxids[entry]));
                }
            }
        }
        let outcome = if case.is_recoverable() { self.heal() } else { self.wait(case) };
        let ids: Vec<_> = self.ensemble.ids().collect();
        let running = ids.iter().filter(|id| self.ensemble.member(**id).is_running());
        let running: Vec<_> = running.copied().collect();
        self.ensemble.kill(&running)?;
        outcome.with_context(|| what.join(", "))
    }

    /// All entries must be on all servers, in clean files.
    fn heal(&mut self) -> Result<()> {
        self.ensemble.start_all()?;
        for id in self.ensemble.ids() {
            let mut session =
                Session::connect(self.ensemble.member(id).address(), SESSION_TIMEOUT_MS)?;
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
            let mut verify = Command::new(paths::herdsman());
            verify
                .args(["inspect", "data-dir", "--verify"])
                .arg(self.ensemble.member(id).data_dir());
            let done = run::all_output(&mut verify, "")?;
            ensure!(done.success, "the files of server {id} are not clean:\n{}", done.printed);
        }
        Ok(())
    }

    /// No server may serve, and one of those without an entry must say that it waits for it.
    fn wait(&mut self, case: Case) -> Result<()> {
        for id in self.ensemble.ids() {
            self.ensemble.member_mut(id).launch()?;
        }
        let lost: Vec<i64> = case.lost().map(|entry| self.zxids[entry]).collect();
        let deadline = Instant::now() + WAITS_MAX;
        let watched = Instant::now() + WATCHED;
        loop {
            let modes = self.ensemble.modes()?;
            let serving = modes.iter().find(|(_, mode)| matches!(mode, Some(Mode::Leader)));
            ensure!(serving.is_none(), "a leader, although {lost:x?} is lost: {modes:?}");
            let logs = self.ensemble.ids().map(|id| self.ensemble.member(id).log());
            let logs = logs.collect::<Result<Vec<_>>>()?.join("\n");
            let is_named = |zxid: &i64| {
                let waits = |line: &str| {
                    line.contains("waiting for") && line.contains(&format!("{zxid:#x}"))
                };
                logs.lines().any(waits)
            };
            if lost.iter().all(is_named) && Instant::now() >= watched {
                return Ok(());
            }
            if Instant::now() >= deadline {
                bail!("no server says that it waits for {lost:x?}:\n{logs}");
            }
            std::thread::sleep(POLL);
        }
    }
}

/// Where a record is.
struct Record {
    file: String,
    start: usize,
    end: usize,
}

/// Waits until a server's log has all of these records, and returns where they are.
fn await_all(data_dir: &Path, zxids: &[i64]) -> Result<Vec<Record>> {
    let deadline = Instant::now() + WAITS_MAX;
    loop {
        let found = zxids.iter().map(|zxid| find_record(data_dir, *zxid));
        match found.collect::<Result<Vec<_>>>() {
            Ok(records) => return Ok(records),
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => std::thread::sleep(POLL),
        }
    }
}

/// Finds a record by reading the files as Apache does.
fn find_record(data_dir: &Path, zxid: i64) -> Result<Record> {
    for entry in fs::read_dir(data_dir.join("version-2"))? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !file.starts_with("log.") {
            continue;
        }
        let bytes = fs::read(&path)?;
        let mut start = FILE_HEAD_BYTES;
        while let Some((found, end)) = record_at(&bytes, start) {
            if found == zxid {
                return Ok(Record { file, start, end });
            }
            start = end;
        }
    }
    bail!("no record of {zxid:#x} in {}", data_dir.display())
}

/// Flips a bit in the payload of the last record but one of the newest log; the server must be down.
pub fn damage_newest_log(data_dir: &Path) -> Result<()> {
    let folder = data_dir.join("version-2");
    let mut newest = None;
    for entry in fs::read_dir(&folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let zxid = name.strip_prefix("log.").and_then(|hex| i64::from_str_radix(hex, 16).ok());
        newest = newest.max(zxid.map(|zxid| (zxid, name)));
    }
    let (_, name) = newest.context("there is no log")?;
    let path = folder.join(name);
    let mut bytes = fs::read(&path)?;
    let mut starts = vec![FILE_HEAD_BYTES];
    while let Some((_, end)) = record_at(&bytes, starts[starts.len() - 1]) {
        starts.push(end);
    }
    let [.., start, _, _] = starts[..] else {
        bail!("{} has less than two records", path.display())
    };
    bytes[start + HEAD_BYTES] ^= 1;
    fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))
}

/// The zxid of the record that starts here, and where it ends.
fn record_at(bytes: &[u8], start: usize) -> Option<(i64, usize)> {
    let length = bytes.get(start + 8..start + HEAD_BYTES)?;
    let length = usize::try_from(i32::from_be_bytes(length.try_into().ok()?)).ok()?;
    let payload = bytes.get(start + HEAD_BYTES..start + HEAD_BYTES + length)?;
    // Session and cxid before.
    let zxid = payload.get(12..20)?;
    Some((i64::from_be_bytes(zxid.try_into().ok()?), start + HEAD_BYTES + length + 1))
}

fn damage_record(data_dir: &Path, record: &Record, damage: Damage, random: &mut Rng) -> Result<()> {
    let Record { file, start, end } = record;
    let (start, end) = (*start, *end);
    let path = data_dir.join("version-2").join(file);
    let mut bytes = fs::read(&path)?;
    let payload = start + HEAD_BYTES..end - 1;
    match damage {
        Damage::Checksum => bytes[start + 4 + random.below(4)] ^= 1 << random.below(8),
        Damage::Length => bytes[start + 8..start + HEAD_BYTES].fill(0),
        Damage::Body => bytes[payload.start + random.below(payload.len())] ^= 1 << random.below(8),
        Damage::Mark => bytes[end - 1] = 0,
        Damage::Whole => bytes[start..end].fill(0),
    }
    fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_of_eight_states_of_each_entry_can_be_healed() {
        assert_eq!((0..CASES).filter(|case| Case(*case).is_recoverable()).count(), 2401);
        assert_eq!(Case(0x111).lost().collect::<Vec<_>>(), [0]);
        assert!(Case(0x011).is_recoverable());
    }

    #[test]
    fn parts_are_read() {
        assert_eq!(part("1/3"), Ok((1, 3)));
        assert!(part("3/3").is_err() && part("x").is_err());
        assert_eq!(case_number("0x7ff"), Ok(0x7ff));
        assert!(case_number("1000").is_err());
    }
}
