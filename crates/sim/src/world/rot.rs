//! Disks rot while their servers are down: records, headers and tables of log files, whole files, snapshots, epochs.
//!
//! All servers may be damaged at once, within what an ensemble can repair: each record is left intact somewhere, and a
//! server that only a leader's tree can help is one without which a quorum is sound. Damage beyond that is undone at
//! once. Damage that a server does not notice is a failure, which [`World::join`] finds.
//!
//! Nothing on a disk shows some pairs of losses, so one of the two is undone:
//! - the end of the newest log file, and the copies of the epochs, which say how far the log reached. A larger
//!   `acceptedEpoch` has the same effect: Apache may have run here, and its log ends anywhere;
//! - the end of an epoch in an older file, and the footer of the next one, which says what came before it, unless a
//!   repair has made that file anew;
//! - two of both epoch files and their copies.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;

use herdsman_proto::Zxid;
use herdsman_store::repair::{Damage, Gap};

use super::{Server, ServerIndex, World};
use crate::checkers::Fact;
use crate::storage::{RotPlace, Storage};

/// Whether a snapshot may be missing that a server has taken from a leader. If it is the only file, the server starts
/// empty, and nothing on its disk shows that it should not.
const NEWEST_SNAPSHOTS_ROT: bool = false;

/// What may become of a server with a damaged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prospect {
    /// It repairs itself, with records of others if it has to.
    Repairs,
    /// Only a leader can help.
    NeedsLeader,
    /// Nobody can help.
    Hopeless,
    /// It does not start, and does not know what is damaged.
    Refuses,
    /// It starts, and does not know that something is missing.
    Unnoticed,
    /// The same, and what is missing is in the middle.
    HasHole,
}

impl World {
    /// Several servers crash, and find damaged files when they start again.
    pub(super) fn rot_everywhere(&mut self) {
        for place in 0..self.servers.len() {
            if self.random.per_mille(600) {
                self.crash(place);
            }
        }
        let places: Vec<_> =
            self.servers.iter().map(|server| server.storage.record_places()).collect();
        let mut copies = BTreeMap::new();
        for (server, records) in self.servers.iter().zip(&places) {
            for (zxid, ..) in records.iter().filter(|(zxid, ..)| *zxid <= server.flushed) {
                *copies.entry(*zxid).or_insert(0) += 1;
            }
        }
        for (place, records) in places.into_iter().enumerate() {
            if !self.may_rot(place) {
                continue;
            }
            for (zxid, path, record) in records {
                let left = copies.entry(zxid).or_insert(0);
                if *left > 1
                    && self.random.per_mille(100)
                    && self.rot_record(place, (zxid, path, record))
                {
                    *left -= 1;
                }
            }
        }
        for place in 0..self.servers.len() {
            if self.may_rot(place) && self.random.per_mille(300) {
                self.rot_file(place);
            }
        }
    }

    fn may_rot(&self, place: ServerIndex) -> bool {
        let server = &self.servers[place];
        server.process.is_none() && server.repair.is_none() && server.refusal.is_none()
    }

    /// Damages a record, unless that would hide other damage. Returns whether it is damaged.
    fn rot_record(&mut self, place: ServerIndex, record: (Zxid, PathBuf, Range<usize>)) -> bool {
        let (zxid, path, part) = record;
        let storage = self.servers[place].storage.clone();
        let (before, records) = (storage.files(), zxids(&storage));
        if !storage.damage_noticeably(&self.plan, &path, part, zxid, &mut self.random) {
            return false;
        }
        if self.prospect(place, &records, &storage) != Prospect::Repairs {
            storage.restore(&path, &before);
            return false;
        }
        self.note(|| format!("{place} rots: the record of {zxid}"));
        true
    }

    /// Damages a file, or removes it.
    fn rot_file(&mut self, place: ServerIndex) {
        let storage = self.servers[place].storage.clone();
        let before = storage.files();
        let records = zxids(&storage);
        let Some((path, what)) = storage.rot_file(&mut self.random) else { return };
        let (is_epochs, remembers_log) = (what.place == RotPlace::Epochs, storage.remembers_log());
        let stays = match self.prospect(place, &records, &storage) {
            // One of the copies is intact.
            _ if !self.may_lack(place, &records, &storage) => false,
            Prospect::Unnoticed if what.place == RotPlace::Snapshot => NEWEST_SNAPSHOTS_ROT,
            // Both the end of the log and what is known of it.
            Prospect::Unnoticed if !remembers_log => false,
            // Both the end of an epoch and what the next file says of it.
            Prospect::HasHole => !self.servers[place].footers_rot,
            // Both numbers or both copies.
            _ if is_epochs && self.servers[place].epochs_rot => false,
            Prospect::Repairs | Prospect::Unnoticed | Prospect::Refuses => true,
            Prospect::NeedsLeader => self.may_need_leader(place),
            Prospect::Hopeless => false,
        };
        if stays {
            self.servers[place].epochs_rot |= is_epochs;
            self.servers[place].footers_rot |= what.place == RotPlace::Log;
            self.counts.rotten_files += 1;
            self.note(|| format!("{place} rots: {}: {}", path.display(), what.words));
        } else {
            storage.restore(&path, &before);
        }
    }

