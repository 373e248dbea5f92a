//! What a connection has seen must not be taken back: per lane, the newest state of some keys.
//!
//! A server may serve one client from an older state than another, but it must not show one client a znode
//! first in a newer and then in an older state, nor hide the client's own write from it. To remember every
//! key on every lane would take memory in proportion to both, so each lane has some places, and a key has
//! the place that its number says: what is in a place belongs to the key that used it last.

use herdsman_proto::Stat;

use crate::load::{Checked, Wrong};

/// A power of two, so that the place is found without a division.
const PLACES: usize = 256;

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    key: u32,
    version: i32,
    mzxid: i64,
}

/// What the lanes of one thread have seen.
pub(crate) struct Sight {
    lanes: Vec<LaneSight>,
}

struct LaneSight {
    places: Box<[Seen; PLACES]>,
    last_write: i64,
}

impl Sight {
    pub(crate) fn new(lanes: usize) -> Self {
        let lane = || LaneSight { places: Box::new([Seen::default(); PLACES]), last_write: 0 };
        Sight { lanes: (0..lanes).map(|_| lane()).collect() }
    }

    /// A lane has read this stat of a key's znode.
    pub(crate) fn read(&mut self, lane: usize, key: u32, stat: &Stat) -> Checked<()> {
        let seen = &mut self.lanes[lane].places[key as usize % PLACES];
        let (mzxid, version) = (stat.mzxid.0, stat.version);
        if seen.key == key && (mzxid < seen.mzxid || version < seen.version) {
            return Err(Wrong::new(format!(
                "went back from version {} of txn 0x{:x} to version {version} of txn 0x{mzxid:x}",
                seen.version, seen.mzxid
            )));
        }
        *seen = Seen { key, version, mzxid };
        Ok(())
    }

    /// A lane has been told that its write is done. Its writes are done in its own order.
    pub(crate) fn wrote(&mut self, lane: usize, key: u32, stat: &Stat) -> Checked<()> {
        let last = self.lanes[lane].last_write;
        let this = stat.mzxid.0;
        if this <= last {
            return Err(Wrong::new(format!(
                "done as txn 0x{this:x}, but the one before as 0x{last:x}"
            )));
        }
        self.lanes[lane].last_write = this;
        self.read(lane, key, stat)
    }
}

/// What every stat of a persistent znode with such a value must say.
pub(crate) fn check_stat(stat: &Stat, value_bytes: usize) -> Checked<()> {
    let is_sound = stat.czxid.0 > 0
        && stat.mzxid >= stat.czxid
        && stat.version >= 0
        && stat.ephemeral_owner == 0
        && usize::try_from(stat.data_length) == Ok(value_bytes);
    if is_sound { Ok(()) } else { Err(Wrong::new(format!("the stat cannot be true: {stat:?}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use herdsman_proto::Zxid;

    fn stat(version: i32, mzxid: i64) -> Stat {
        Stat { version, czxid: Zxid(1), mzxid: Zxid(mzxid), data_length: 100, ..Stat::default() }
    }

    #[test]
    fn going_back_is_seen_on_the_lane_that_saw_more() {
        let mut sight = Sight::new(2);
        sight.read(0, 5, &stat(2, 20)).unwrap();
        sight.read(0, 5, &stat(2, 20)).unwrap();
        assert!(sight.read(0, 5, &stat(1, 10)).is_err());
        assert!(sight.read(0, 5, &stat(1, 30)).is_err());
        sight.read(1, 5, &stat(1, 10)).unwrap();
        sight.read(0, 6, &stat(0, 1)).unwrap();
    }

    #[test]
    fn own_writes_are_seen_and_come_in_order() {
        let mut sight = Sight::new(1);
        sight.wrote(0, 5, &stat(3, 30)).unwrap();
        assert!(sight.read(0, 5, &stat(2, 20)).is_err());
        assert!(sight.wrote(0, 6, &stat(1, 29)).is_err());
    }

    #[test]
    fn stats_that_cannot_be_true() {
        check_stat(&stat(0, 1), 100).unwrap();
        assert!(check_stat(&stat(0, 1), 99).is_err());
        assert!(check_stat(&stat(-1, 1), 100).is_err());
        assert!(check_stat(&stat(0, 0), 100).is_err());
        assert!(check_stat(&Stat { ephemeral_owner: 7, ..stat(0, 1) }, 100).is_err());
    }
}
