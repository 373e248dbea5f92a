//! The experiment of "Protocol-Aware Recovery for Consensus-Based Storage" with whole ensembles: four entries, and
//! each copy of each entry damaged or not.
//!
//! In: a variant and a combination, a bit for each copy. Out: whether the ensemble recovered or waits, or what is
//! wrong. If every acknowledged entry is intact on some server, the ensemble must recover by itself: a leader, all
//! entries on all servers, clean files, and a server that votes again. Otherwise it must wait: no leader, damaged files
//! as they were, and the missing txns named. Another history is never allowed; besides, all checkers run.
//!
//! The number of a combination is also the seed of its world, so batches, files and the order of the restart vary.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use herdsman_proto::{ServerId, Zxid};
use herdsman_zab::quorum::Electorate;

use crate::checkers::Fact;
use crate::chronicle::fingerprint;
use crate::client::{Create, Op, Stage};
use crate::plan::{Plan, RequestKinds, Voting, member_line, membership};
use crate::random::Random;
use crate::run::{describe, settle, settle_ticks, wait};
use crate::world::{Event, ServerIndex, Tracing, World};

/// Entries that may be damaged.
pub const ENTRIES: usize = 4;
/// Combinations for three servers.
pub const COMBINATIONS: u64 = 1 << (3 * ENTRIES);
/// How long nothing may happen while an ensemble has to wait.
const WAIT_TICKS: u64 = 40;
/// More changes of a disk than a repair makes.
const REPAIR_STEPS_MAX: u64 = 60;

/// What is different from the plain experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Three servers have all entries; their processes end.
    Plain,
    /// The power fails, and an entry that is never damaged follows: the slots of the last batch may be missing.
    PowerFailure,
    /// Only the leader has the last entry, which is not acknowledged.
    Uncommitted,
    /// One server has only the first one to three entries.
    Lagging,
    /// Five servers, up to two of which lag behind.
    Five,
    /// The last entry makes a fourth server a voter; it is on the leader only, or on all servers, or acknowledged.
    Reconfiguration,
    /// The power fails in the first repair of each server, at every step of it.
    Interrupted,
}

impl Variant {
    /// All of them, with their names.
    pub const ALL: &[(Variant, &str)] = &[
        (Variant::Plain, "plain"),
        (Variant::PowerFailure, "power-failure"),
        (Variant::Uncommitted, "uncommitted"),
        (Variant::Lagging, "lagging"),
        (Variant::Five, "five"),
        (Variant::Reconfiguration, "reconfiguration"),
        (Variant::Interrupted, "interrupted"),
    ];

    fn servers(self) -> usize {
        match self {
            Variant::Five => 5,
            Variant::Reconfiguration => 4,
            _ => 3,
        }
    }
}

/// What became of an ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that was acknowledged is on all servers.
    Recovered,
    /// It has no leader.
    Waits,
}

/// What must become of an ensemble; `None` if both are right.
type Expected = Option<Outcome>;

/// Checks a combination. With more than three servers, the number selects one of the combinations at random.
///
/// # Errors
/// What is wrong, after the last events.
pub fn check(variant: Variant, number: u64) -> Result<Outcome, String> {
    if variant != Variant::Interrupted {
        return check_once(variant, number, None).map(|(outcome, _)| outcome);
    }
    for changes in 0..REPAIR_STEPS_MAX {
        let (outcome, is_interrupted) = check_once(variant, number, Some(changes))?;
        if is_interrupted {
            continue;
        }
        if changes == 0 && number > 0 && outcome == Outcome::Recovered {
            return Err("it recovers without a repair that could be interrupted".to_owned());
        }
        return Ok(outcome);
    }
    Err(format!("a repair takes more than {REPAIR_STEPS_MAX} steps"))
}

