//! Data directories written by Apache: we read the same tree from them as Apache does, and what we
//! write from it reads the same again. What the files are is told in fixtures/README.md.

#![expect(clippy::unwrap_used, reason = "a test fails where a fixture is not as it should be")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use herdsman_proto::txn::Entry;
use herdsman_proto::{Acl, JuteWrite, StatPersisted};
use herdsman_store::log::record::RecordReader;
use herdsman_store::names::{list_logs, list_snapshots};
use herdsman_store::{
    Compression, Dirs, LastZxid, MemoryDisk, ReceivedSnapshot, RecoverOptions, Recovered,
    WireSnapshot, receive_snapshot, recover, write_snapshot,
};
use herdsman_tree::{Dump, Tree, TreeOptions};

/// Every fixture, loaded into a disk of its own.
fn fixtures() -> Vec<(PathBuf, MemoryDisk)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut fixtures = Vec::new();
    for release in subdirs(&root) {
        for variant in subdirs(&release) {
            let disk = MemoryDisk::new();
            for file in fs::read_dir(variant.join("version-2")).unwrap() {
                let file = file.unwrap();
                let path = dirs().data.join(file.file_name());
                disk.put(&path, fs::read(file.path()).unwrap());
            }
            fixtures.push((variant, disk));
        }
    }
    assert!(fixtures.len() >= 5, "the fixtures are missing");
    fixtures
}

fn subdirs(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap();
    let mut dirs: Vec<PathBuf> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    dirs.sort();
    dirs
}

fn dirs() -> Dirs {
    Dirs::below(Path::new("/data"), Path::new("/data"))
}

fn recovered(disk: &MemoryDisk) -> Recovered {
    recover(disk, &dirs(), &RecoverOptions::default(), &mut |_| {}).unwrap()
}

/// A tree as lines like those of `expected.txt`, without what only the wire has.
fn describe(tree: &Tree) -> Vec<String> {
    let mut dump = Dump::start(tree);
    let acls: BTreeMap<i64, Arc<[Acl]>> = dump.acls().iter().cloned().collect();
    let mut lines = vec![format!("zxid\t{}", tree.last_zxid())];
    for (id, timeout_ms) in dump.sessions() {
        lines.push(format!("session\t{id}\t{timeout_ms}"));
    }
    let mut nodes = Vec::new();
    while dump.step(tree, 10, &mut |path, data, acl_key, stat| {
        let acl = acls.get(&acl_key).map_or("31:world:anyone".to_owned(), |acl| acl_text(acl));
        nodes.push(node_line(path, data, stat, &acl));
    }) {}
    nodes.sort();
    lines.extend(nodes);
    lines
}

fn acl_text(acl: &[Acl]) -> String {
    let entries: Vec<String> =
        acl.iter().map(|acl| format!("{}:{}:{}", acl.perms.0, acl.id.scheme, acl.id.id)).collect();
    entries.join(",")
}

fn node_line(path: &str, data: Option<&[u8]>, stat: &StatPersisted, acl: &str) -> String {
    let path = if path.is_empty() { "/" } else { path };
    let data = match data {
        None => "-".to_owned(),
        Some([]) => "=".to_owned(),
        Some(data) => base64(data),
    };
    format!(
        "node\t{path}\t{data}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{acl}\t{}\t{:#x}",
        stat.czxid.0,
        stat.mzxid.0,
        stat.ctime,
        stat.mtime,
        stat.version,
        stat.aversion,
        stat.pzxid.0,
        stat.cversion,
        stat.ephemeral_owner,
    )
}

/// `expected.txt` without what only the wire has, and the digest.
fn expected(variant: &Path) -> (Vec<String>, i64) {
    let text = fs::read_to_string(variant.join("expected.txt")).unwrap();
    let (mut lines, mut nodes, mut digest) = (Vec::new(), Vec::new(), 0);
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[0] {
            "digest" => digest = fields[2].parse().unwrap(),
            "node" => {
                let kept = [0, 1, 2, 3, 4, 5, 6, 7, 9, 13, 14, 15, 16].map(|index| fields[index]);
                nodes.push(kept.join("\t"));
            }
            _ => lines.push(line.to_owned()),
        }
    }
    nodes.sort();
    lines.extend(nodes);
    (lines, digest)
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - chunk.len()));
        for index in 0..4 {
            let symbol = ALPHABET[(word >> (18 - 6 * index)) as usize & 63];
            text.push(if index <= chunk.len() { symbol.into() } else { '=' });
        }
    }
    text
}

#[test]
fn apaches_directories_give_apaches_tree() {
    for (variant, disk) in fixtures() {
        let name = variant.display();
        let recovered = recovered(&disk);
        let (lines, digest) = expected(&variant);
        assert_eq!(describe(&recovered.tree), lines, "{name}");
        if digest != 0 {
            assert_eq!(recovered.tree.digest(), digest, "{name}");
        }
        assert_eq!(recovered.digest_mismatch, None, "{name}");
        assert!(recovered.damaged_snapshots.is_empty(), "{name}");
    }
}

