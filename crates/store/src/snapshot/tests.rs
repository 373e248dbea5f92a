//! Snapshots there and back, in every packing, whole and damaged.

use std::sync::Arc;

use herdsman_proto::Perms;
use herdsman_tree::{LoadError, Loader, TreeOptions};
use proptest::prelude::*;

use super::reader::{
    SnapshotError, SnapshotFault, SnapshotSummary, detect_compression, looks_whole, read_snapshot,
};
use super::writer::SnapshotWriter;
use super::*;
use crate::disk::{Disk, MemoryDisk};
use crate::names::{Compression, SnapshotName};
use crate::testing::{dir, disk};

const PACKINGS: [Compression; 3] = [Compression::None, Compression::Gzip, Compression::Snappy];

fn name(compression: Compression) -> SnapshotName {
    SnapshotName { zxid: Zxid(9), compression }
}

fn trailer() -> Trailer {
    Trailer {
        digest: Some(ZxidDigest { zxid: Zxid(11), version: 2, digest: -77 }),
        last_zxid: Some(Zxid(12)),
    }
}

type Node = (String, Option<Vec<u8>>, i64);

fn nodes() -> Vec<Node> {
    vec![
        (String::new(), Some(Vec::new()), -1),
        ("/a".to_owned(), None, 1),
        ("/a/größe".to_owned(), Some(vec![0; 70]), 1),
        ("/b".to_owned(), Some(b"data".to_vec()), -1),
    ]
}

fn stat(index: usize) -> StatPersisted {
    StatPersisted {
        czxid: Zxid(index as i64),
        version: -3,
        cversion: 17,
        ephemeral_owner: 0x0100_0000_0000_0001,
        ..StatPersisted::created(Zxid(index as i64), 1_700_000_000_000, 0)
    }
}

fn write(disk: &MemoryDisk, compression: Compression, nodes: &[Node], trailer: &Trailer) {
    let sessions = [(SessionId(5), 4000), (SessionId(-6), 30_000)];
    let acls: [(i64, Arc<[Acl]>); 1] =
        [(1, Arc::from([Acl::world(Perms::READ), Acl::world(Perms::ADMIN)]))];
    let head = (Zxid(9), compression);
    let disk = Arc::new(disk.clone());
    let mut writer = SnapshotWriter::begin(disk, dir(), head, &sessions, &acls).unwrap();
    for (index, (path, data, acl_key)) in nodes.iter().enumerate() {
        writer.encode_node(path, data.as_deref(), *acl_key, &stat(index));
        if index % 3 == 0 {
            writer.spill(&mut |_| {}).unwrap();
        }
    }
    let mut paced = 0;
    let file = writer.finish(trailer, &mut |bytes| paced += bytes).unwrap();
    assert!(paced <= file.bytes);
}

/// Collects what is visited.
#[derive(Default, Debug, PartialEq)]
struct Collect {
    sessions: Vec<(SessionId, i32)>,
    acls: Vec<(i64, Vec<Acl>)>,
    nodes: Vec<Node>,
    stats: Vec<StatPersisted>,
}

impl super::reader::SnapshotVisitor for Collect {
    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        self.sessions.push((id, timeout_ms));
    }
    fn acl(&mut self, key: i64, acl: Vec<Acl>) {
        self.acls.push((key, acl));
    }
    fn node(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl_key: i64,
        stat: StatPersisted,
    ) -> Result<(), LoadError> {
        self.nodes.push((path.to_owned(), data.map(<[u8]>::to_vec), acl_key));
        self.stats.push(stat);
        Ok(())
    }
}

fn read(
    disk: &MemoryDisk,
    compression: Compression,
) -> Result<(Collect, SnapshotSummary), SnapshotError> {
    let mut collect = Collect::default();
    let name = name(compression);
    let summary = read_snapshot(disk, dir(), name, &mut collect, &mut |_| {})?;
    Ok((collect, summary))
}

