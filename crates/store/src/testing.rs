//! Shared helpers of this crate's tests: txns, and a log to write them to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use herdsman_proto::txn::{CreateKind, CreateTxn, Entry, TxnDigest};
use herdsman_proto::{Acl, Perms, SessionId, StatPersisted, Txn, TxnHeader, Zxid};
use herdsman_tree::{Dump, Tree, TreeOptions};

use crate::disk::{Dirs, Disk, MemoryDisk};
use crate::log::record::RecordReader;
use crate::log::writer::{LogOptions, LogWriter, SyncMode};
use crate::names::Compression;
use crate::recover::{RecoverOptions, Recovered, recover};
use crate::snapshot::writer::{SnapshotWriter, write_snapshot};
use crate::snapshot::{LastZxid, Trailer};

pub(crate) const DIR: &str = "/data/version-2";

pub(crate) fn dir() -> &'static Path {
    Path::new(DIR)
}

pub(crate) fn dirs() -> Dirs {
    Dirs::below(Path::new("/data"), Path::new("/data"))
}

pub(crate) fn disk() -> MemoryDisk {
    let disk = MemoryDisk::new();
    disk.create_dir(dir()).unwrap();
    disk
}

/// Small files, so that tests are quick.
pub(crate) const OPTIONS: LogOptions = LogOptions {
    pre_alloc_bytes: 16 << 10,
    persist_table: true,
    file_bytes_max: None,
    payload_bytes_max: 1 << 20,
};

pub(crate) fn writer(disk: &MemoryDisk, last: Zxid) -> LogWriter {
    LogWriter::new(Arc::new(disk.clone()), DIR, last, OPTIONS)
}

/// A txn that creates `/n<zxid>` with `bytes` bytes of data, none of them zero.
pub(crate) fn create(zxid: i64, bytes: usize) -> Entry {
    let byte = u8::try_from(zxid % 200).unwrap() + 1;
    Entry {
        header: TxnHeader {
            session: SessionId(0x1000),
            cxid: 1,
            zxid: Zxid(zxid),
            time_ms: 1_700_000_000_000 + zxid,
        },
        txn: Txn::Create(CreateTxn {
            kind: CreateKind::Plain { ephemeral: false, with_stat: false },
            path: format!("/n{zxid}").into(),
            data: Some(Arc::from(vec![byte; bytes])),
            acl: vec![Acl::world(Perms::ALL)],
            parent_cversion: i32::try_from(zxid & 0xffff).unwrap(),
        }),
        digest: None,
    }
}

/// What Apache logs for a request that it cannot decode.
pub(crate) fn undecodable(zxid: i64) -> Entry {
    let txn = Txn::error(herdsman_proto::ErrorCode::MarshallingError);
    Entry { txn, digest: None, ..create(zxid, 0) }
}

/// A txn that gives `path` other data.
pub(crate) fn set_data(zxid: i64, path: &str) -> Entry {
    let data = Some(Arc::from(zxid.to_be_bytes()));
    let version = i32::try_from(zxid & 0xffff).unwrap();
    let txn = Txn::SetData { path: path.into(), data, version, reconfig: false };
    Entry { txn, ..create(zxid, 0) }
}

/// A txn that deletes `path`.
pub(crate) fn delete(zxid: i64, path: &str) -> Entry {
    Entry { txn: Txn::Delete { path: path.into(), container: false }, ..create(zxid, 0) }
}

pub(crate) fn payload(entry: &Entry) -> Vec<u8> {
    let mut payload = Vec::new();
    entry.encode(&mut payload);
    payload
}

/// Appends txns `from..=to` as one batch and flushes it.
pub(crate) fn write_batch(writer: &mut LogWriter, from: i64, to: i64) {
    for zxid in from..=to {
        writer.append(Zxid(zxid), &payload(&create(zxid, 40))).unwrap();
    }
    let flushed = writer.flush(SyncMode::Sync).unwrap();
    assert_eq!(flushed.last_zxid, Zxid(to));
}

/// The zxids of all whole records of a file, from its front.
pub(crate) fn zxids(disk: &MemoryDisk, path: &Path) -> Vec<i64> {
    let mut reader = RecordReader::open(disk, path).unwrap();
    let mut zxids = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        zxids.push(record.zxid.0);
    }
    zxids
}