/// Checks a combination; a failure is repeated with words.
fn check_once(variant: Variant, number: u64, cut: Option<u64>) -> Result<(Outcome, bool), String> {
    let once = |tracing| {
        let mut experiment = Experiment::new(variant, number, tracing);
        let played = catch_unwind(AssertUnwindSafe(|| experiment.play(cut)));
        let result = played.unwrap_or_else(|_| Err("a server panicked".to_owned()));
        (result, experiment.world)
    };
    if let (Ok(outcome), world) = once(Tracing::Off) {
        return Ok((outcome, world.counts.interrupted_repairs > 0));
    }
    let (result, world) = once(Tracing::On);
    let why = result.err().unwrap_or_else(|| "it fails only without a trace".to_owned());
    let mut lines: Vec<String> = world.trace().map(str::to_owned).collect();
    lines.extend(describe(&world));
    Err(format!(
        "{}\n{variant:?}, combination {number}, cut after {cut:?}: {why}",
        lines.join("\n")
    ))
}

/// How far the last entry has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastEntry {
    Acknowledged,
    /// All servers have logged it, and no ack has reached the leader.
    OnAll,
    /// Only the leader has it.
    OnLeader,
}

/// Where a copy of an entry is.
struct Copy {
    place: ServerIndex,
    entry: usize,
    path: PathBuf,
    record: Range<usize>,
}

struct Experiment {
    variant: Variant,
    number: u64,
    world: World,
    /// Decides about everything that the world does not.
    random: Random,
}

fn plan(variant: Variant, seed: u64) -> Plan {
    let joiners = usize::from(variant == Variant::Reconfiguration);
    let rough = Plan::rotting(seed);
    Plan {
        membership: Arc::new(membership(variant.servers(), 0, Voting::Majority)),
        joiners,
        reconfig: joiners > 0,
        faults: crate::FaultKinds::NONE,
        rot_per_mille: 0,
        loss_per_mille: 0,
        snapshot_txns: 1000,
        session_ms: 2000,
        clients: 2,
        requests: RequestKinds::PLAIN,
        intruders: false,
        reconnects_per_mille: 0,
        local_sessions: herdsman_node::node::LocalSessions::Off,
        read_only_after_ms: None,
        ..rough
    }
}

impl Experiment {
    fn new(variant: Variant, number: u64, tracing: Tracing) -> Self {
        let world = World::new(plan(variant, number), tracing);
        Experiment { variant, number, world, random: Random::new(number ^ 0x6d61_7472) }
    }

    fn play(&mut self, cut: Option<u64>) -> Result<Outcome, String> {
        self.world.end_faults();
        let (zxids, acknowledged) = self.write_entries()?;
        self.stop_all();
        let copies = self.copies(&zxids);
        let (damaged, intact): (Vec<Copy>, Vec<Copy>) = {
            let sets = self.sets();
            let is_damaged = |copy: &Copy| sets >> (copy.place * ENTRIES + copy.entry) & 1 == 1;
            copies.into_iter().partition(is_damaged)
        };
        for copy in &damaged {
            self.damage(copy);
        }
        let expected = self.expected(&damaged, &intact, acknowledged);
        let before: Vec<_> =
            self.world.servers.iter().map(|server| server.storage.files()).collect();
        self.world.heal_network();
        let leaders = self.world.counts.leaders;
        for place in 0..self.world.servers.len() {
            self.world.servers[place].power_fails_in_repair = cut;
            let delay_ms = self.random.below(5 * self.world.plan.tick_ms);
            self.world.later(delay_ms, Event::Start { place });
        }
        if expected == Some(Outcome::Recovered) {
            settle(&mut self.world);
        } else {
            self.world.run_until(self.world.now_ms + WAIT_TICKS * self.world.plan.tick_ms);
        }
        self.check_world()?;
        if expected != Some(Outcome::Recovered) && self.world.counts.leaders == leaders {
            let lost = self.lost(&damaged, &intact, &zxids);
            self.check_waiting(&before, &lost)?;
            return Ok(Outcome::Waits);
        }
        if expected == Some(Outcome::Waits) {
            return Err("there is a leader, but an acknowledged entry is nowhere".to_owned());
        }
        self.check_recovered(&zxids[..acknowledged])?;
        Ok(Outcome::Recovered)
    }

    fn check_world(&self) -> Result<(), String> {
        match &self.world.failure {
            None => Ok(()),
            Some(failure) => Err(format!("{}: {}", failure.property, failure.why)),
        }
    }

    /// The copies to damage, a bit each.
    fn sets(&mut self) -> u64 {
        if self.variant.servers() == 3 {
            return self.number;
        }
        let per_mille = self.random.below(1000);
        let copies = self.variant.servers() * ENTRIES;
        (0..copies).fold(0, |sets, bit| sets | u64::from(self.random.per_mille(per_mille)) << bit)
    }