#[test]
fn every_packing_comes_back_and_survives_a_crash() {
    for compression in PACKINGS {
        let disk = disk();
        write(&disk, compression, &nodes(), &trailer());
        disk.crash(|_| false);
        assert!(looks_whole(&disk, dir(), name(compression)).unwrap());
        let (collect, summary) = read(&disk, compression).unwrap();
        assert_eq!(collect.nodes, nodes());
        assert_eq!(collect.stats[2], stat(2));
        assert_eq!(collect.sessions[1], (SessionId(-6), 30_000));
        assert_eq!(collect.acls[0].1.len(), 2);
        assert_eq!(summary.trailer, trailer());
        assert_eq!(summary.nodes, 4);
        assert_eq!(trailer().fuzzy_until(Zxid(9)), Zxid(12));
    }
}

#[test]
fn the_packing_is_known_from_the_content() {
    for compression in PACKINGS {
        let disk = disk();
        write(&disk, compression, &nodes(), &trailer());
        let path = name(compression).path(dir());
        assert_eq!(detect_compression(&disk, &path).unwrap(), Some(compression));
    }
    let disk = disk();
    for content in ["", "ZKLG\0\0\0\u{2}", "some text"] {
        let path = dir().join("other");
        disk.put(&path, content.as_bytes().to_vec());
        assert_eq!(detect_compression(&disk, &path).unwrap(), None, "{content:?}");
    }
}

#[test]
fn trailers_of_all_ages_are_read() {
    let (digest, last_zxid) = (trailer().digest, trailer().last_zxid);
    for trailer in [
        Trailer::default(),
        Trailer { digest, last_zxid: None },
        Trailer { digest: None, last_zxid },
        trailer(),
    ] {
        let disk = disk();
        write(&disk, Compression::None, &nodes(), &trailer);
        let (_, summary) = read(&disk, Compression::None).unwrap();
        assert_eq!(summary.trailer, trailer);
    }
}

/// The digest as text, as the first servers that had one wrote it.
#[test]
fn a_digest_in_hex_is_read() {
    let disk = disk();
    write(&disk, Compression::None, &nodes(), &Trailer::default());
    let path = name(Compression::None).path(dir());
    let mut content = disk.content(&path).unwrap();
    content.put_long(11);
    content.put_int(1);
    content.put_string("7f");
    content.put_long(i64::from(simd_adler32::adler32(&content.as_slice())));
    content.put_string("/");
    disk.put(&path, content);
    let digest = read(&disk, Compression::None).unwrap().1.trailer.digest;
    assert_eq!(digest.unwrap().digest, 0x7f);
}

/// Cut off anywhere but where an older server would have ended, a file is refused.
#[test]
fn a_file_cut_anywhere_is_refused() {
    for compression in PACKINGS {
        let whole = disk();
        write(&whole, compression, &nodes(), &trailer());
        let path = name(compression).path(dir());
        let content = whole.content(&path).unwrap();
        for cut in 0..content.len() {
            let disk = disk();
            disk.put(&path, content[..cut].to_vec());
            // Each part of the trailer may be missing as a whole: 33 and 21 bytes.
            let older = [content.len() - 54, content.len() - 21].contains(&cut);
            let result = read(&disk, compression);
            if compression == Compression::None && older {
                assert_eq!(result.unwrap().0.nodes, nodes());
            } else {
                result.map(|_| ()).unwrap_err();
            }
        }
    }
}

/// Whatever bit turns over, the snapshot is refused or reads the same.
#[test]
fn a_flipped_bit_changes_nothing_unseen() {
    for compression in PACKINGS {
        let whole = disk();
        write(&whole, compression, &nodes(), &trailer());
        let path = name(compression).path(dir());
        let expected = read(&whole, compression).unwrap();
        let bytes = whole.content(&path).unwrap().len();
        for offset in 0..bytes {
            for bit in 0..8 {
                whole.flip_bit(&path, offset, bit);
                if let Ok(found) = read(&whole, compression) {
                    assert_eq!(found, expected, "bit {bit} of {offset}");
                }
                whole.flip_bit(&path, offset, bit);
            }
        }
    }
}

