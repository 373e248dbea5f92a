//! `herdsman repair --from DIR`: takes records that are damaged or missing here from the files of another server, or
//! from a copy of this one's.
//!
//! In: directories with logs of Herdsman or Apache. Out: log files that have these records in their places. What may be
//! taken, and why, is in [`herdsman_store::repair`]. A zxid names one txn in an ensemble; on a standalone server it
//! names a second one after a restore. So records that both sides have must be the same, and the repaired history is
//! replayed in a scratch directory, with a comparison of digests, before a file is changed.
//!
//! # A lost end
//! Without a persist table nobody knows how far a log went whose end is lost. Whoever names a directory
//! here has decided that there is nothing better, so the end is taken from it: what follows the last valid record
//! without a gap, if that very record is there, too. Later txns, if there were any, are given up, so a member does not
//! vote afterwards.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use herdsman_proto::{ServerId, Zxid};
use herdsman_store::log::checksum;
use herdsman_store::recover::load;
use herdsman_store::repair::{
    Answer, Irreparable, KeepDamaged, Outstanding, PeerFinding, SplicePlan, plan_splice,
};
use herdsman_store::{
    Assessment, COPIES_FILE, Damage, Dirs, Gap, LogRange, OnDigestMismatch, PrecedingTxn,
    RangeError, RealDisk, RecordId, RecoverOptions, Repair, assess, read_records,
};

use super::diagnosis::Diagnosis;
use crate::console::{Console, Outcome};
use crate::durable::ToolDisk;
use crate::kept_files::KeptFiles;
use crate::location::Location;
use crate::show::clean;
use crate::verify::data_dir::load_options;

/// Records around a gap that are compared with those of a source.
const COMPARED: i64 = 1000;
/// Lines of each kind that are printed.
const LINES_MAX: usize = 50;

/// A directory to take records from.
struct Source {
    name: String,
    dirs: Dirs,
}

/// A repair that was planned.
pub(super) struct FromPlan {
    damage: Damage,
    sources: Vec<Source>,
    /// The end of the log, if only a source shows it.
    end: Option<FoundEnd>,
    repair: Repair,
    splice: SplicePlan,
}

/// What follows the last valid record here, as a source has it.
struct FoundEnd {
    source: usize,
    zxids: Vec<Zxid>,
}

/// The work to be done.
pub(super) enum FromResult {
    /// Nothing is damaged that records could repair.
    Nothing(Box<Diagnosis>),
    /// Something is damaged.
    Plan(Box<FromPlan>),
}

/// Finds what is missing here and what the sources have of it. Changes nothing.
pub(super) fn plan(from: &[PathBuf], location: &Location) -> Result<FromResult> {
    let sources = from.iter().map(|dir| Source::find(dir, location));
    let sources = sources.collect::<Result<Vec<_>>>()?;
    let damage = match assess(&RealDisk, &location.dirs, &load_options())? {
        // Snapshots may be left that are damaged and not needed: an interrupted repair puts them aside last.
        Assessment::Whole => no_damage(),
        Assessment::Damaged(damage) => damage,
    };
    let is_whole = damage == no_damage();
    for source in &sources {
        source.refuse_other_history(location, &damage)?;
    }
    let mut wanted = damage.clone();
    let end = find_end(&sources, location, &damage)?;
    if let (Some(end), Some(gap)) = (&end, wanted.gaps.last_mut()) {
        end.complete(gap);
    }
    let mut repair = Repair::new(wanted);
    for (index, source) in sources.iter().enumerate() {
        source.fill(&mut repair, peer(index))?;
    }
    let splice = plan_splice(&RealDisk, &location.dirs, &load_options(), &repair)?;
    if is_whole && splice.is_empty() {
        return Ok(FromResult::Nothing(Box::new(Diagnosis::of(location))));
    }
    if !splice.is_empty() {
        try_in_scratch(location, &repair)?;
    }
    Ok(FromResult::Plan(Box::new(FromPlan { damage, sources, end, repair, splice })))
}