    fn wait(&mut self, what: &str, done: impl Fn(&World) -> bool) -> Result<(), String> {
        let ticks = settle_ticks(&self.world);
        wait(&mut self.world, ticks, what, done);
        self.check_world()
    }

    fn connect(&mut self, client: usize, place: ServerIndex) -> Result<(), String> {
        self.world.client_connects(client, place);
        self.wait("connecting", |world| world.clients[client].stage == Stage::Connected)
    }

    /// Waits until every server that can be reached has everything on its disk.
    fn wait_for_disks(
        &mut self,
        without: &[ServerIndex],
        last: Option<Zxid>,
    ) -> Result<(), String> {
        let without = without.to_vec();
        self.wait("writing to the disks", |world| {
            let last = last.unwrap_or_else(|| world.chronicle.last());
            let mut places = (0..world.servers.len()).filter(|place| !without.contains(place));
            places.all(|place| world.servers[place].flushed >= last)
        })
    }

    /// Writes the entries. Returns their zxids, and how many of them were acknowledged.
    fn write_entries(&mut self) -> Result<(Vec<Zxid>, usize), String> {
        let leader = self.start_ensemble()?;
        let before = self.world.chronicle.last();
        let last_is = self.last_entry();
        let lagging = self.lagging(leader);
        let lags_from = 1 + self.random.index(ENTRIES - 1);
        for entry in 0..ENTRIES {
            if entry == lags_from && !lagging.is_empty() {
                self.cut_off(&lagging, |_| true);
            }
            let mut is_answered = true;
            if entry == ENTRIES - 1 && last_is != LastEntry::Acknowledged {
                self.answers(entry)?;
                self.wait_for_disks(&[], None)?;
                // What is only logged reaches the others, but their acks do not reach the leader.
                self.cut_off(&[leader], |to| last_is == LastEntry::OnLeader || to == leader);
                is_answered = false;
            }
            let op = self.op(entry);
            self.world.client_sends(0, op);
            if is_answered && self.random.per_mille(500) {
                self.answers(entry + 1)?;
            }
        }
        let acknowledged = ENTRIES - usize::from(last_is != LastEntry::Acknowledged);
        self.answers(acknowledged)?;
        let others = || (0..self.world.servers.len()).filter(|place| *place != leader);
        let without = if last_is == LastEntry::OnLeader { others().collect() } else { lagging };
        self.wait_for_disks(&without, Some(Zxid(before.0 + ENTRIES as i64)))?;
        let entries = self.world.servers[leader].mirror.between(before, Zxid(i64::MAX));
        let zxids: Vec<_> = entries.into_iter().map(|(_, zxid, ..)| zxid).collect();
        if zxids.len() != ENTRIES {
            return Err(format!("not {ENTRIES} entries: {zxids:?}"));
        }
        if self.variant == Variant::PowerFailure {
            self.world.client_sends(0, Op::Create(Create::open("/end", 0, "")));
            self.answers(ENTRIES + 1)?;
            self.wait_for_disks(&[], None)?;
        }
        Ok((zxids, acknowledged))
    }

    /// Starts all servers, and connects a client to the leader.
    fn start_ensemble(&mut self) -> Result<ServerIndex, String> {
        for place in 0..self.world.servers.len() {
            self.world.start(place);
        }
        settle(&mut self.world);
        self.check_world()?;
        let mut places = 0..self.world.servers.len();
        let leader = places.find(|place| self.world.state(*place) == "leading");
        let leader = leader.ok_or("there is no leader")?;
        self.connect(0, leader)?;
        self.wait_for_disks(&[], None)?;
        Ok(leader)
    }

    fn last_entry(&self) -> LastEntry {
        match (self.variant, self.number % 3) {
            (Variant::Uncommitted, _) | (Variant::Reconfiguration, 0) => LastEntry::OnLeader,
            (Variant::Reconfiguration, 1) => LastEntry::OnAll,
            _ => LastEntry::Acknowledged,
        }
    }

