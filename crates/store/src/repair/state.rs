//! Which missing records were found, and which are still missing. Pure.
//!
//! In: what is damaged, and what each peer has of it. Out: what to ask for, and what is accepted. The rules, and why
//! they are safe, are in [`super`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use herdsman_proto::txn::Entry;
use herdsman_proto::{ServerId, Zxid};

use super::{Damage, Gap, RecordId};
use crate::log::checksum;

/// The most bytes of records that one repair gathers. A server that lacks more takes a tree.
pub const REPAIR_BYTES_MAX: usize = 256 << 20;
/// With less room than this, no more is gathered: a record may be that large.
const OFFER_ROOM_MIN: usize = 4 << 20;
/// What a record costs besides its payload.
const RECORD_COST_BYTES: usize = 100;
/// Entries in the list of what is still missing.
pub const OUTSTANDING_MAX: usize = 100;
/// What is kept of the answers of a peer: ranges that it answered for, ranges damaged there, records refused.
const NOTED_MAX: usize = 1000;

/// Why records of other servers cannot complete a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Irreparable {
    /// There is no usable snapshot.
    #[error("no snapshot can be used")]
    NoSnapshot,
    /// The tree of the snapshot and the log is not the one that they were written from.
    #[error(
        "the snapshot and the log do not give the tree that they were written from: txns are missing without a trace \
         (a log file at the end of an epoch), or a snapshot is wrong"
    )]
    WrongTree,
    /// The log has files of several histories.
    #[error("zxids go back, so the log files are not of one history")]
    MixedHistories,
    /// The end of the log is lost, and nothing says how far it went.
    #[error(
        "the end of the log is damaged or missing, and it is not known which txn was the last one"
    )]
    EndUnknown,
    /// More is missing than is gathered.
    #[error("more than {REPAIR_BYTES_MAX} bytes of records are missing")]
    TooLarge,
}

/// The records that one peer has of a range.
#[derive(Debug)]
pub struct Offer {
    peer: ServerId,
    after: Zxid,
    before: Zxid,
    records: Vec<(Zxid, Bytes)>,
    bytes: usize,
    bytes_max: usize,
    /// Something was left out.
    is_partial: bool,
    /// For lack of room.
    is_full: bool,
    /// Records that are not txns.
    refused: Vec<Zxid>,
}

impl Offer {
    /// Starts with nothing: the peer was asked for the txns after `after` and before `before`.
    #[must_use]
    pub fn new(peer: ServerId, after: Zxid, before: Zxid) -> Self {
        Offer {
            peer,
            after,
            before,
            records: Vec::new(),
            bytes: 0,
            bytes_max: REPAIR_BYTES_MAX,
            is_partial: false,
            is_full: false,
            refused: Vec::new(),
        }
    }

    /// Adds the next record. Returns whether there is room for more; otherwise the rest need not be read. A record that
    /// was not asked for, is out of order or is not the txn that it should be is left out.
    pub fn push(&mut self, zxid: Zxid, payload: Bytes) -> bool {
        let last = self.records.last().map_or(self.after, |(zxid, _)| *zxid);
        let cost = payload.len() + RECORD_COST_BYTES;
        if zxid <= last || zxid >= self.before {
            self.is_partial = true;
        } else if !is_txn(zxid, &payload) {
            self.is_partial = true;
            if self.refused.len() < NOTED_MAX {
                self.refused.push(zxid);
            }
        } else if self.bytes + cost > self.bytes_max {
            (self.is_partial, self.is_full) = (true, true);
            return false;
        } else {
            self.bytes += cost;
            self.records.push((zxid, payload));
        }
        true
    }
}

/// Whether a payload is the txn with this zxid.
fn is_txn(zxid: Zxid, payload: &[u8]) -> bool {
    Entry::decode(payload).is_ok_and(|entry| entry.header.zxid == zxid)
}

/// What a peer says at the end of its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// It has the txns on both sides of the range, and nothing is missing between them
    /// ([`super::RecordsBetween::is_unbroken`]).
    pub unbroken: bool,
    /// Where its own log is damaged: the txns around each gap.
    pub damaged: Vec<(Zxid, Zxid)>,
}

/// What became of an offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// Records that were missing until now.
    pub accepted: usize,
    /// Records of missing txns that are not the ones that were here.
    pub refused: usize,
}

/// What is known of a missing txn at a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerFinding {
    /// The peer has not answered for it.
    NotAnswered,
    /// The peer's log is damaged there, too.
    Damaged,
    /// The peer does not have it (any more).
    Missing,
    /// The peer sent a record that is not the one that was here.
    Different,
}