/// The longest end that a source has, if the end here is lost and nothing says how far it went.
fn find_end(sources: &[Source], location: &Location, damage: &Damage) -> Result<Option<FoundEnd>> {
    let is_lost = |gap: &&Gap| gap.before.is_none() && !gap.is_complete;
    let Some(gap) = damage.gaps.last().filter(is_lost) else { return Ok(None) };
    let mut found: Option<FoundEnd> = None;
    for (index, source) in sources.iter().enumerate() {
        let zxids = source.following(location, gap.after)?;
        let has_known = gap.known.iter().all(|id| zxids.contains(&id.zxid));
        let is_longer = zxids.len() > found.as_ref().map_or(0, |found| found.zxids.len());
        if has_known && is_longer {
            found = Some(FoundEnd { source: index, zxids });
        }
    }
    Ok(found)
}

impl FoundEnd {
    /// Names the txns that are missing at the end.
    fn complete(&self, gap: &mut Gap) {
        let known = std::mem::take(&mut gap.known);
        let id = |zxid: &Zxid| {
            known.iter().find(|id| id.zxid == *zxid).copied().unwrap_or(RecordId::of(*zxid))
        };
        gap.known = self.zxids.iter().map(id).collect();
        gap.is_complete = true;
    }

    fn text(&self, source: &Source) -> String {
        let (first, last) = (self.zxids[0], self.zxids[self.zxids.len() - 1]);
        let name = &source.name;
        format!(
            "The end of the log is lost, and nothing here says how far it went. {name} goes on with {}. If there were later ones, they are given up",
            txns(first, last)
        )
    }
}

fn no_damage() -> Damage {
    let good = Zxid::ZERO;
    Damage { good, gaps: Vec::new(), end: Some(good), needs_tree: None, places: Vec::new() }
}

/// The number under which a source is known to a repair.
fn peer(index: usize) -> ServerId {
    ServerId(i64::try_from(index).expect("the arguments of a command are few"))
}

impl Source {
    fn find(dir: &Path, location: &Location) -> Result<Self> {
        let dirs = Location::find(dir)
            .with_context(|| format!("--from {}: nothing was changed", dir.display()))?
            .dirs;
        let real = |dir: &Path| dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let own = [real(&location.dirs.data), real(&location.dirs.log)];
        if own.contains(&real(&dirs.log)) {
            bail!(
                "--from {} is the directory that is to be repaired. Nothing was changed",
                dir.display()
            );
        }
        Ok(Source { name: clean(&dir.display().to_string()), dirs })
    }

    /// Takes what this source has of what is missing.
    fn fill(&self, repair: &mut Repair, peer: ServerId) -> Result<()> {
        let damaged = match assess(&RealDisk, &self.dirs, &load_options()) {
            Ok(Assessment::Damaged(damage)) => damage.gaps,
            // It may have logs only, or be damaged in a way that does not matter here.
            Ok(Assessment::Whole) | Err(_) => Vec::new(),
        };
        let end = Zxid(i64::MAX);
        let damaged: Vec<(Zxid, Zxid)> =
            damaged.iter().map(|gap| (gap.after, gap.before.unwrap_or(end))).collect();
        for (after, before) in repair.wanted() {
            let mut offer = repair.offer_of(peer, (after, before));
            let mut records = read_records(Arc::new(RealDisk), &self.dirs, after, before)?;
            while let Some((zxid, payload)) = records.next_record()? {
                if !offer.push(zxid, payload) {
                    break;
                }
            }
            let unbroken = records.is_unbroken();
            repair.offer(offer, Answer { unbroken, damaged: damaged.clone() });
        }
        Ok(())
    }

