//! `inspect data-dir`.

use std::fs;

use crate::harness::{Copy, expected_digest, expected_zxid, fixtures, run};

#[test]
fn every_fixture_is_sound_and_has_apaches_digest() {
    for variant in fixtures() {
        let dir = variant.to_str().unwrap();
        let ran = run(&["inspect", "data-dir", dir, "--verify"]);
        assert_eq!(ran.code, 0, "{dir}: {}", ran.out);
        assert!(ran.out.ends_with("\nsound\n"), "{dir}: {}", ran.out);
        let summary = &run(&["inspect", "data-dir", dir, "--json"]).json()[0];
        assert_eq!(summary["last_zxid"].as_str(), Some(&*expected_zxid(&variant)), "{dir}");
        if let Some(digest) = expected_digest(&variant) {
            assert_eq!(summary["digest"].as_i64(), Some(digest), "{dir}");
            let has_digests = !dir.ends_with("old-style");
            assert_eq!(ran.out.contains("ok       digests: "), has_digests, "{dir}: {}", ran.out);
        }
    }
}

#[test]
fn the_summary_counts() {
    let copy = Copy::of("apache-3.9.5/gz");
    run(&["inspect", "data-dir", copy.text()]).expect(
        0,
        &[
            "snapshot.71.gz",
            "log.55",
            "0x55 to 0x71",
            "znodes",
            "Parents with the most children",
            "Largest subtrees by bytes",
            "Sessions with the most ephemerals",
            "Txns by type",
            "create2",
            "Txns over time",
            "█",
        ],
    );
    let below = copy.path().join("version-2");
    run(&["inspect", "data-dir", below.to_str().unwrap()]).expect(0, &["snapshot.71.gz"]);
    let summary = &run(&["inspect", "data-dir", copy.text(), "--json", "--top", "1"]).json()[0];
    assert_eq!(summary["tree"]["top_parents"].as_array().unwrap().len(), 1);
    let types: u64 =
        summary["txn_types"].as_array().unwrap().iter().map(|pair| pair[1].as_u64().unwrap()).sum();
    assert_eq!(types, 0x71);
}

#[test]
fn what_a_purge_would_remove_is_marked() {
    let copy = Copy::of("apache-3.9.5/plain");
    for zxid in ["55", "56", "57"] {
        fs::copy(copy.file("snapshot.54"), copy.file(&format!("snapshot.{zxid}"))).unwrap();
    }
    let summary = &run(&["inspect", "data-dir", copy.text(), "--json"]).json()[0];
    let removed: Vec<&str> = summary["snapshots"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["purge"] == "remove")
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(removed, ["snapshot.0", "snapshot.54"]);
    assert_eq!(summary["logs"][0]["purge"], "remove");
    assert_eq!(summary["logs"][1]["purge"], "keep");
}

#[test]
fn separate_log_directories_are_read() {
    let copy = Copy::of("apache-3.9.5/plain");
    let logs = copy.path().join("logs/version-2");
    fs::create_dir_all(&logs).unwrap();
    for name in ["log.1", "log.55"] {
        fs::rename(copy.file(name), logs.join(name)).unwrap();
    }
    run(&["inspect", "data-dir", copy.text()]).expect(0, &["--log-dir"]);
    let log_dir = copy.path().join("logs");
    run(&["inspect", "data-dir", copy.text(), "--log-dir", log_dir.to_str().unwrap(), "--verify"])
        .expect(0, &["log.55", "sound"]);
}

#[test]
fn each_kind_of_damage_is_found() {
    let check = |damage: &dyn Fn(&Copy), pieces: &[&str]| {
        let copy = Copy::of("apache-3.9.5/plain");
        damage(&copy);
        run(&["inspect", "data-dir", copy.text(), "--verify"]).expect(1, pieces);
    };
    check(
        &|copy| copy.flip("log.55", copy.offsets("log.55")[&0x58] + 20),
        &["PROBLEM  log.55: damaged at offset", "a server refuses to start"],
    );
    check(
        &|copy| copy.flip("snapshot.54", 1000),
        &["PROBLEM  snapshot.54", "a server starts with"],
    );
}

#[test]
fn missing_logs_are_found() {
    let copy = Copy::of("apache-3.9.5/plain");
    fs::remove_file(copy.file("snapshot.54")).unwrap();
    let offsets = copy.offsets("log.55");
    assert!(offsets.contains_key(&0x55));
    fs::remove_file(copy.file("log.1")).unwrap();
    run(&["inspect", "data-dir", copy.text(), "--verify"]).expect(
        1,
        &[
            "txns are missing between 0x0 and 0x55, and no snapshot covers them",
            "a server refuses to start",
        ],
    );
}

#[test]
fn a_hole_that_a_snapshot_covers_is_only_a_note() {
    let copy = Copy::of("apache-3.9.5/plain");
    let offsets = copy.offsets("log.1");
    copy.cut("log.1", offsets[&0x30]);
    run(&["inspect", "data-dir", copy.text(), "--verify"])
        .expect(0, &["txns are missing between 0x2f and 0x55; snapshot 0x54 covers them", "sound"]);
}

#[test]
fn a_txn_with_another_effect_than_its_digest_says_is_found() {
    // The data of a create is changed, and its checksum with it: only the digest can tell.
    let copy = Copy::of("apache-3.9.5/plain");
    let offset = copy.offsets("log.1")[&3] as usize;
    let mut bytes = fs::read(copy.file("log.1")).unwrap();
    let length = u32::from_be_bytes(bytes[offset + 8..offset + 12].try_into().unwrap()) as usize;
    let payload = offset + 12..offset + 12 + length;
    let text = b"first life";
    let at = bytes[payload.clone()].windows(text.len()).position(|window| window == text).unwrap();
    bytes[payload.start + at] ^= 0x20;
    let crc = herdsman_store::log::checksum(&bytes[payload]);
    bytes[offset..offset + 8].copy_from_slice(&crc.to_be_bytes());
    fs::write(copy.file("log.1"), bytes).unwrap();
    run(&["inspect", "data-dir", copy.text(), "--verify"])
        .expect(1, &["PROBLEM  digests: after txn 0x3 the txn says", "more that do not match"]);
}

#[test]
fn epoch_files_are_checked() {
    let check = |current: &str, accepted: &str, code: u8, piece: &str| {
        let copy = Copy::of("apache-3.9.5/plain");
        fs::write(copy.file("currentEpoch"), current).unwrap();
        fs::write(copy.file("acceptedEpoch"), accepted).unwrap();
        run(&["inspect", "data-dir", copy.text(), "--verify"]).expect(code, &[piece]);
    };
    check("1", "2", 0, "currentEpoch 1, acceptedEpoch 2");
    check("2", "1", 1, "less than currentEpoch");
    check("x", "1", 1, "which is not an epoch");
}

#[test]
fn wrong_directories_are_said_in_a_line() {
    let empty = tempfile::tempdir().unwrap();
    let check = |dir: &str, piece: &str| {
        let ran = run(&["inspect", "data-dir", dir]).expect(2, &[piece]);
        assert_eq!((ran.out.as_str(), ran.err.lines().count()), ("", 1), "{ran:?}");
    };
    check("/nowhere", "/nowhere does not exist");
    check(empty.path().to_str().unwrap(), "has no version-2 directory");
}