pub(crate) fn log_path(first: i64) -> PathBuf {
    crate::names::LogName { zxid: Zxid(first) }.path(dir())
}

/// The tree that these txns make.
pub(crate) fn tree_of(entries: &[Entry]) -> Tree {
    let mut tree = Tree::new(TreeOptions::default());
    for entry in entries {
        tree.replay(entry);
    }
    tree
}

/// Creates, one after the other.
pub(crate) fn creates(zxids: impl IntoIterator<Item = i64>) -> Vec<Entry> {
    zxids.into_iter().map(|zxid| create(zxid, 40)).collect()
}

/// The same txns, each with the digest of the tree after it.
pub(crate) fn with_digests(mut entries: Vec<Entry>) -> Vec<Entry> {
    let mut tree = tree_of(&[]);
    for entry in &mut entries {
        tree.replay(entry);
        entry.digest = Some(TxnDigest { version: TxnDigest::VERSION, tree_digest: tree.digest() });
    }
    entries
}

/// Txns of an epoch.
pub(crate) fn epoch(epoch: u32, counters: std::ops::RangeInclusive<i64>) -> Vec<i64> {
    counters.map(|counter| Zxid::start_of(epoch).0 | counter).collect()
}

/// Appends these as one batch, in a file of their own.
pub(crate) fn write_entries(disk: &MemoryDisk, last: Zxid, entries: &[Entry]) {
    let mut log = writer(disk, last);
    for entry in entries {
        log.append(entry.header.zxid, &payload(entry)).unwrap();
    }
    log.flush(SyncMode::Sync).unwrap();
}

/// Writes a snapshot of a tree that stands still.
pub(crate) fn snapshot(disk: &MemoryDisk, tree: &Tree) -> PathBuf {
    let disk = Arc::new(disk.clone());
    write_snapshot(disk, dir(), Compression::None, tree, LastZxid::Write).unwrap().path
}

/// A snapshot begun before some txns and finished after them.
pub(crate) fn fuzzy_snapshot(
    disk: &MemoryDisk,
    before: &[Entry],
    meanwhile: &[Entry],
    last_zxid: LastZxid,
) -> PathBuf {
    let mut tree = tree_of(before);
    let mut dump = Dump::start(&tree);
    let head = (dump.zxid(), Compression::None);
    let memory = Arc::new(disk.clone());
    let mut writer = SnapshotWriter::begin(memory, dir(), head, &[], dump.acls()).unwrap();
    let mut emit = |path: &str, data: Option<&[u8]>, key: i64, stat: &StatPersisted| {
        writer.encode_node(path, data, key, stat);
    };
    // The root, with all that was there before.
    dump.step(&tree, 1, &mut emit);
    for entry in meanwhile {
        tree.replay(entry);
    }
    while dump.step(&tree, 100, &mut emit) {}
    let trailer = match last_zxid {
        LastZxid::Write => Trailer::of(&tree, last_zxid),
        LastZxid::Omit => Trailer::default(),
    };
    writer.finish(&trailer, &mut |_| {}).unwrap().path
}

/// The names in the directory of snapshots.
pub(crate) fn names(disk: &MemoryDisk) -> Vec<String> {
    let entries = disk.list(dir()).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

/// All files and what is in them.
pub(crate) fn files(disk: &MemoryDisk) -> Vec<(String, Vec<u8>)> {
    let content = |name: &String| disk.content(&dir().join(name)).unwrap();
    names(disk).into_iter().map(|name| (name.clone(), content(&name))).collect()
}

pub(crate) fn recovered(disk: &MemoryDisk) -> Recovered {
    match recover(disk, &dirs(), &RecoverOptions::default(), &mut |_| {}) {
        Ok(recovered) => recovered,
        Err(error) => panic!("{error}"),
    }
}

/// Whether two trees have the same content.
pub(crate) fn same(left: &Tree, right: &Tree) -> bool {
    left.last_zxid() == right.last_zxid()
        && left.digest() == right.digest()
        && left.node_count() == right.node_count()
        && left.sessions().eq(right.sessions())
}

/// Content of a log file that holds these records and nothing else.
pub(crate) fn log_bytes(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = crate::log::HEADER.to_vec();
    for entry in entries {
        crate::log::encode_record(&payload(entry), &mut bytes);
    }
    bytes
}
