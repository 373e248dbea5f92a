//! Trees whose digest differs from the recorded one.

use herdsman_proto::txn::TxnDigest;

use super::*;

#[test]
fn a_tree_with_a_wrong_digest_is_refused() {
    let disk = server(&[], 0);
    let mut entries = with_digests(creates(1..=3));
    entries[2].digest = Some(TxnDigest { version: TxnDigest::VERSION, tree_digest: 0x4711 });
    disk.put(&log_path(1), log_bytes(&entries));
    let message = refused(&disk);
    let found = format!("after txn 0x3 the tree has digest {:x}", tree_at(3).digest());
    for part in [&found, "the files say 4711", "that of txn 0x2", "db.autocreate=false", "backup"] {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
    // A mismatch is reported to tools that only inspect, and not at all if digests are disabled.
    let looks =
        RecoverOptions { on_mismatch: OnDigestMismatch::Report, ..RecoverOptions::default() };
    let mismatch = run(&disk, &looks).unwrap().digest_mismatch.unwrap();
    assert_eq!((mismatch.zxid, mismatch.last_fit), (Zxid(3), Some(Zxid(2))));
    let tree = TreeOptions { digest: false, ..TreeOptions::default() };
    let off = RecoverOptions { tree, ..RecoverOptions::default() };
    assert_eq!(run(&disk, &off).unwrap().digest_mismatch, None);
}

/// The first txn of an epoch follows any older one. If its file has no footer, only digests show that a file before it
/// is missing.
#[test]
fn a_hole_before_a_new_epoch_is_seen_by_the_digests() {
    let entries = with_digests(creates([epoch(1, 1..=6), epoch(2, 1..=2)].concat()));
    let parts = [&entries[..3], &entries[3..6], &entries[6..]];
    let disk = disk();
    snapshot(&disk, &tree_at(0));
    let mut last = Zxid::ZERO;
    for part in parts {
        write_entries(&disk, last, part);
        last = part.last().unwrap().header.zxid;
    }
    disk.put(&log_path(entries[6].header.zxid.0), log_bytes(&entries[6..]));
    assert!(same(&recovered(&disk).tree, &tree_of(&entries)));
    // The last file of the old epoch is shortened, or missing.
    let path = log_path(entries[3].header.zxid.0);
    disk.put(&path, log_bytes(&entries[3..5]));
    let message = refused(&disk);
    assert!(message.contains("after txn 0x200000001 the tree has digest"), "{message}");
    assert!(message.contains("that of txn 0x100000005"), "{message}");
    disk.remove(&path).unwrap();
    assert!(refused(&disk).contains("that of txn 0x100000003"));
    // A snapshot after the gap makes it harmless.
    snapshot(&disk, &tree_of(&entries[..7]));
    assert!(same(&recovered(&disk).tree, &tree_of(&entries)));
}

/// A snapshot that does not say up to where it is fuzzy may lack a znode earlier than the log does. Digests tell that
/// the tree is right in the end; what is before that is not offered to learners.
#[test]
fn digests_over_a_fuzzy_snapshot_without_an_end_need_only_fit_at_last() {
    let disk = disk();
    let before = creates(1..=5);
    let meanwhile = [create(6, 40), delete(7, "/n5")];
    let all = with_digests([&before[..], &meanwhile[..], &creates(8..=9)].concat());
    snapshot(&disk, &tree_at(0));
    write_entries(&disk, Zxid::ZERO, &all);
    fuzzy_snapshot(&disk, &all[..5], &all[5..7], LastZxid::Omit);
    let recovered = recovered(&disk);
    assert!(same(&recovered.tree, &tree_of(&all)));
    let mismatch = recovered.digest_mismatch.unwrap();
    assert_eq!((mismatch.zxid, mismatch.healed_by), (Zxid(6), Some(Zxid(7))));
    let after = mismatch.healed_by.unwrap();
    let limits = crate::HistoryLimits { txns_max: 100, bytes_max: 1 << 20, after };
    let history = crate::read_history(&disk, &dirs(), Zxid(9), limits).unwrap();
    assert_eq!((history.base, history.txns.len()), (Zxid(7), 2));
}