    /// The txns that follow this one here without a gap, if this source has the very record that is in our log.
    fn following(&self, location: &Location, after: Zxid) -> Result<Vec<Zxid>> {
        let range = (Zxid(after.0.saturating_sub(1)), after.next());
        let own = checksums(&location.dirs, range.0, range.1)?;
        let others = checksums(&self.dirs, range.0, range.1)?;
        let mut zxids = Vec::new();
        if !own.contains_key(&after) || own.get(&after) != others.get(&after) {
            return Ok(zxids);
        }
        let (after, end) = ((after, PrecedingTxn::Known), Zxid(i64::MAX));
        let mut range = LogRange::open(Arc::new(RealDisk), &self.dirs, after, end)?;
        loop {
            match range.next_txn() {
                Ok(Some((zxid, _))) => zxids.push(zxid),
                // The end of the files, or something that nothing proves to follow.
                Ok(None) | Err(RangeError::Missing { .. }) => return Ok(zxids),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Fails if a txn that both sides have is not the same one.
    fn refuse_other_history(&self, location: &Location, damage: &Damage) -> Result<()> {
        for gap in &damage.gaps {
            let from = Zxid((gap.after.0 - COMPARED).max(0));
            let sides = [
                (from, gap.after.next()),
                (
                    gap.before.map_or(gap.after, |it| Zxid(it.0 - 1)),
                    Zxid(gap.before.map_or(gap.after.0, |it| it.0.saturating_add(COMPARED))),
                ),
            ];
            for (after, before) in sides {
                let own = checksums(&location.dirs, after, before)?;
                let others = checksums(&self.dirs, after, before)?;
                let differs =
                    |zxid: &&Zxid| others.get(zxid).is_some_and(|it| Some(it) != own.get(zxid));
                if let Some(zxid) = own.keys().find(differs) {
                    bail!(
                        "txn {zxid} in {} is not the one that is here: these are the files of another history (of another ensemble, or from before a restore). Nothing was changed",
                        self.name
                    );
                }
            }
        }
        Ok(())
    }
}

/// The checksums of the records between two txns.
fn checksums(dirs: &Dirs, after: Zxid, before: Zxid) -> Result<BTreeMap<Zxid, i64>> {
    let mut found = BTreeMap::new();
    let mut records = read_records(Arc::new(RealDisk), dirs, after, before)?;
    while let Some((zxid, payload)) = records.next_record()? {
        found.insert(zxid, checksum(&payload));
    }
    Ok(found)
}

/// Repairs links to the files in a scratch directory, and replays the result if it is whole. So nothing is changed
/// before it is known that a server starts from it.
fn try_in_scratch(location: &Location, repair: &Repair) -> Result<()> {
    let scratch = tempfile::tempdir().context("cannot make a temporary directory")?;
    let Dirs { data, log } = &location.dirs;
    let (data_dir, log_dir) = (scratch.path().join("data"), scratch.path().join("log"));
    let dirs = Dirs::below(&data_dir, if data == log { &data_dir } else { &log_dir });
    for (from, to) in [(data, &dirs.data), (log, &dirs.log)] {
        if to.is_dir() {
            continue;
        }
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let (path, scratch) = (entry.path(), to.join(entry.file_name()));
            if entry.file_name() == COPIES_FILE {
                // A repair changes it in its place.
                fs::copy(path, scratch)?;
            } else if path.is_file() {
                symlink(absolute(path)?, scratch)?;
            }
        }
    }
    let options = RecoverOptions { on_mismatch: OnDigestMismatch::Refuse, ..load_options() };
    plan_splice(&RealDisk, &dirs, &options, repair)?.carry_out(&RealDisk, KeepDamaged::No)?;
    if assess(&RealDisk, &dirs, &options)? != Assessment::Whole {
        return Ok(());
    }
    let (recovered, _) = load(&RealDisk, &dirs, &options, &mut |_| {}).context(
        "a server would not start from the repaired files: the records that were found do not belong to this history. Nothing was changed",
    )?;
    // A record that later ones have overwritten must be right, too.
    let found = repair.found();
    let was_found =
        |zxid: Zxid| found.iter().any(|(first, last, _)| *first <= zxid && zxid <= *last);
    match recovered.digest_mismatch.filter(|mismatch| was_found(mismatch.zxid)) {
        Some(mismatch) => bail!(
            "{mismatch}: the record that was found does not belong to this history. Nothing was changed"
        ),
        None => Ok(()),
    }
}

impl FromPlan {
    /// Whether no file would be changed.
    pub(super) fn is_empty(&self) -> bool {
        self.splice.is_empty()
    }

    /// Whether everything that is missing was found.
    pub(super) fn is_complete(&self) -> bool {
        self.repair.is_complete()
    }

    /// Whether txns may be given up, since nobody knows how far the log went.
    pub(super) fn ends_as_a_source(&self) -> bool {
        self.end.is_some() && self.is_complete()
    }

    /// Prints what is damaged, what was found where, and what will be done.
    pub(super) fn print(&self, console: &mut Console<'_>) -> Result<()> {
        let places = self.damage.places.iter().map(|place| clean(&place.to_string()));
        print_list("What is damaged:", &places.collect::<Vec<_>>(), console)?;
        let found = self.repair.found();
        let found = found.iter().map(|(first, last, peer)| {
            let source = &self.sources[self.index(*peer)].name;
            format!("{}, in {source}", txns(*first, *last))
        });
        print_list("What was found:", &found.collect::<Vec<_>>(), console)?;
        let peers: Vec<ServerId> = (0..self.sources.len()).map(peer).collect();
        let missing = self.repair.outstanding(&peers);
        let missing: Vec<_> = missing.iter().map(|it| self.missing_text(it)).collect();
        print_list("What is still missing:", &missing, console)?;
        if let Some(reason) = self.repair.irreparable() {
            console.print(irreparable_text(reason))?;
        }
        if let Some(end) = self.end.as_ref().filter(|_| self.is_complete()) {
            console.print(end.text(&self.sources[end.source]))?;
        }
        print_list("What will be done:", &self.splice.lines(), console)
    }

    fn index(&self, peer: ServerId) -> usize {
        usize::try_from(peer.0).unwrap_or(0).min(self.sources.len() - 1)
    }

    fn missing_text(&self, missing: &Outstanding) -> String {
        let Outstanding { first, last, is_known, peers } = missing;
        let mut text = match is_known {
            true => txns(*first, *last),
            false if last.0 == i64::MAX => format!("whatever came after txn {first}"),
            false => format!("whatever was between txns {first} and {last}"),
        };
        for (peer, finding) in peers {
            let what = match finding {
                PeerFinding::NotAnswered => continue,
                PeerFinding::Damaged => "damaged",
                PeerFinding::Missing if *is_known => "not there",
                PeerFinding::Missing => "not complete",
                PeerFinding::Different => "a different record",
            };
            let _ = write!(text, "; {what} in {}", self.sources[self.index(*peer)].name);
        }
        text
    }

    /// Carries out the plan. The files that are replaced are kept.
    pub(super) fn carry_out(
        &self,
        location: &Location,
        disk: ToolDisk,
        console: &mut Console<'_>,
    ) -> Result<()> {
        let mut keeper = KeptFiles::new("repair-backup", disk);
        let kept = self.splice.replaced().iter().try_for_each(|path| {
            let is_log = path.parent() == Some(location.dirs.log.as_path());
            keeper.keep(path, if is_log { &location.log_dir } else { &location.data_dir })
        });
        if let Err(error) = kept {
            keeper.discard();
            return Err(error.context("nothing was changed"));
        }
        let done = self.splice.carry_out(&disk, KeepDamaged::No);
        for dir in keeper.dirs() {
            console.print(format_args!("the original files are in {}", dir.display()))?;
        }
        let done =
            done.context("the repair was interrupted; run the same command again for the rest")?;
        for path in done.files {
            console.print(format_args!("done: {}", path.display()))?;
        }
        Ok(())
    }
}

fn irreparable_text(reason: Irreparable) -> String {
    let advice = match reason {
        Irreparable::NoSnapshot => {
            "restore one from a backup, or see which other repair helps (herdsman repair without an action)"
        }
        Irreparable::WrongTree | Irreparable::MixedHistories => {
            "a member of an ensemble takes everything from its leader when it starts; for a standalone server, restore a backup"
        }
        Irreparable::EndUnknown => {
            "a member of an ensemble takes it from its leader when it starts; for a standalone server, name a copy that has the last valid txn and what follows it, or give the end up (--accept-loss)"
        }
        Irreparable::TooLarge => "restore a backup, or let the server take a tree from its leader",
    };
    format!("Records cannot complete this repair: {reason}; {advice}")
}

fn txns(first: Zxid, last: Zxid) -> String {
    if first == last { format!("txn {first}") } else { format!("txns {first} to {last}") }
}

fn print_list(title: &str, lines: &[String], console: &mut Console<'_>) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    console.print(title)?;
    for line in lines.iter().take(LINES_MAX) {
        console.print(format_args!("  {line}"))?;
    }
    match lines.len().saturating_sub(LINES_MAX) {
        0 => Ok(()),
        more => console.print(format_args!("  and {more} more")),
    }
}

/// The outcome of a repair after which some txns are still missing.
pub(super) fn outcome(is_complete: bool, verified: Outcome) -> Outcome {
    if is_complete { verified } else { Outcome::Problems }
}
