//! Snapshot files: raw bytes, compressed bytes, and contents with valid seals.
//!
//! A readable snapshot is written and read again: the trees must be equal.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use herdsman_proto::{JuteWrite, Zxid};
use herdsman_store::snapshot::reader::read_snapshot;
use herdsman_store::snapshot::{HEADER, encode_end, encode_node, encode_tables};
use herdsman_store::{Compression, MemoryDisk, SnapshotName};
use herdsman_tree::{Dump, Loader, Tree, TreeOptions};

const DIR: &str = "/fuzz";

/// In: a byte that says how to read the rest. A multiple of four: a whole file; one more: compressed with
/// gzip; two more: with snappy; three more: the part between header and first seal.
pub fn run(bytes: &[u8]) {
    let Some((&mode, rest)) = bytes.split_first() else {
        return;
    };
    let (compression, file) = match mode % 4 {
        0 => (Compression::None, rest.to_vec()),
        1 => (Compression::Gzip, rest.to_vec()),
        2 => (Compression::Snappy, rest.to_vec()),
        _ => (Compression::None, sealed(rest)),
    };
    let Some(tree) = read(compression, file) else {
        return;
    };
    let again = read(Compression::None, sealed(&contents(&tree))).expect("our own is valid");
    assert_eq!(again.node_count(), tree.node_count());
    assert_eq!(again.digest(), tree.digest());
    assert_eq!(znodes(&again), znodes(&tree));
}

/// The part of a snapshot between header and first seal.
#[must_use]
pub fn contents(tree: &Tree) -> Vec<u8> {
    let mut dump = Dump::start(tree);
    let mut out = Vec::new();
    encode_tables(dump.sessions(), dump.acls(), &mut out);
    while dump.step(tree, 100, &mut |path, data, acl, stat| {
        encode_node(path, data, acl, stat, &mut out);
    }) {}
    out
}

/// The znodes, each encoded by itself and with its ACL: children have no order, and keys of ACLs are
/// assigned again when a snapshot is read.
fn znodes(tree: &Tree) -> BTreeSet<Vec<u8>> {
    let mut znodes = BTreeSet::new();
    let mut dump = Dump::start(tree);
    let acls: BTreeMap<_, _> = dump.acls().iter().cloned().collect();
    while dump.step(tree, 100, &mut |path, data, acl, stat| {
        let mut znode = Vec::new();
        encode_node(path, data, 0, stat, &mut znode);
        for entry in acls.get(&acl).into_iter().flat_map(|acl| acl.iter()) {
            entry.encode(&mut znode);
        }
        znodes.insert(znode);
    }) {}
    znodes
}

/// A file with these contents and their seal.
#[must_use]
pub fn sealed(contents: &[u8]) -> Vec<u8> {
    let mut file = HEADER.to_vec();
    file.put_raw(contents);
    encode_end(&mut file);
    let checksum = simd_adler32::adler32(&file.as_slice());
    file.put_long(i64::from(checksum));
    file.put_string("/");
    file
}

fn read(compression: Compression, file: Vec<u8>) -> Option<Tree> {
    let disk = Arc::new(MemoryDisk::new());
    let name = SnapshotName { zxid: Zxid(7), compression };
    let dir = Path::new(DIR);
    disk.put(&name.path(dir), file);
    let mut loader = Loader::new(TreeOptions::default());
    let summary = read_snapshot(&*disk, dir, name, &mut loader, &mut |_| {}).ok()?;
    assert!(summary.trailer.fuzzy_until(name.zxid) >= name.zxid);
    // A hostile znode may be younger than any txn; a dump would treat it as created meanwhile.
    loader.finish(Zxid(i64::MAX)).ok()
}