    fn op(&self, entry: usize) -> Op {
        if entry < ENTRIES - 1 || self.variant != Variant::Reconfiguration {
            return Op::Create(Create::open(&format!("/entry{entry}"), 0, "an entry"));
        }
        let ids = 1..=self.variant.servers() as i64;
        let lines: Vec<_> = ids.map(|id| member_line(id, "participant")).collect();
        Op::Reconfig { members: lines.join(",") }
    }

    /// Cuts servers off from all others, as far as these receivers are concerned.
    fn cut_off(&mut self, places: &[ServerIndex], is_cut: impl Fn(ServerIndex) -> bool) {
        let servers = self.world.servers.len();
        let all = (0..servers).flat_map(|from| (0..servers).map(move |to| (from, to)));
        let crosses = |(from, to): &(ServerIndex, ServerIndex)| {
            from != to && (places.contains(from) || places.contains(to)) && is_cut(*to)
        };
        self.world.block(all.filter(crosses).collect());
    }

    fn lagging(&mut self, leader: ServerIndex) -> Vec<ServerIndex> {
        let count = match self.variant {
            Variant::Lagging => 1,
            Variant::Five => self.random.index(3),
            _ => 0,
        };
        let servers = self.world.servers.len();
        let first = leader + 1 + self.random.index(servers - 1);
        let places = (first..first + servers).map(|place| place % servers);
        places.filter(|place| *place != leader).take(count).collect()
    }

    fn answers(&mut self, count: usize) -> Result<(), String> {
        self.wait("answering writes", |world| world.clients[0].writes_done as usize >= count)
    }

    fn stop_all(&mut self) {
        for place in 0..self.world.servers.len() {
            match self.variant {
                Variant::PowerFailure => self.world.crash_hard(place),
                _ => self.world.kill(place),
            }
        }
        for client in 0..self.world.clients.len() {
            self.world.client_gives_up(client);
        }
    }

    fn copies(&self, zxids: &[Zxid]) -> Vec<Copy> {
        let mut copies = Vec::new();
        for (place, server) in self.world.servers.iter().enumerate() {
            for (zxid, path, record) in server.storage.record_places() {
                if let Some(entry) = zxids.iter().position(|entry| *entry == zxid) {
                    copies.push(Copy { place, entry, path, record });
                }
            }
        }
        copies
    }

    /// Damages a copy in its head, its body or its end mark.
    fn damage(&mut self, copy: &Copy) {
        let Copy { place, entry, path, record } = copy;
        let (start, end) = (record.start, record.end);
        let disk = self.world.servers[*place].storage.disk.clone();
        let Some(mut content) = disk.content(path) else { return };
        let (part, what) = match self.random.index(6) {
            0 => (start..start + 12, "head"),
            1 => (start + 8..start + 12, "length"),
            2 => (start + 12..end - 1, "body"),
            3 => (start + 32..start + 36, "a part of the body"),
            4 => (start..end, "whole"),
            _ => (end - 1..end, "end mark"),
        };
        let is_zero = content[part.clone()].iter().all(|byte| *byte == 0);
        let zeroes = self.random.per_mille(500) && !is_zero;
        content[part].iter_mut().for_each(|byte| *byte = if zeroes { 0 } else { *byte ^ 0xa5 });
        disk.put(path, content);
        self.world.note(|| format!("{place}: the copy of entry {entry} is damaged: {what}"));
    }

    fn expected(&self, damaged: &[Copy], intact: &[Copy], acknowledged: usize) -> Expected {
        let is_lost = |entry: &usize| {
            damaged.iter().any(|copy| copy.entry == *entry)
                && intact.iter().all(|copy| copy.entry != *entry)
        };
        if (0..acknowledged).any(|entry| is_lost(&entry)) {
            return Some(Outcome::Waits);
        }
        // Nobody knows whether it was acknowledged, but a quorum may do without it.
        let without = |entry: usize| {
            let has = |place| damaged.iter().any(|copy| copy.entry == entry && copy.place == place);
            let servers = self.world.servers.iter().enumerate();
            let others: BTreeSet<ServerId> =
                servers.filter(|(place, _)| !has(*place)).map(|(_, server)| server.id).collect();
            let voters = self.world.plan.first_membership(ServerId(1));
            Electorate::of(&voters).is_quorum(|id| others.contains(&id))
        };
        let can_do_without = (acknowledged..ENTRIES).filter(is_lost).all(without);
        can_do_without.then_some(Outcome::Recovered)
    }