/// Missing txns, and what is known of them elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// The first one; of a gap in which the txns are not known, the txn before it.
    pub first: Zxid,
    /// The last one; of a gap in which the txns are not known, the txn after it.
    pub last: Zxid,
    /// The txns are known.
    pub is_known: bool,
    /// What was found at each peer.
    pub peers: Vec<(ServerId, PeerFinding)>,
}

impl fmt::Display for Outstanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outstanding { first, last, is_known, peers } = self;
        match (is_known, first == last) {
            (true, true) => write!(f, "txn {first}")?,
            (true, false) => write!(f, "txns {first} to {last}")?,
            (false, _) if last.0 == i64::MAX => write!(f, "all txns after {first}")?,
            (false, _) => write!(f, "all txns between {first} and {last}")?,
        }
        f.write_str(": damaged here")?;
        for (peer, finding) in peers {
            match finding {
                PeerFinding::NotAnswered => write!(f, ", not answered by {peer}")?,
                PeerFinding::Damaged => write!(f, ", damaged on {peer}")?,
                PeerFinding::Missing => write!(f, ", missing on {peer}")?,
                PeerFinding::Different => write!(f, ", different on {peer}")?,
            }
        }
        Ok(())
    }
}

/// A gap, and what was found of it.
#[derive(Debug)]
struct GapRepair {
    gap: Gap,
    /// What was found, and at whom.
    records: BTreeMap<Zxid, (ServerId, Bytes)>,
    /// All of it was found.
    is_filled: bool,
    /// It is not known which txns are missing, and a peer has more than there is room for. As all of them must come
    /// from one peer, no other answer helps.
    is_too_large: bool,
}

impl GapRepair {
    fn missing(&self) -> impl Iterator<Item = &RecordId> {
        self.gap.known.iter().filter(|id| !self.records.contains_key(&id.zxid))
    }
}

/// What a peer has answered.
#[derive(Debug, Default)]
struct PeerAnswers {
    ranges: Vec<(Zxid, Zxid)>,
    damaged: Vec<(Zxid, Zxid)>,
    different: BTreeSet<Zxid>,
}

impl PeerAnswers {
    /// What this peer has said about a txn that is still missing.
    fn finding(&self, zxid: Zxid) -> PeerFinding {
        let is_in = |ranges: &[(Zxid, Zxid)]| {
            ranges.iter().any(|(after, before)| *after < zxid && zxid < *before)
        };
        if self.different.contains(&zxid) {
            PeerFinding::Different
        } else if is_in(&self.damaged) {
            PeerFinding::Damaged
        } else if is_in(&self.ranges) {
            PeerFinding::Missing
        } else {
            PeerFinding::NotAnswered
        }
    }
}

/// A repair: the gaps, and the records that were found for them.
#[derive(Debug)]
pub struct Repair {
    damage: Damage,
    gaps: Vec<GapRepair>,
    bytes: usize,
    is_too_large: bool,
    peers: BTreeMap<ServerId, PeerAnswers>,
}

impl Repair {
    /// Starts with nothing found.
    #[must_use]
    pub fn new(damage: Damage) -> Self {
        let start = |gap: &Gap| {
            let is_filled = gap.is_complete && gap.known.is_empty();
            let (gap, records) = (gap.clone(), BTreeMap::new());
            GapRepair { gap, records, is_filled, is_too_large: false }
        };
        let gaps = damage.gaps.iter().map(start).collect();
        Repair { damage, gaps, bytes: 0, is_too_large: false, peers: BTreeMap::new() }
    }

    /// What is repaired.
    #[must_use]
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    /// The ranges to ask peers for: the txns after the first zxid and before the second one. What cannot be repaired
    /// with records is not asked for.
    #[must_use]
    pub fn wanted(&self) -> Vec<(Zxid, Zxid)> {
        let range = |it: &GapRepair| {
            let Gap { after, before, is_complete, .. } = it.gap;
            if it.is_filled || it.is_too_large {
                return None;
            }
            if !is_complete {
                return Some((after, before?));
            }
            let (first, last) = (it.missing().next()?.zxid, it.missing().last()?.zxid);
            Some((Zxid(first.0 - 1), last.next()))
        };
        self.gaps.iter().filter_map(range).collect()
    }

