//! Durable storage: txn log, snapshots, epoch files, recovery and purge, in the formats of
//! Apache ZooKeeper.
//!
//! In: encoded txns and the tree's znodes. Out: confirmations of durability, and after a restart the tree as it
//! was. Everything goes through [`disk::Disk`]; the store owns no thread (a call that reads much may use one
//! until it returns) and reads no clock, so the simulator runs the same code as the server.
//!
//! Guarantees, each with its argument in the named module:
//! - What [`LogWriter::flush`] has reported is there after any crash ([`log::writer`]).
//! - A torn tail is cut; damage is never cut silently ([`log::ending`]), and a gap is never skipped
//!   ([`log::walk`]).
//! - A snapshot has its final name only when it is complete and durable ([`snapshot::writer`]).
//! - Recovery returns the whole state, with its digest, or an error that says where the problem is and what to do
//!   ([`mod@recover`]).
//! - A member of an ensemble truncates what was not agreed on ([`reload`]), or installs a leader's tree
//!   ([`install`]), and a crash leaves the state before or the state after.
//! - A member of an ensemble that has lost something does not vote until a leader has brought it up to date
//!   ([`voting`]).
//! - An archive holds committed and intact files only, and a restore from it never passes a hole ([`archive`]).
//! - Damage is found while the server runs, and nothing else is reported as damage ([`scrub`]).
//! - What a leader sends a learner from its log has no gaps ([`history`], [`log::range`]).
//! - A damaged log is repaired with records of other servers, each of which is proven to be the one that was
//!   there ([`repair`]).
//!
//! The formats are drawn in docs/formats.md.

mod ahead;
pub mod archive;
pub mod disk;
pub mod epoch;
pub mod history;
pub mod install;
#[cfg(test)]
mod lifetime_tests;
pub mod lock;
pub mod log;
pub mod names;
pub mod purge;
pub mod recover;
pub mod reload;
pub mod repair;
pub mod replace;
pub mod scrub;
pub mod snapshot;
#[cfg(test)]
mod testing;
pub mod voting;

pub use archive::{Archive, ArchiveError, ArchiveSource};
pub use disk::{Dirs, Disk, MemoryDisk, RealDisk, dir_bytes, is_out_of_descriptors};
pub use epoch::{
    COPIES_FILE, EpochError, EpochFile, Epochs, OpenLog, copied_epoch, lower_last_known,
    read_epoch, recover_epochs, write_epoch,
};
pub use history::{HistoryLimits, TxnHistory, read_history};
pub use install::{InstallError, install_snapshot};
pub use lock::{DirLock, DirLockError, lock_dirs};
pub use log::lost::{RecordId, lost_text};
pub use log::range::{LogPosition, LogRange, PrecedingTxn, RangeError};
pub use log::writer::{AppendError, Flushed, LogOptions, LogWriter, SyncMode};
pub use names::{Compression, LogName, SnapshotName};
pub use purge::{PurgePlan, plan_purge, plan_purge_of, purge, purge_knowing};
pub use recover::{
    DigestMismatch, EmptyDirs, OnDigestMismatch, Progress, RecoverError, RecoverOptions, Recovered,
    ServerKind, recover,
};
pub use reload::{ReloadError, ReloadImpossible, load_as_of, truncate, truncate_and_reload};
pub use repair::{
    Assessment, Damage, Gap, Irreparable, Repair, assess, assess_refusal, read_records, splice,
};
pub use scrub::{
    DataFile, Finding, LogState, Scrub, ScrubError, ScrubHost, ScrubReport, ScrubScope,
};
pub use snapshot::wire::{ReceiveError, ReceivedSnapshot, WireSnapshot, receive_snapshot};
pub use snapshot::writer::{SnapshotFile, SnapshotWriteError, SnapshotWriter, write_snapshot};
pub use snapshot::{LastZxid, Trailer, ZxidDigest};
pub use voting::VotingError;
