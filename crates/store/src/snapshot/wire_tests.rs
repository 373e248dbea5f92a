//! A tree over a wire and back, whole, cut, and made up by somebody who means no good.

use std::io::{self, BufReader};

use herdsman_proto::DecodeError;
use herdsman_proto::txn::Entry;
use herdsman_proto::{SessionId, Txn, TxnHeader};
use herdsman_tree::LoadError;
use herdsman_tree::dump::STEP_BYTES_MAX;
use proptest::prelude::*;

use super::*;
use crate::testing::{create, delete, set_data};

const FIELD_BYTES_MAX: usize = 1 << 20;

fn session(zxid: i64) -> Entry {
    let session = SessionId(0x77);
    Entry {
        header: TxnHeader { session, cxid: 1, zxid: Zxid(zxid), time_ms: 5 },
        txn: Txn::CreateSession { timeout_ms: 4000 },
        digest: None,
    }
}

fn tree(last: i64) -> Tree {
    let mut tree = Tree::new(TreeOptions::default());
    tree.replay(&session(1));
    for zxid in 2..=last {
        tree.replay(&create(zxid, 40));
    }
    tree
}

fn sent(tree: &Tree, nodes_max: usize) -> Vec<u8> {
    let mut snapshot = WireSnapshot::start(tree);
    let mut sent = Vec::new();
    let mut piece = Vec::new();
    loop {
        let more = snapshot.step(tree, nodes_max, &mut piece);
        sent.append(&mut piece);
        if !more {
            // Asking again is harmless.
            assert!(!snapshot.step(tree, nodes_max, &mut piece) && piece.is_empty());
            return sent;
        }
    }
}

fn received(mut source: impl Read, zxid: i64) -> Result<ReceivedSnapshot, ReceiveError> {
    receive_snapshot(&mut source, Zxid(zxid), TreeOptions::default(), FIELD_BYTES_MAX)
}

fn fault(bytes: &[u8]) -> SnapshotFault {
    received(bytes, 9).unwrap_err().fault
}

#[test]
fn a_tree_comes_over_and_what_follows_is_left_alone() {
    let tree = tree(50);
    let mut bytes = sent(&tree, 7);
    assert_eq!(bytes, sent(&tree, 1000));
    let length = bytes.len();
    bytes.extend_from_slice(b"the next packet");
    // However the stream is buffered.
    for capacity in [1, 13, 1 << 16] {
        let mut stream = BufReader::with_capacity(capacity, &bytes[..]);
        let received = received(&mut stream, 50).unwrap();
        assert_eq!(received.tree.digest(), tree.digest());
        assert_eq!(received.tree.node_count(), tree.node_count());
        assert_eq!(received.tree.last_zxid(), Zxid(50));
        assert!(received.tree.sessions().eq(tree.sessions()));
        assert_eq!(received.newest_effect, Zxid(50));
        assert_eq!(received.nodes, tree.node_count() as u64);
        assert_eq!(received.bytes, length as u64);
        assert_eq!(io::read_to_string(stream).unwrap(), "the next packet");
    }
}

/// The bytes of the smallest tree, as they stand in Apache's stream.
#[test]
fn the_bytes_are_apaches() {
    let mut loader = Loader::new(TreeOptions::default());
    loader.node("", None, -1, herdsman_proto::StatPersisted::default()).unwrap();
    let mut expected = vec![0; 4 + 4 + 4];
    expected.extend_from_slice(&[0xff; 4 + 8]);
    expected.extend_from_slice(&[0; 60]);
    expected.extend_from_slice(b"\0\0\0\x01/\0\0\0\x0aBenWasHere");
    assert_eq!(sent(&loader.finish(Zxid(1)).unwrap(), 5), expected);
}