fn load(nodes: &[Node]) -> SnapshotFault {
    let disk = disk();
    write(&disk, Compression::None, nodes, &trailer());
    let mut loader = Loader::new(TreeOptions::default());
    let name = name(Compression::None);
    read_snapshot(&disk, dir(), name, &mut loader, &mut |_| {}).unwrap_err().fault
}

#[test]
fn znodes_that_make_no_tree_are_refused() {
    let root = (String::new(), None, -1);
    let node = |path: &str| (path.to_owned(), None, -1);
    let twice = load(&[root.clone(), node("/a"), node("/a")]);
    assert!(matches!(twice, SnapshotFault::Load(LoadError::Duplicate(_))));
    let orphan = load(&[root, node("/a/b")]);
    assert!(matches!(orphan, SnapshotFault::Load(LoadError::NoParent(_))));
}

/// A count or length of two billion costs an error, not memory.
#[test]
fn claims_are_not_believed() {
    for claim in ["7fffffff", "80000000", "fffffffe"] {
        let claim = u32::from_str_radix(claim, 16).unwrap().to_be_bytes();
        for prefix in [&[][..], &[0; 4], &[0; 8]] {
            for compression in PACKINGS {
                let disk = disk();
                let mut content = HEADER.to_vec();
                content.extend_from_slice(prefix);
                content.extend_from_slice(&claim);
                content.extend_from_slice(&[1; 100]);
                disk.put(&name(compression).path(dir()), content);
                read(&disk, compression).map(|_| ()).unwrap_err();
            }
        }
    }
    let disk = disk();
    let mut content = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01".to_vec();
    content.extend_from_slice(&[0, 0, 0, 6, 0xff, 0xff, 0xff, 0xff, 0x0f, 0]);
    disk.put(&name(Compression::Snappy).path(dir()), content);
    read(&disk, Compression::Snappy).map(|_| ()).unwrap_err();
}

#[test]
fn an_unfinished_snapshot_leaves_nothing() {
    let disk = disk();
    let head = (Zxid(9), Compression::None);
    let begin = || SnapshotWriter::begin(Arc::new(disk.clone()), dir(), head, &[], &[]).unwrap();
    drop(begin());
    assert!(disk.list(dir()).unwrap().is_empty());
    disk.set_capacity(Some(100));
    let mut writer = begin();
    writer.encode_node("", Some(&[1; 200]), -1, &stat(0));
    assert!(writer.spill(&mut |_| {}).unwrap_err().is_full());
    drop(writer);
    assert!(disk.list(dir()).unwrap().is_empty());
    disk.set_capacity(None);
    disk.fail_sync(0);
    let error = begin().finish(&trailer(), &mut |_| {}).unwrap_err();
    assert!(!error.is_full());
    assert!(!disk.list(dir()).unwrap().iter().any(|entry| entry.name.starts_with("snapshot.")));
}

proptest! {
    #[test]
    fn random_znodes_come_back(
        contents in prop::collection::vec(
            ("[a-zé]{1,12}", prop::option::of(prop::collection::vec(any::<u8>(), 0..3000)), any::<i64>()),
            0..60,
        ),
        packing in 0..3usize,
    ) {
        let mut nodes = vec![(String::new(), None, -1)];
        nodes.extend(contents.into_iter().map(|(name, data, key)| (format!("/{name}"), data, key)));
        let disk = disk();
        write(&disk, PACKINGS[packing], &nodes, &trailer());
        let (collect, _) = read(&disk, PACKINGS[packing]).unwrap();
        prop_assert_eq!(collect.nodes, nodes);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), packing in 0..3usize) {
        let disk = disk();
        let mut content = super::pack::magic(PACKINGS[packing]).to_vec();
        content.extend(bytes);
        disk.put(&name(PACKINGS[packing]).path(dir()), content);
        let _ = read(&disk, PACKINGS[packing]);
    }
}