    /// Starts the offer of a peer that was asked for one of the wanted ranges.
    #[must_use]
    pub fn offer_of(&self, peer: ServerId, (after, before): (Zxid, Zxid)) -> Offer {
        let bytes_max = REPAIR_BYTES_MAX.saturating_sub(self.bytes);
        Offer { bytes_max, ..Offer::new(peer, after, before) }
    }

    /// Accepts what is missing of the records that a peer has.
    pub fn offer(&mut self, offer: Offer, answer: Answer) -> Offered {
        let mut offered = Offered::default();
        let peer = self.peers.entry(offer.peer).or_default();
        note(&mut peer.ranges, [(offer.after, offer.before)]);
        note(&mut peer.damaged, answer.damaged);
        let mut different = Vec::new();
        for gap in self.gaps.iter_mut().filter(|it| !it.is_filled) {
            if gap.gap.is_complete {
                offered.accepted += gap.take_known(&offer, &mut self.bytes, &mut different);
                let is_filled = gap.missing().next().is_none();
                gap.is_filled = is_filled;
            } else if offer.is_full {
                let asked = (offer.after, Some(offer.before));
                gap.is_too_large |= asked == (gap.gap.after, gap.gap.before);
            } else if answer.unbroken && !offer.is_partial {
                offered.accepted += gap.take_all(&offer, &mut self.bytes, &mut different);
            }
        }
        self.is_too_large |= !self.is_complete() && (offer.is_full || self.is_full());
        let peer = self.peers.entry(offer.peer).or_default();
        different.extend(offer.refused);
        offered.refused = different.len();
        let room = NOTED_MAX.saturating_sub(peer.different.len());
        peer.different.extend(different.into_iter().take(room));
        offered
    }

    /// Whether there is no room for another large record.
    fn is_full(&self) -> bool {
        self.bytes + OFFER_ROOM_MIN > REPAIR_BYTES_MAX
    }

    /// Whether everything was found.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.damage.needs_tree.is_none() && self.gaps.iter().all(|gap| gap.is_filled)
    }

    /// Why records cannot complete the repair, if they cannot: only a leader's tree can.
    #[must_use]
    pub fn irreparable(&self) -> Option<Irreparable> {
        let ends_open = |it: &GapRepair| it.gap.before.is_none() && !it.gap.is_complete;
        if self.damage.needs_tree.is_some() {
            self.damage.needs_tree
        } else if self.gaps.iter().any(ends_open) {
            Some(Irreparable::EndUnknown)
        } else if self.is_too_large {
            Some(Irreparable::TooLarge)
        } else {
            None
        }
    }

    /// The txns that are still missing, and what was found of them at these peers. At most
    /// [`OUTSTANDING_MAX`] entries.
    #[must_use]
    pub fn outstanding(&self, peers: &[ServerId]) -> Vec<Outstanding> {
        let mut list: Vec<Outstanding> = Vec::new();
        for it in self.gaps.iter().filter(|it| !it.is_filled) {
            if !it.gap.is_complete {
                let (first, last) = (it.gap.after, it.gap.before.unwrap_or(Zxid(i64::MAX)));
                // Any txn in the gap will do: there is at least one, if the gap is one.
                let peers = self.findings(peers, first.next());
                list.push(Outstanding { first, last, is_known: false, peers });
                continue;
            }
            for id in it.missing() {
                let (first, last) = (id.zxid, id.zxid);
                let found = self.findings(peers, id.zxid);
                let continues = |range: &Outstanding| {
                    range.is_known && range.last.next() == first && range.peers == found
                };
                if let Some(range) = list.last_mut().filter(|range| continues(range)) {
                    range.last = last;
                } else if list.len() < OUTSTANDING_MAX {
                    list.push(Outstanding { first, last, is_known: true, peers: found });
                } else {
                    return list;
                }
            }
        }
        list.truncate(OUTSTANDING_MAX);
        list
    }

    fn findings(&self, peers: &[ServerId], zxid: Zxid) -> Vec<(ServerId, PeerFinding)> {
        let finding = |peer: &ServerId| {
            self.peers.get(peer).map_or(PeerFinding::NotAnswered, |it| it.finding(zxid))
        };
        peers.iter().map(|peer| (*peer, finding(peer))).collect()
    }

    /// The txns that were found: runs of zxids, and the peer that had them.
    #[must_use]
    pub fn found(&self) -> Vec<(Zxid, Zxid, ServerId)> {
        let mut runs: Vec<(Zxid, Zxid, ServerId)> = Vec::new();
        let records = self.gaps.iter().flat_map(|gap| &gap.records);
        for (&zxid, &(peer, _)) in records {
            match runs.last_mut() {
                Some((_, last, from)) if *from == peer && last.next() == zxid => *last = zxid,
                _ => runs.push((zxid, zxid, peer)),
            }
        }
        runs
    }

    /// The records that were found for a gap or a part of one, and whether all of that gap was found.
    pub(super) fn found_in(&self, gap: &Gap) -> (Vec<(Zxid, Bytes)>, bool) {
        let holds = |it: &&GapRepair| {
            let ends = match (it.gap.before, gap.before) {
                (None, _) => true,
                (Some(outer), Some(inner)) => inner <= outer,
                (Some(_), None) => false,
            };
            it.gap.after <= gap.after && ends
        };
        let Some(it) = self.gaps.iter().find(holds) else { return (Vec::new(), false) };
        let inside = it.records.iter().filter(|(zxid, _)| gap.contains(**zxid));
        (inside.map(|(zxid, (_, payload))| (*zxid, payload.clone())).collect(), it.is_filled)
    }
}

