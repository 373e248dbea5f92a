//! What goes to disk: [`commit`] makes txns durable in batches, [`disk_keeper`] changes the data directory between two
//! batches, [`snapshots`] writes, copies and restores the tree, [`archive`] copies what is finished, [`scrubber`] finds
//! damaged files. The formats are in `herdsman-store`.

pub(crate) mod archive;
pub(crate) mod commit;
pub(crate) mod disk_keeper;
pub(crate) mod progress;
pub(crate) mod scrubber;
pub mod snapshots;