#[test]
fn our_snapshot_of_it_reads_the_same_in_every_packing() {
    for (variant, disk) in fixtures() {
        let tree = recovered(&disk).tree;
        for compression in [Compression::None, Compression::Gzip, Compression::Snappy] {
            for last_zxid in [LastZxid::Write, LastZxid::Omit] {
                let copy = MemoryDisk::new();
                dirs().create(&copy).unwrap();
                let disk = Arc::new(copy.clone());
                write_snapshot(disk, &dirs().data, compression, &tree, last_zxid).unwrap();
                copy.crash(|_| false);
                let again = recovered(&copy);
                let name = variant.display();
                assert_eq!(describe(&again.tree), describe(&tree), "{name}");
                assert_eq!(again.tree.digest(), tree.digest(), "{name}");
                assert_eq!(again.digest_mismatch, None, "{name}");
            }
        }
    }
}

fn received(mut stream: &[u8], tree: &Tree) -> ReceivedSnapshot {
    let options = TreeOptions::default();
    let received = receive_snapshot(&mut stream, tree.last_zxid(), options, 1 << 20).unwrap();
    assert!(stream.is_empty());
    received
}

#[test]
fn our_stream_of_it_is_received_as_it_was() {
    for (variant, disk) in fixtures() {
        let tree = recovered(&disk).tree;
        let mut snapshot = WireSnapshot::start(&tree);
        let mut stream = Vec::new();
        while snapshot.step(&tree, 3, &mut stream) {}
        let received = received(&stream, &tree);
        assert_eq!(describe(&received.tree), describe(&tree), "{}", variant.display());
        assert_eq!(received.tree.digest(), tree.digest());
        assert!(received.newest_effect <= tree.last_zxid());
    }
}

/// What Apache writes into a file is, without the header and the seals, what it sends.
#[test]
fn apaches_stream_is_received() {
    let mut streams = 0;
    for (variant, disk) in fixtures() {
        let newest = *list_snapshots(&disk, &dirs().data).unwrap().last().unwrap();
        if newest.compression != Compression::None {
            continue;
        }
        let file = disk.content(&newest.path(&dirs().data)).unwrap();
        let mut stream = file[16..first_seal(&file)].to_vec();
        stream.put_string("BenWasHere");
        let mut loader = herdsman_tree::Loader::new(TreeOptions::default());
        let read = herdsman_store::snapshot::reader::read_snapshot;
        read(&disk, &dirs().data, newest, &mut loader, &mut |_| {}).unwrap();
        let tree = loader.finish(newest.zxid).unwrap();
        let received = received(&stream, &tree);
        assert_eq!(describe(&received.tree), describe(&tree), "{}", variant.display());
        streams += 1;
    }
    assert!(streams >= 4);
}

/// Where the first seal begins. Each part behind it may be missing, and each has a seal of its own: it is
/// the first place where a checksum fits.
fn first_seal(file: &[u8]) -> usize {
    let (seal, digest, last_zxid) = (13, 33, 21);
    let behind = [seal + digest + last_zxid, seal + digest, seal + last_zxid, seal];
    let fits = |at: &usize| {
        let (content, rest) = file.split_at(*at);
        rest.starts_with(&i64::from(adler32(content)).to_be_bytes())
    };
    behind.iter().map(|bytes| file.len() - bytes).find(fits).unwrap()
}

fn adler32(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65521;
        (low, (high + low) % 65521)
    });
    high << 16 | low
}

#[test]
fn a_damaged_newest_snapshot_costs_nothing_while_the_logs_are_there() {
    for (variant, disk) in fixtures() {
        let newest = *list_snapshots(&disk, &dirs().data).unwrap().last().unwrap();
        if newest.zxid.0 == 0 {
            continue;
        }
        let path = newest.path(&dirs().data);
        let mut content = disk.content(&path).unwrap();
        content.truncate(content.len() / 2);
        disk.put(&path, content);
        let recovered = recovered(&disk);
        assert_eq!(recovered.damaged_snapshots.len(), 1);
        assert_eq!(describe(&recovered.tree), expected(&variant).0);
        assert_eq!(recovered.digest_mismatch, None);
    }
}

#[test]
fn every_txn_is_encoded_as_apache_encodes_it() {
    for (variant, disk) in fixtures() {
        for log in list_logs(&disk, &dirs().log).unwrap() {
            let mut reader = RecordReader::open(&disk, &log.path(&dirs().log)).unwrap();
            while let Some(record) = reader.next_record().unwrap() {
                let entry = Entry::decode(record.payload).unwrap();
                let mut encoded = Vec::new();
                entry.encode(&mut encoded);
                assert_eq!(encoded, record.payload, "{} {}", variant.display(), record.zxid);
            }
        }
    }
}