    /// Whether no other server may need a record that a server has lost.
    fn may_lack(&self, place: ServerIndex, had: &BTreeSet<Zxid>, storage: &Storage) -> bool {
        let lost = had - &zxids(storage);
        lost.is_empty() || self.are_others_whole(place) || self.have_others(place, lost)
    }

    /// Whether each of these records is intact on another server.
    fn have_others(&self, place: ServerIndex, mut records: BTreeSet<Zxid>) -> bool {
        let servers = self.servers.iter().enumerate().filter(|(other, _)| *other != place);
        for (_, server) in servers {
            records = &records - &zxids(&server.storage);
        }
        records.is_empty()
    }

    /// Whether a server may lose so much that it needs a leader; if so, that is noted.
    fn may_need_leader(&mut self, place: ServerIndex) -> bool {
        // A voter that is still empty when another one is not would wait for this one.
        let has_begun = self.servers.iter().any(|server| server.followed > 0);
        let may = self.plan.may_lose_votes()
            && has_begun
            && self.may_be_damaged(place)
            && self.are_others_whole(place);
        self.servers[place].needs_leader |= may;
        may
    }

    /// Whether nobody may have to repair itself with records of this server.
    fn are_others_whole(&self, place: ServerIndex) -> bool {
        let is_whole = |server: &Server| {
            server.repair.is_none() && server.storage.damage(&self.plan).is_none()
        };
        let mut servers = self.servers.iter().enumerate();
        servers.all(|(other, server)| other == place || is_whole(server))
    }

    fn prospect(&self, place: ServerIndex, before: &BTreeSet<Zxid>, storage: &Storage) -> Prospect {
        let server = &self.servers[place];
        match storage.copy().open(&self.plan) {
            Ok(found) if found.tree.last_zxid() < server.flushed => Prospect::Unnoticed,
            Ok(_) if self.has_hole(place, before, &[]) => Prospect::HasHole,
            Ok(found) if found.suspended.is_some() && server.is_sound() => Prospect::NeedsLeader,
            Ok(_) => Prospect::Repairs,
            Err(_) => match storage.damage(&self.plan) {
                Some(damage) => self.prospect_of(place, before, &damage),
                None => Prospect::Refuses,
            },
        }
    }

    /// Whether the end of an epoch is missing where no gap shows it: zxids do not, and the footer of the next file,
    /// which does, is damaged, too.
    fn has_hole(&self, place: ServerIndex, before: &BTreeSet<Zxid>, gaps: &[Gap]) -> bool {
        let Server { storage, mirror, flushed, .. } = &self.servers[place];
        let had = zxids(storage);
        let is_silent = |zxid: Zxid| {
            let next = had.range(zxid..).next();
            let is_named = |gap: &Gap| gap.known.iter().any(|id| id.zxid == zxid);
            let shows = |gap: &Gap| gap.contains(zxid) && (!gap.is_complete || is_named(gap));
            let is_shown = gaps.iter().any(shows);
            next.is_some_and(|next| next.epoch() > zxid.epoch()) && !is_shown
        };
        let logged = mirror.between(storage.oldest_snapshot(), *flushed);
        let logged = logged.into_iter().map(|(_, zxid, ..)| zxid);
        logged.chain(before.iter().copied()).any(is_silent)
    }

    fn prospect_of(
        &self,
        place: ServerIndex,
        before: &BTreeSet<Zxid>,
        damage: &Damage,
    ) -> Prospect {
        if damage.needs_tree.is_some() {
            return Prospect::NeedsLeader;
        }
        if self.has_hole(place, before, &damage.gaps) {
            return Prospect::HasHole;
        }
        if damage.gaps.iter().any(|gap| !gap.is_complete) {
            return Prospect::NeedsLeader;
        }
        if damage.end < Some(self.servers[place].flushed) {
            return Prospect::Unnoticed;
        }
        let missing = damage.gaps.iter().flat_map(|gap| &gap.known).map(|id| id.zxid).collect();
        match self.have_others(place, missing) {
            true => Prospect::Repairs,
            false => Prospect::Hopeless,
        }
    }

    /// Some voter that is down loses its directories and does not know it.
    pub(super) fn empty_some_voter(&mut self) {
        let places: Vec<_> =
            (0..self.servers.len()).filter(|place| self.may_be_damaged(*place)).collect();
        if places.is_empty() {
            return;
        }
        let place = *self.random.pick(&places);
        if !self.are_others_whole(place) {
            return;
        }
        self.note(|| format!("{place} is emptied"));
        self.counts.emptied += 1;
        let server = &mut self.servers[place];
        server.storage = Storage::new();
        server.mirror.reset(Zxid::ZERO);
        server.mirror_installed.reset(Zxid::ZERO);
        server.flushed = Zxid::ZERO;
        server.promised = 0;
        server.followed = 0;
        server.repair = None;
        server.set_aside = None;
        (server.needs_leader, server.lost) = (true, false);
        self.report(&Fact::LostDisk { place });
    }
}

/// The records of a server's log.
fn zxids(storage: &Storage) -> BTreeSet<Zxid> {
    storage.record_places().into_iter().map(|(zxid, ..)| zxid).collect()
}