    /// The txns that each server lacks and nobody has.
    fn lost(
        &self,
        damaged: &[Copy],
        intact: &[Copy],
        zxids: &[Zxid],
    ) -> BTreeMap<ServerIndex, BTreeSet<Zxid>> {
        let mut lost: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for copy in damaged {
            if intact.iter().all(|other| other.entry != copy.entry) {
                lost.entry(copy.place).or_default().insert(zxids[copy.entry]);
            }
        }
        lost
    }

    /// No leader; damaged files are as they were; servers say for what they wait.
    fn check_waiting(
        &self,
        before: &[BTreeMap<PathBuf, Vec<u8>>],
        lost: &BTreeMap<ServerIndex, BTreeSet<Zxid>>,
    ) -> Result<(), String> {
        for (place, server) in self.world.servers.iter().enumerate() {
            if self.world.serves(place) {
                return Err(format!("server {place} serves clients without a leader"));
            }
            let Some(repair) = &server.repair else {
                match lost.get(&place) {
                    Some(lost) => return Err(format!("server {place} does not wait for {lost:?}")),
                    None => continue,
                }
            };
            if server.storage.files() != before[place] {
                return Err(format!("the files of server {place} have changed while it waits"));
            }
            let ranges = repair.outstanding(&[]);
            let missing: BTreeSet<Zxid> =
                ranges.iter().flat_map(|range| (range.first.0..=range.last.0).map(Zxid)).collect();
            if !ranges.iter().all(|range| range.is_known) || Some(&missing) != lost.get(&place) {
                return Err(format!("server {place} waits for {ranges:?}, not for {lost:?}"));
            }
        }
        Ok(())
    }

    /// All servers vote and take writes, have all entries, and their files are clean.
    fn check_recovered(&mut self, acknowledged: &[Zxid]) -> Result<(), String> {
        settle(&mut self.world);
        self.check_world()?;
        self.wait("letting all servers vote", World::is_intact)?;
        settle(&mut self.world);
        self.check_world()?;
        let place = self.random.index(self.world.servers.len());
        self.connect(1, place)?;
        self.world.client_sends(1, Op::Create(Create::open("/after", 0, "")));
        self.wait("a write after the repair", |world| world.clients[1].writes_done > 0)?;
        self.wait_for_disks(&[], None)?;
        for place in 0..self.world.servers.len() {
            self.world.kill(place);
        }
        for zxid in acknowledged {
            if self.world.chronicle.get(*zxid).is_none() {
                return Err(format!("{zxid} was acknowledged and is not in the history"));
            }
        }
        for place in 0..self.world.servers.len() {
            self.check_files(place)?;
        }
        self.check_world()
    }

    fn check_files(&mut self, place: ServerIndex) -> Result<(), String> {
        let server = &self.world.servers[place];
        if let Some(damage) = server.storage.damage(&self.world.plan) {
            return Err(format!("the files of server {place} are not clean: {damage:?}"));
        }
        let mut found = BTreeMap::new();
        let records = server.storage.records(Zxid(-1), Zxid(i64::MAX));
        let mut records = records.map_err(|error| error.to_string())?;
        while let Some((zxid, payload)) =
            records.next_record().map_err(|error| error.to_string())?
        {
            found.insert(zxid, fingerprint(&payload));
        }
        let mirror = &server.mirror;
        // What it was just about to write may be missing.
        let covered = server.storage.newest_snapshot().max(mirror.base());
        for (_, zxid, hash, _) in mirror.between(covered, server.flushed) {
            if found.get(&zxid) != Some(&hash) {
                return Err(format!(
                    "server {place} has logged {zxid}, and it is not in its files"
                ));
            }
        }
        let tree = server.storage.open(&self.world.plan)?.tree;
        let (last, agreed) = (tree.last_zxid(), self.world.chronicle.last());
        if last < agreed {
            return Err(format!("the files of server {place} end with {last}, not {agreed}"));
        }
        // The end of a session may have been on its way.
        if last == agreed {
            self.world.report(&Fact::AtRest { trees: &[(place, &tree)] });
        }
        Ok(())
    }
}
