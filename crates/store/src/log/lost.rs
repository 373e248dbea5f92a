//! Names the records that a damaged part of a log held.
//!
//! In: the valid txns before and after the damage, and what the persist table ([`super::table`]) says. Out: the ids
//! of the records that are missing, in order, and whether there were no others. Zxids of one epoch are consecutive,
//! so what is missing between two of them is known without any table. Before a new epoch it is not: nobody can say
//! from zxids how many txns the older epoch still had.

use std::fmt::Write as _;

use herdsman_proto::Zxid;

use super::{PAYLOAD_BYTES_MIN, RECORD_EXTRA_BYTES};

/// The names that one reading of the log gathers at most: a damaged file must not fill the memory.
pub(crate) const LOST_MAX: usize = 1 << 18;
/// Ranges of zxids that a message lists.
const SHOWN_MAX: usize = 8;
/// Bytes of the shortest record.
pub(crate) const RECORD_BYTES_MIN: u64 = (PAYLOAD_BYTES_MIN + RECORD_EXTRA_BYTES) as u64;

/// The identity of a record. A record with this zxid from any member of the ensemble is the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId {
    /// Its txn.
    pub zxid: Zxid,
    /// The length of its payload, if a table says so.
    pub payload_bytes: Option<u32>,
    /// The Adler-32 of its payload, if a table says so.
    pub adler: Option<u32>,
}

impl RecordId {
    /// A record of which only the txn is known.
    #[must_use]
    pub fn of(zxid: Zxid) -> Self {
        RecordId { zxid, payload_bytes: None, adler: None }
    }
}

/// The records that a damaged part held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRecords {
    /// Those that are known, in order.
    pub ids: Vec<RecordId>,
    /// There were no others.
    pub is_complete: bool,
}

impl LostRecords {
    /// Nothing is known.
    pub(crate) fn unknown() -> Self {
        LostRecords { ids: Vec::new(), is_complete: false }
    }

    /// Nothing was lost.
    pub(crate) fn none() -> Self {
        LostRecords { ids: Vec::new(), is_complete: true }
    }

    /// Adds a record that is known. Of too many, the later ones are not kept.
    pub(crate) fn push(&mut self, id: RecordId) {
        if self.ids.len() < LOST_MAX {
            self.ids.push(id);
        } else {
            self.is_complete = false;
        }
    }

    /// Adds the records between two txns whose places in the file are this many bytes apart (`None`: unknown).
    pub(crate) fn push_between(&mut self, after: Option<Zxid>, before: Zxid, bytes: Option<u64>) {
        let Some(after) = after else {
            self.is_complete = false;
            return;
        };
        let is_same_epoch = after.epoch() == before.epoch();
        self.is_complete &= is_same_epoch;
        let first = if is_same_epoch { after.0 } else { Zxid::start_of(before.epoch()).0 } + 1;
        let count = (before.0 - first).max(0).cast_unsigned();
        let room = bytes.map_or(LOST_MAX as u64, |bytes| bytes / RECORD_BYTES_MIN);
        if count > room {
            // These zxids are not to be believed.
            self.is_complete = false;
            return;
        }
        for zxid in first..before.0 {
            self.push(RecordId::of(Zxid(zxid)));
        }
    }

    /// Keeps at most this many.
    pub(crate) fn limit(&mut self, count: usize) {
        self.is_complete &= self.ids.len() <= count;
        self.ids.truncate(count);
    }
}

/// Names lost records, as the end of a sentence; `None` if no record was lost.
#[must_use]
pub fn lost_text(ids: &[RecordId], is_complete: bool) -> Option<String> {
    let mut ranges: Vec<(Zxid, Zxid)> = Vec::new();
    for id in ids {
        match ranges.last_mut() {
            Some((_, last)) if id.zxid == last.next() => *last = id.zxid,
            _ => ranges.push((id.zxid, id.zxid)),
        }
    }
    if ranges.is_empty() {
        return (!is_complete).then(|| "it is not known which txns were there".to_owned());
    }
    let mut text = if ids.len() == 1 { "txn " } else { "txns " }.to_owned();
    for (index, (first, last)) in ranges.iter().take(SHOWN_MAX).enumerate() {
        text += if index == 0 { "" } else { ", " };
        let _ = write!(text, "{first}");
        if last > first {
            let _ = write!(text, " to {last}");
        }
    }
    if ranges.len() > SHOWN_MAX {
        let _ = write!(text, " and {} more ranges", ranges.len() - SHOWN_MAX);
    }
    text += if ids.len() == 1 { " was there" } else { " were there" };
    if !is_complete {
        text += ", and perhaps others";
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(after: Option<i64>, before: i64, bytes: Option<u64>) -> (Vec<i64>, bool) {
        let mut lost = LostRecords::none();
        lost.push_between(after.map(Zxid), Zxid(before), bytes);
        (lost.ids.iter().map(|id| id.zxid.0).collect(), lost.is_complete)
    }

    #[test]
    fn zxids_of_one_epoch_are_consecutive() {
        assert_eq!(between(Some(3), 7, None), (vec![4, 5, 6], true));
        assert_eq!(between(Some(3), 4, None), (vec![], true));
        // The new epoch began with counter 1; how many txns the older one still had is not known.
        let epoch = Zxid::start_of(2).0;
        assert_eq!(between(Some(3), epoch + 3, None), (vec![epoch + 1, epoch + 2], false));
        assert_eq!(between(Some(3), epoch + 1, None), (vec![], false));
        assert_eq!(between(None, epoch + 2, None), (vec![], false));
    }

    #[test]
    fn zxids_that_cannot_all_have_been_there_are_not_listed() {
        assert_eq!(between(Some(3), 6, Some(2 * RECORD_BYTES_MIN)), (vec![4, 5], true));
        assert_eq!(between(Some(3), 6, Some(2 * RECORD_BYTES_MIN - 1)), (vec![], false));
        assert_eq!(between(Some(3), 0x7fff_ffff, None), (vec![], false));
        assert_eq!(between(Some(9), 3, None), (vec![], true));
    }

    #[test]
    fn texts() {
        let text = |zxids: &[i64], is_complete| {
            let ids: Vec<_> = zxids.iter().map(|zxid| RecordId::of(Zxid(*zxid))).collect();
            lost_text(&ids, is_complete).unwrap_or_default()
        };
        assert_eq!(text(&[], true), "");
        assert_eq!(text(&[], false), "it is not known which txns were there");
        assert_eq!(text(&[5], true), "txn 0x5 was there");
        assert_eq!(text(&[5, 6, 7, 9], true), "txns 0x5 to 0x7, 0x9 were there");
        assert_eq!(text(&[5], false), "txn 0x5 was there, and perhaps others");
        let many: Vec<i64> = (0..20).map(|index| 2 * index).collect();
        assert!(text(&many, true).ends_with(", 0xe and 12 more ranges were there"));
    }
}