/// Writes go on while the tree is sent; applying them again over what came makes it exact.
#[test]
fn a_fuzzy_tree_is_made_exact_by_the_txns_behind_it() {
    let mut tree = tree(20);
    let mut snapshot = WireSnapshot::start(&tree);
    let mut bytes = Vec::new();
    let mut behind = Vec::new();
    while snapshot.step(&tree, 3, &mut bytes) {
        let zxid = 21 + behind.len() as i64;
        behind.push(match zxid % 3 {
            0 => create(zxid, 40),
            1 => set_data(zxid, &format!("/n{}", zxid % 20)),
            _ => delete(zxid, &format!("/n{}", zxid % 20)),
        });
        tree.replay(behind.last().unwrap());
    }
    assert_eq!(snapshot.zxid(), Zxid(20));
    let mut received = received(&bytes[..], 20).unwrap();
    assert!(received.newest_effect > Zxid(20));
    for entry in &behind {
        received.tree.replay(entry);
    }
    assert_eq!(received.tree.digest(), tree.digest());
    assert_eq!(received.tree.last_zxid(), tree.last_zxid());
}

#[test]
fn large_znodes_do_not_gather() {
    let mut tree = Tree::new(TreeOptions::default());
    for zxid in 1..=8 {
        tree.replay(&create(zxid, STEP_BYTES_MAX / 2));
    }
    let mut snapshot = WireSnapshot::start(&tree);
    let mut piece = Vec::new();
    while snapshot.step(&tree, 1000, &mut piece) {
        assert!(piece.len() < 2 * STEP_BYTES_MAX, "{}", piece.len());
        piece.clear();
    }
}

#[test]
fn a_stream_cut_anywhere_is_refused() {
    let bytes = sent(&tree(5), 100);
    for cut in 0..bytes.len() {
        assert!(matches!(fault(&bytes[..cut]), SnapshotFault::Truncated), "{cut}");
    }
}

#[test]
fn a_stream_that_fails_is_refused() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::TimedOut.into())
        }
    }
    let bytes = sent(&tree(5), 100);
    let error = received(bytes[..100].chain(Fails), 5).unwrap_err();
    assert!(matches!(error.fault, SnapshotFault::Io(_)), "{error}");
}

#[test]
fn only_the_signature_ends_it() {
    let mut bytes = sent(&tree(5), 100);
    let last = bytes.len() - 1;
    bytes[last] = b'E';
    assert!(matches!(fault(&bytes), SnapshotFault::Signature(text) if text == "BenWasHerE"));
    bytes.truncate(last - 9);
    bytes.truncate(bytes.len() - 4);
    bytes.put_buffer(None);
    assert!(matches!(fault(&bytes), SnapshotFault::Decode(DecodeError::Null)));
}

#[test]
fn a_time_before_all_times_is_refused() {
    let bytes = sent(&tree(5), 100);
    let error = received(&bytes[..], -1).unwrap_err();
    assert!(matches!(error.fault, SnapshotFault::Zxid(Zxid(-1))));
}

/// Claims of two billion sessions, ACLs, bytes: an error, and no memory for what does not come.
#[test]
fn claims_are_not_believed() {
    let claim = i32::MAX.to_be_bytes();
    for prefix in [&[][..], &[0; 4], &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]] {
        let bytes = [prefix, &claim, &[1; 300]].concat();
        assert!(!matches!(fault(&bytes), SnapshotFault::Io(_)));
    }
    for length in [-2, FIELD_BYTES_MAX as i32 + 1, i32::MAX] {
        for at_path in [true, false] {
            let mut bytes = vec![0; 8];
            if !at_path {
                bytes.put_string("");
            }
            bytes.put_int(length);
            let expected = DecodeError::Length(length);
            assert!(matches!(fault(&bytes), SnapshotFault::Decode(error) if error == expected));
        }
    }
}

#[test]
fn znodes_that_make_no_tree_are_refused() {
    let mut bytes = vec![0; 8];
    bytes.put_string("/");
    bytes.put_string("BenWasHere");
    assert!(matches!(fault(&bytes), SnapshotFault::Load(LoadError::NoRoot)));
    bytes.truncate(8);
    encode_node("/a", None, -1, &herdsman_proto::StatPersisted::default(), &mut bytes);
    assert!(matches!(fault(&bytes), SnapshotFault::Load(LoadError::NoParent(_))));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = received(&bytes[..], 1);
        let _ = received(&[&[0; 8], &bytes[..]].concat()[..], 1);
    }

    #[test]
    fn a_changed_byte_never_panics(at in 0..800usize, byte in any::<u8>()) {
        let mut bytes = sent(&tree(6), 100);
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = received(&bytes[..], 6);
    }
}