/// Notes ranges, up to a limit.
fn note(noted: &mut Vec<(Zxid, Zxid)>, ranges: impl IntoIterator<Item = (Zxid, Zxid)>) {
    for range in ranges {
        if noted.len() < NOTED_MAX && !noted.contains(&range) {
            noted.push(range);
        }
    }
}

impl GapRepair {
    /// Takes the records that are known to be missing, as far as the bytes allow. Returns how many.
    fn take_known(&mut self, offer: &Offer, bytes: &mut usize, different: &mut Vec<Zxid>) -> usize {
        let mut count = 0;
        for (zxid, payload) in &offer.records {
            let Ok(index) = self.gap.known.binary_search_by_key(zxid, |id| id.zxid) else {
                continue;
            };
            let cost = payload.len() + RECORD_COST_BYTES;
            if self.records.contains_key(zxid) || *bytes + cost > REPAIR_BYTES_MAX {
                continue;
            }
            if !is_same(&self.gap.known[index], payload) {
                different.push(*zxid);
                continue;
            }
            self.records.insert(*zxid, (offer.peer, payload.clone()));
            count += 1;
            *bytes += cost;
        }
        count
    }

    /// Takes everything that a peer has between the two ends of the gap, if it is a chain from one to the other with
    /// all records that are known. Returns how many.
    fn take_all(&mut self, offer: &Offer, bytes: &mut usize, different: &mut Vec<Zxid>) -> usize {
        let Gap { after, before: Some(before), .. } = self.gap else { return 0 };
        if offer.after > after || offer.before < before {
            return 0;
        }
        let inside = |(zxid, _): &&(Zxid, Bytes)| after < *zxid && *zxid < before;
        let records: Vec<(Zxid, Bytes)> = offer.records.iter().filter(inside).cloned().collect();
        let cost: usize = records.iter().map(|(_, it)| it.len() + RECORD_COST_BYTES).sum();
        let find = |zxid: Zxid| records.binary_search_by_key(&zxid, |(zxid, _)| *zxid).ok();
        let mut others = Vec::new();
        let has_known = self.gap.known.iter().all(|id| {
            let Some(index) = find(id.zxid) else { return false };
            if !is_same(id, &records[index].1) {
                others.push(id.zxid);
            }
            true
        });
        let is_chain = is_chain(after, records.iter().map(|(zxid, _)| *zxid), before);
        let fits = *bytes + cost <= REPAIR_BYTES_MAX;
        if !has_known || !others.is_empty() || !is_chain || !fits {
            different.append(&mut others);
            return 0;
        }
        *bytes += cost;
        self.is_filled = true;
        let origin = |(zxid, payload)| (zxid, (offer.peer, payload));
        self.records = records.into_iter().map(origin).collect();
        self.records.len()
    }
}

/// Whether each txn can be the one right after the one before.
fn is_chain(after: Zxid, between: impl Iterator<Item = Zxid>, before: Zxid) -> bool {
    let mut last = after;
    let mut goes_on = |next| std::mem::replace(&mut last, next).is_continued_by(next);
    between.chain([before]).all(&mut goes_on)
}

/// Whether a record has the length and the checksum that a table says.
fn is_same(id: &RecordId, payload: &[u8]) -> bool {
    let bytes = u32::try_from(payload.len()).ok();
    id.payload_bytes.is_none_or(|expected| bytes == Some(expected))
        && id.adler.is_none_or(|expected| i64::from(expected) == checksum(payload))
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
