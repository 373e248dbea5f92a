//! Checks that no connection sees a znode go back to an older state: remembers the newest versions for each lane.
//!
//! A server may serve one client from an older state than another, but it must not show one client a znode
//! first in a newer and then in an older state, nor hide the client's own write from it. Remembering every key
//! for every lane would take too much memory, so each lane has a fixed number of slots, selected by the key's
//! number. A slot belongs to the key that used it last.

use herdsman_proto::Stat;

use crate::load::{Checked, WrongReply};

/// A power of two, so that the slot is found without a division.
const SLOTS: usize = 256;

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    key: u32,
    version: i32,
    mzxid: i64,
}

/// The versions that the lanes of one thread have seen.
pub(crate) struct SeenVersions {
    lanes: Vec<LaneVersions>,
}

struct LaneVersions {
    slots: Box<[Seen; SLOTS]>,
    last_write: i64,
}

impl SeenVersions {
    pub(crate) fn new(lanes: usize) -> Self {
        let lane = || LaneVersions { slots: Box::new([Seen::default(); SLOTS]), last_write: 0 };
        SeenVersions { lanes: (0..lanes).map(|_| lane()).collect() }
    }

    /// Checks and records a stat that a lane has read.
    pub(crate) fn read(&mut self, lane: usize, key: u32, stat: &Stat) -> Checked<()> {
        let seen = &mut self.lanes[lane].slots[key as usize % SLOTS];
        let (mzxid, version) = (stat.mzxid.0, stat.version);
        if seen.key == key && (mzxid < seen.mzxid || version < seen.version) {
            return Err(WrongReply::new(format!(
                "went back from version {} of txn 0x{:x} to version {version} of txn 0x{mzxid:x}",
                seen.version, seen.mzxid
            )));
        }
        *seen = Seen { key, version, mzxid };
        Ok(())
    }

    /// Checks and records the stat in the reply to a lane's write. A lane's writes must be applied in order.
    pub(crate) fn wrote(&mut self, lane: usize, key: u32, stat: &Stat) -> Checked<()> {
        let last = self.lanes[lane].last_write;
        let this = stat.mzxid.0;
        if this <= last {
            return Err(WrongReply::new(format!(
                "done as txn 0x{this:x}, but the one before as 0x{last:x}"
            )));
        }
        self.lanes[lane].last_write = this;
        self.read(lane, key, stat)
    }
}

/// Checks what must be true for every stat of a persistent znode with such a value.
pub(crate) fn check_stat(stat: &Stat, value_bytes: usize) -> Checked<()> {
    let is_sound = stat.czxid.0 > 0
        && stat.mzxid >= stat.czxid
        && stat.version >= 0
        && stat.ephemeral_owner == 0
        && usize::try_from(stat.data_length) == Ok(value_bytes);
    if is_sound {
        Ok(())
    } else {
        Err(WrongReply::new(format!("the stat is not plausible: {stat:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use herdsman_proto::Zxid;

    fn stat(version: i32, mzxid: i64) -> Stat {
        Stat { version, czxid: Zxid(1), mzxid: Zxid(mzxid), data_length: 100, ..Stat::default() }
    }

    #[test]
    fn going_back_is_detected_on_the_lane_that_saw_more() {
        let mut seen = SeenVersions::new(2);
        seen.read(0, 5, &stat(2, 20)).unwrap();
        seen.read(0, 5, &stat(2, 20)).unwrap();
        assert!(seen.read(0, 5, &stat(1, 10)).is_err());
        assert!(seen.read(0, 5, &stat(1, 30)).is_err());
        seen.read(1, 5, &stat(1, 10)).unwrap();
        seen.read(0, 6, &stat(0, 1)).unwrap();
    }

    #[test]
    fn own_writes_are_visible_and_in_order() {
        let mut seen = SeenVersions::new(1);
        seen.wrote(0, 5, &stat(3, 30)).unwrap();
        assert!(seen.read(0, 5, &stat(2, 20)).is_err());
        assert!(seen.wrote(0, 6, &stat(1, 29)).is_err());
    }

    #[test]
    fn impossible_stats_are_detected() {
        check_stat(&stat(0, 1), 100).unwrap();
        assert!(check_stat(&stat(0, 1), 99).is_err());
        assert!(check_stat(&stat(-1, 1), 100).is_err());
        assert!(check_stat(&stat(0, 0), 100).is_err());
        assert!(check_stat(&Stat { ephemeral_owner: 7, ..stat(0, 1) }, 100).is_err());
    }
}
