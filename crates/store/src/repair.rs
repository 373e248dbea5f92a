//! Finds out which txns a damaged server lacks, and puts records of other servers in their place.
//!
//! In: the two directories, and records that other members (or files of theirs) have. Out: what is damaged
//! ([`assess`]), which records are still missing ([`Repair`]), the valid records of a part of a server's own log
//! ([`read_records`]), and repaired log files ([`splice`]). Nothing here waits, connects or retries: that is the
//! caller's.
//!
//! # Why a record of another server may be used
//! - One epoch has one leader, and a leader gives each zxid to one txn. So a valid record with a zxid is *the* record
//!   with that zxid, whoever has it, committed or not. (A standalone server that was restored from a backup gives
//!   zxids a second time; the tool that takes records from its files compares the records that both sides have.)
//! - A missing record is *known* if its zxid is: zxids of one epoch are consecutive, a log file is named by its first
//!   txn, a snapshot by the last one that it was taken after, and a persist table lists what was written. It is
//!   accepted if its zxid is one of those, its txn can be decoded, and, where a table says so, it has that length and
//!   checksum.
//! - Before a new epoch the number of missing txns may be unknown. Two histories that both contain a txn of an epoch
//!   agree on everything before it, because a server takes its leader's history before it takes a txn of that epoch.
//!   So one server that has the txns on both sides of the gap, and everything between them, decides what was there.
//!   Several servers that have it in parts do not.
//!
//! # What is never done
//! - Nothing is dropped: a valid record, also one that nobody else has, stays where it is, and no tail is cut.
//! - Nothing is invented: what is not proven by the rules above is not written.
//! - What was at the end of a log is not guessed. If it is not known which txn was the last one
//!   ([`Damage::end`]), records cannot repair it: the server may have acknowledged a txn that no server that answers
//!   has. Then it takes a tree from a leader that has a quorum without it.
//! - Damage that the newest valid snapshot covers is not repaired: recovery does not need what was there.
//!
//! To the protocol, a server that repairs itself in this way was down, and nothing else. After the repair it has
//! exactly what it had before the damage.
//!
//! Apache: none of this. A damaged record is the end of its file (the reader continues silently with the next one), or
//! stops the server.

mod assess;
mod gaps;
mod records;
mod splice;
mod state;

use std::fmt;
use std::path::PathBuf;

use herdsman_proto::Zxid;

pub use crate::log::lost::RecordId;
pub(crate) use assess::name_unreadable;
pub use assess::{assess, assess_refusal};
pub use records::{RecordsBetween, read_records};
pub use splice::{KeepDamaged, SpliceError, SplicePlan, Spliced, plan_splice, splice};
pub use state::{
    Answer, Irreparable, OUTSTANDING_MAX, Offer, Offered, Outstanding, PeerFinding,
    REPAIR_BYTES_MAX, Repair,
};

/// The state of a server's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assessment {
    /// Nothing that recovery needs is damaged or missing, as far as the files show.
    Whole,
    /// Something is.
    Damaged(Damage),
}

/// What is damaged or missing in a server's files. What the newest valid snapshot covers does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The last txn before the first gap; the tree can be built up to here.
    pub good: Zxid,
    /// Where txns are missing, in order. May be empty: then the files can be repaired without any other server.
    pub gaps: Vec<Gap>,
    /// The last txn that was here, readable or not; `None` if that is not known.
    pub end: Option<Zxid>,
    /// Why only a leader's tree helps, if that is so whatever records others have.
    pub needs_tree: Option<Irreparable>,
    /// What is wrong, for people.
    pub places: Vec<DamagedPlace>,
}

/// Txns that are missing between two valid ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The last valid txn before, in the log or in the snapshot.
    pub after: Zxid,
    /// The first valid txn after; `None`: nothing valid follows.
    pub before: Option<Zxid>,
    /// The missing txns that are known, in order.
    pub known: Vec<RecordId>,
    /// There are no others.
    pub is_complete: bool,
}

impl Gap {
    /// Whether a txn lies in the gap.
    #[must_use]
    pub fn contains(&self, zxid: Zxid) -> bool {
        self.after < zxid && self.before.is_none_or(|before| zxid < before)
    }
}

/// Something that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedPlace {
    /// Which file, or where it should be.
    pub path: PathBuf,
    /// Where in it.
    pub offset: u64,
    /// What is wrong.
    pub why: String,
}

impl fmt::Display for DamagedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}: {}", self.path.display(), self.offset, self.why)
    }
}
