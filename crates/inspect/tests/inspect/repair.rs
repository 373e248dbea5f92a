//! `repair`.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::sync::Arc;

use herdsman_proto::txn::{CreateKind, CreateTxn, Entry};
use herdsman_proto::{Acl, Perms, SessionId, Txn, TxnHeader, Zxid};
use herdsman_store::{
    Compression, Dirs, Disk, LastZxid, LogOptions, LogWriter, RealDisk, SyncMode, write_snapshot,
};
use herdsman_testing::TestServer;
use herdsman_tree::{Tree, TreeOptions};

use crate::harness::{Copy, bytes_of, contents, fixture, run, run_answering, run_failing_output};

/// A server starts from what a repair has left.
fn server_starts(copy: &Copy) {
    let data_dir = copy.path().to_owned();
    let mut server = TestServer::start_with(|config| {
        config.storage.data_dir = data_dir.clone();
        config.storage.log_dir = data_dir;
    });
    server.stop();
}

/// A log with a damaged txn 0x60 in the middle of the last file.
fn damaged() -> Copy {
    let copy = Copy::of("apache-3.9.5/plain");
    copy.flip("log.55", copy.offsets("log.55")[&0x60] + 20);
    copy
}

#[test]
fn without_an_action_it_says_what_would_help() {
    let sound = Copy::of("apache-3.9.5/plain");
    run(&["repair", sound.text()]).expect(0, &["as of txn 0x71", "Nothing needs to be repaired"]);
    let copy = damaged();
    let before = contents(copy.path());
    let command = format!("herdsman repair {} --accept-loss\n", copy.text());
    run(&["repair", copy.text()]).expect(
        1,
        &[
            "refuses to start",
            "checksum is wrong",
            &command,
            "goes back to txn 0x5f",
            "--accept-loss=damaged-only",
            "Nothing was changed",
        ],
    );
    assert_eq!(contents(copy.path()), before);
}

#[test]
fn a_torn_tail_is_cut() {
    let copy = Copy::of("apache-3.9.5/plain");
    let last = copy.offsets("log.55")[&0x71];
    copy.cut("log.55", last + 30);
    let torn = fs::read(copy.file("log.55")).unwrap();
    run(&["repair", copy.text()]).expect(1, &["never completed", "--cut-torn-tail"]);
    run(&["repair", copy.text(), "--cut-torn-tail", "--yes"]).expect(
        0,
        &[
            "keep only the records of log.55 at 16..",
            "No txn is lost",
            "the original files are in",
            "as of txn 0x70",
            "sound",
        ],
    );
    assert_eq!(fs::metadata(copy.file("log.55")).unwrap().len(), last);
    assert_eq!(fs::read(copy.kept().join("log.55")).unwrap(), torn);
    run(&["repair", copy.text(), "--cut-torn-tail", "--yes"]).expect(0, &["nothing to do"]);
    server_starts(&copy);
}

#[test]
fn a_log_without_txns_is_taken_away() {
    let copy = Copy::of("apache-3.9.5/plain");
    fs::write(copy.file("log.72"), "ZKLG\0\0\0").unwrap();
    run(&["repair", copy.text(), "--cut-torn-tail", "--yes"])
        .expect(0, &["remove log.72: it has no txns", "sound"]);
    assert!(!copy.file("log.72").exists());
    assert!(copy.kept().join("log.72").exists());
}

#[test]
fn giving_up_later_txns_goes_back_to_a_state_that_was() {
    let copy = damaged();
    let before = fs::read(copy.file("log.55")).unwrap();
    run(&["repair", copy.text(), "--accept-loss", "--dry-run"])
        .expect(0, &["What is lost:", "0x61", "setData /app/counted", "dry run"]);
    assert_eq!(fs::read(copy.file("log.55")).unwrap(), before);
    let ran = run(&["repair", copy.text(), "--accept-loss", "--yes"])
        .expect(0, &["the bytes at offset", "0x71", "as of txn 0x5f", "sound"]);
    assert!(!ran.out.contains("  0x5f "), "{}", ran.out);
    assert_eq!(fs::read(copy.kept().join("log.55")).unwrap(), before);
    run(&["inspect", "history", "/app/counted", "--data-dir", copy.text()]).expect(0, &["0x5f"]);
    server_starts(&copy);
}

#[test]
fn damage_in_an_earlier_file_gives_up_the_later_ones() {
    let copy = Copy::of("apache-3.9.5/plain");
    copy.flip("snapshot.54", 500);
    copy.flip("log.1", copy.offsets("log.1")[&0x30] + 20);
    let before = bytes_of(copy.path());
    run(&["repair", copy.text(), "--accept-loss", "--yes"]).expect(
        0,
        &[
            "remove log.55: it comes after txn 0x2f",
            "remove snapshot.54: it is damaged",
            "as of txn 0x2f",
            "sound",
        ],
    );
    for name in ["log.1", "log.55", "snapshot.54"] {
        assert_eq!(fs::read(copy.kept().join(name)).unwrap(), before[&copy.file(name)], "{name}");
    }
    server_starts(&copy);
}

#[test]
fn giving_up_only_what_is_damaged_keeps_later_txns() {
    let copy = damaged();
    let before = fs::read(copy.file("log.55")).unwrap();
    run(&["repair", copy.text(), "--accept-loss=damaged-only", "--yes"]).expect(
        0,
        &["write snapshot.71", "any txns after 0x5f and before 0x61", "as of txn 0x71", "sound"],
    );
    assert_eq!(fs::read(copy.kept().join("log.55")).unwrap(), before);
    let counted = run(&[
        "inspect",
        "snapshot",
        &copy.file_text("snapshot.71"),
        "--path",
        "/app/counted",
        "--json",
        "--data",
    ]);
    assert!(counted.out.contains("\"text\":\"19\""), "{}", counted.out);
    assert_eq!(copy.offsets("log.55").len(), 28);
    server_starts(&copy);
}

#[test]
fn a_snapshot_is_rebuilt_from_an_older_one() {
    let copy = Copy::of("apache-3.9.5/plain");
    let digest = |copy: &Copy| {
        run(&["inspect", "data-dir", copy.text(), "--json"]).json()[0]["digest"].clone()
    };
    let before = digest(&copy);
    copy.flip("snapshot.54", 500);
    run(&["repair", copy.text()]).expect(1, &["snapshot.54 cannot be used", "--rebuild-snapshot"]);
    run(&["repair", copy.text(), "--rebuild-snapshot", "--yes"]).expect(
        0,
        &["write snapshot.71", "remove snapshot.54: it is damaged", "No txn is lost", "sound"],
    );
    assert!(copy.kept().join("snapshot.54").exists());
    assert_eq!(digest(&copy), before);
    server_starts(&copy);
}

#[test]
fn a_snapshot_is_rebuilt_from_the_logs_alone() {
    let copy = Copy::of("apache-3.9.5/plain");
    fs::remove_file(copy.file("snapshot.0")).unwrap();
    copy.flip("snapshot.54", 500);
    run(&["repair", copy.text()]).expect(1, &["go back to the first txn"]);
    run(&["repair", copy.text(), "--rebuild-snapshot", "--yes"])
        .expect(0, &["write snapshot.71", "sound"]);
    server_starts(&copy);
    let copy = Copy::of("apache-3.9.5/plain");
    for name in ["snapshot.0", "snapshot.54", "log.1"] {
        fs::remove_file(copy.file(name)).unwrap();
    }
    run(&["repair", copy.text()]).expect(1, &["No repair can help"]);
    run(&["repair", copy.text(), "--rebuild-snapshot", "--yes"]).expect(2, &["does not help here"]);
}

#[test]
fn a_log_that_ends_before_the_snapshot_is_accepted() {
    let copy = Copy::of("apache-3.9.5/plain");
    // As if the snapshot had been begun at 0x52: it then shows effects of txns that are not in a log.
    fs::rename(copy.file("snapshot.54"), copy.file("snapshot.52")).unwrap();
    fs::remove_file(copy.file("log.55")).unwrap();
    copy.cut("log.1", copy.offsets("log.1")[&0x53]);
    run(&["repair", copy.text()]).expect(1, &["log files are missing", "--accept-loss"]);
    run(&["repair", copy.text(), "--accept-loss", "--yes"])
        .expect(0, &["write snapshot.54", "parts of the txns after 0x52, up to 0x54", "sound"]);
    server_starts(&copy);
}

/// A server of an ensemble that has forgotten txns must not vote with what is left.
#[test]
fn a_member_that_gives_txns_up_does_not_vote() {
    let suspended = |copy: &Copy| fs::read_to_string(copy.file("herdsman.votingSuspended")).ok();
    let member = damaged();
    fs::write(member.path().join("myid"), "1").unwrap();
    run(&["repair", member.text(), "--accept-loss", "--yes"])
        .expect(0, &["it will not vote", "initialize", "sound"]);
    assert!(suspended(&member).unwrap().contains("given up"));
    run(&["inspect", "data-dir", member.text(), "--verify"])
        .expect(0, &["the server does not vote: txns were given up"]);
    let alone = damaged();
    run(&["repair", alone.text(), "--accept-loss", "--yes"]).expect(0, &["sound"]);
    assert_eq!(suspended(&alone), None);
}

#[test]
fn it_asks_first() {
    let copy = damaged();
    let before = bytes_of(&copy.path().join("version-2"));
    let arguments = ["repair", copy.text(), "--accept-loss"];
    run(&arguments).expect(2, &["no terminal", "--yes"]);
    run_answering("n\n", &arguments).expect(1, &["Proceed? [y/N]", "nothing was changed"]);
    run_answering("", &arguments).expect(1, &["nothing was changed"]);
    assert_eq!(bytes_of(&copy.path().join("version-2")), before);
    run_answering("y\n", &arguments).expect(0, &["sound"]);
}

#[test]
fn a_running_server_is_left_alone() {
    let copy = damaged();
    fs::write(copy.path().join("zookeeper_server.pid"), std::process::id().to_string()).unwrap();
    run(&["repair", copy.text(), "--accept-loss", "--yes"])
        .expect(2, &["a server runs as process", "Nothing was changed"]);
    fs::write(copy.path().join("zookeeper_server.pid"), "not a number").unwrap();
    run(&["repair", copy.text(), "--accept-loss", "--yes"]).expect(0, &["sound"]);
}

#[test]
fn one_thing_at_a_time() {
    let copy = damaged();
    run(&["repair", copy.text(), "--accept-loss", "--cut-torn-tail"])
        .expect(2, &["cannot be used with"]);
    run(&["repair", copy.text(), "--cut-torn-tail", "--yes"]).expect(2, &["does not help here"]);
    run(&["repair", "/nowhere"]).expect(2, &["does not exist"]);
    let sound = Copy::of("apache-3.9.5/plain");
    run(&["repair", sound.text(), "--accept-loss", "--yes"]).expect(0, &["no loss to accept"]);
}

#[test]
fn a_snapshot_that_is_not_trusted_is_rebuilt_from_a_named_one() {
    let copy = Copy::of("apache-3.9.5/plain");
    copy.falsify_digest("snapshot.54");
    run(&["inspect", "data-dir", copy.text(), "--verify"]).expect(1, &["PROBLEM  snapshot.54"]);
    run(&["repair", copy.text()]).expect(1, &["--rebuild-snapshot=OLDER"]);
    run(&["repair", copy.text(), "--rebuild-snapshot=snapshot.1", "--yes"])
        .expect(2, &["there is no snapshot snapshot.1", "snapshot.0, snapshot.54"]);
    run(&["repair", copy.text(), "--rebuild-snapshot=snapshot.0", "--yes"]).expect(
        0,
        &["write snapshot.71", "remove snapshot.54: it comes after snapshot.0", "sound"],
    );
    assert!(copy.kept().join("snapshot.54").exists());
    server_starts(&copy);
    let copy = Copy::of("apache-3.9.5/plain");
    fs::remove_file(copy.file("log.55")).unwrap();
    copy.cut("log.1", copy.offsets("log.1")[&0x53]);
    let here = ["--log-dir", copy.text()];
    run(&[&["repair", copy.text(), "--rebuild-snapshot=snapshot.0", "--yes"], &here[..]].concat())
        .expect(2, &["the log ends at 0x52, but snapshots reach 0x54"]);
}

/// Only the super user can give files away, so only then there is something to see.
#[test]
fn what_the_super_user_repairs_or_restores_belongs_to_the_servers_user() {
    const USER: u32 = 12345;
    let copy = damaged();
    for path in contents(copy.path()).keys() {
        if chown(path, Some(USER), Some(USER)).is_err() {
            return;
        }
    }
    run(&["repair", copy.text(), "--accept-loss=damaged-only", "--yes"]).expect(0, &["sound"]);
    let backup = fixture("apache-3.9.5/plain/version-2/snapshot.54");
    let arguments =
        ["restore", backup.to_str().unwrap(), "--data-dir", copy.text(), "--force", "--yes"];
    run(&arguments).expect(0, &["restored"]);
    for path in contents(copy.path()).keys() {
        assert_eq!(fs::metadata(path).unwrap().uid(), USER, "{}", path.display());
    }
}

/// A reader that has gone (`herdsman repair … | head`) must not stop a repair between two steps.
#[test]
fn a_repair_is_finished_when_nobody_reads_its_output() {
    for kind in [ErrorKind::BrokenPipe, ErrorKind::StorageFull] {
        for text in ["done: ", "a member of an ensemble"] {
            let copy = Copy::of("apache-3.9.5/plain");
            fs::write(copy.path().join("myid"), "1").unwrap();
            copy.flip("log.1", copy.offsets("log.1")[&0x30] + 20);
            copy.flip("snapshot.54", 500);
            let arguments = ["repair", copy.text(), "--accept-loss", "--yes"];
            let ran = run_failing_output(text, kind, &arguments).expect(
                0,
                &["the repair continues, but standard output cannot be written to", "sound"],
            );
            for piece in ["done: remove log.55", "the original files are in", "sound"] {
                assert!(ran.err.contains(piece), "{ran:#?}");
            }
            assert!(!copy.file("log.55").exists() && !copy.file("snapshot.54").exists());
            run(&["inspect", "data-dir", copy.text(), "--verify"]).expect(0, &["0x2f", "sound"]);
        }
    }
}

/// Before the first step it ends the command.
#[test]
fn a_plan_that_cannot_be_shown_is_not_carried_out() {
    let copy = damaged();
    let before = bytes_of(&copy.path().join("version-2"));
    let arguments = ["repair", copy.text(), "--accept-loss", "--yes"];
    run_failing_output("What will be done", ErrorKind::BrokenPipe, &arguments)
        .expect(2, &["standard output was closed"]);
    assert_eq!(bytes_of(&copy.path().join("version-2")), before);
}

/// A server that is healed by another one's files has everything, and keeps its old files.
#[test]
fn damaged_txns_are_taken_from_another_servers_files() {
    let whole = Copy::of("apache-3.9.5/plain");
    let digest = |copy: &Copy| {
        run(&["inspect", "data-dir", copy.text(), "--json"]).json()[0]["digest"].clone()
    };
    let copy = damaged();
    copy.flip("log.55", copy.offsets("log.55")[&0x65] + 20);
    copy.flip("log.55", 1);
    let before = fs::read(copy.file("log.55")).unwrap();
    let everything = bytes_of(&copy.path().join("version-2"));
    run(&["repair", copy.text()]).expect(1, &["--from DIR"]);
    let arguments = ["repair", copy.text(), "--from", whole.text()];
    let pieces = [
        "log.55 at offset",
        "txn 0x60, in ",
        "txn 0x65, in ",
        "write log.55 again, with 2 records that were missing",
    ];
    run(&[&arguments[..], &["--dry-run"]].concat()).expect(0, &pieces).expect(0, &["dry run"]);
    assert_eq!(bytes_of(&copy.path().join("version-2")), everything);
    run(&arguments).expect(2, &["no terminal"]);
    run_answering("n\n", &arguments).expect(1, &["nothing was changed"]);
    assert_eq!(bytes_of(&copy.path().join("version-2")), everything);
    run(&[&arguments[..], &["--yes"]].concat())
        .expect(0, &pieces)
        .expect(0, &["the original files are in", "as of txn 0x71", "sound"]);
    assert_eq!(fs::read(copy.kept().join("log.55")).unwrap(), before);
    assert_eq!(digest(&copy), digest(&whole));
    run(&["repair", copy.text(), "--from", whole.text(), "--yes"])
        .expect(0, &["Nothing needs to be repaired"]);
    server_starts(&copy);
}

#[test]
fn a_missing_log_file_is_written_anew() {
    let whole = Copy::of("apache-3.9.5/plain");
    let copy = Copy::of("apache-3.9.5/plain");
    copy.flip("snapshot.54", 500);
    fs::remove_file(copy.file("log.1")).unwrap();
    // A directory with logs only, and no version-2.
    let logs = tempfile::tempdir().unwrap();
    fs::copy(whole.file("log.1"), logs.path().join("log.1")).unwrap();
    let logs = logs.path().to_str().unwrap();
    run(&["repair", copy.text(), "--from", logs, "--yes"])
        .expect(0, &["write log.1, with 84 records", "rename snapshot.54", "sound"]);
    assert!(copy.file("damaged.snapshot.54").exists() && copy.kept().join("snapshot.54").exists());
    server_starts(&copy);
}

/// What is found is written, and what is not is reported.
#[test]
fn a_part_of_a_repair_is_done_and_the_rest_reported() {
    let other = damaged();
    let copy = damaged();
    copy.flip("log.55", copy.offsets("log.55")[&0x68] + 20);
    let arguments = ["repair", copy.text(), "--from", other.text(), "--yes"];
    run(&arguments).expect(
        1,
        &["txn 0x68, in ", "txn 0x60; damaged in ", "with 1 records", "refuses to start"],
    );
    run(&arguments).expect(1, &["What is still missing", "txn 0x60", "nothing was changed"]);
    // Two sources, each with a part.
    let (third, whole) = (damaged(), Copy::of("apache-3.9.5/plain"));
    let copy = damaged();
    copy.flip("log.55", copy.offsets("log.55")[&0x68] + 20);
    whole.flip("log.55", whole.offsets("log.55")[&0x68] + 20);
    run(&["repair", copy.text(), "--from", third.text(), "--from", whole.text(), "--yes"])
        .expect(0, &["txn 0x68, in ", "txn 0x60, in ", "sound"]);
}

/// The end of a log without a table: nobody knows which txn was the last one.
#[test]
fn a_lost_end_is_not_guessed() {
    let copy = without_end();
    let before = bytes_of(&copy.path().join("version-2"));
    // The other one ends there, too, or has nothing that shows that it is the same history.
    let logs = tempfile::tempdir().unwrap();
    fs::copy(copy.file("log.1"), logs.path().join("log.1")).unwrap();
    let same = without_end();
    for other in [same.text(), logs.path().to_str().unwrap()] {
        run(&["repair", copy.text(), "--from", other, "--yes"]).expect(
            1,
            &[
                "whatever came after txn 0x70",
                "it is not known which txn was the last one",
                "nothing",
            ],
        );
    }
    assert_eq!(bytes_of(&copy.path().join("version-2")), before);
}

fn without_end() -> Copy {
    let copy = Copy::of("apache-3.9.5/plain");
    copy.flip("log.55", copy.offsets("log.55")[&0x71] + 20);
    copy
}

/// A copy has the last valid txn, and another one after it: better than nothing, but there may have been more. So a
/// member does not vote afterwards.
#[test]
fn a_lost_end_is_taken_from_a_copy() {
    let whole = Copy::of("apache-3.9.5/plain");
    for is_member in [false, true] {
        let copy = without_end();
        if is_member {
            fs::write(copy.path().join("myid"), "1").unwrap();
        }
        let arguments = ["repair", copy.text(), "--from", whole.text()];
        let pieces = ["nothing here says how far it went", "goes on with txn 0x71.", "given up"];
        let found = run(&[&arguments[..], &["--yes"]].concat()).expect(0, &pieces);
        let found = found.expect(0, &["as of txn 0x71", "sound"]);
        assert_eq!(found.out.contains("it will not vote"), is_member);
        let result = |copy: &Copy| {
            run(&["inspect", "data-dir", copy.text(), "--json"]).json()[0]["digest"].clone()
        };
        assert_eq!(result(&copy), result(&whole));
        if !is_member {
            server_starts(&copy);
        }
    }
    // Another history's record is the last one here.
    let (copy, forged) = (without_end(), Copy::of("apache-3.9.5/plain"));
    forged.replace_record("log.55", 0x70, 0x6f);
    run(&["repair", copy.text(), "--from", forged.text(), "--yes"]).expect(2, &["another history"]);
}

/// A log of Herdsman ends with a table of its records, so its end is known, and what is taken is checked against it.
#[test]
fn a_lost_end_with_a_persist_table_is_known() {
    const LAST: i64 = 9;
    let whole = herdsman_directory(LAST);
    let copy = herdsman_directory(LAST);
    let log = copy.path().join("version-2/log.1");
    let mut bytes = fs::read(&log).unwrap();
    let find = |bytes: &[u8], text: &str| {
        bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap()
    };
    let last = find(&bytes, &format!("/node-{LAST}"));
    bytes[last] ^= 1;
    fs::write(&log, bytes).unwrap();
    let text = |dir: &tempfile::TempDir| dir.path().to_str().unwrap().to_owned();
    let arguments = ["repair", &text(&copy), "--from", &text(&whole), "--yes"];
    // A record with the same zxid and another checksum is not the one that was here.
    let other = herdsman_directory(LAST);
    let path = other.path().join("version-2/log.1");
    let mut bytes = fs::read(&path).unwrap();
    let at = find(&bytes, &format!("/node-{LAST}"));
    bytes[at] = b'+';
    refresh_checksum(&mut bytes, at);
    fs::write(&path, bytes).unwrap();
    run(&["repair", &text(&copy), "--from", &text(&other), "--yes"])
        .expect(1, &["txn 0x9; a different record in ", "nothing was changed"]);
    let found = run(&arguments).expect(0, &["txn 0x9, in ", "with 1 records", "as of txn 0x9"]);
    assert!(!found.out.contains("given up"), "{found:?}");
    run(&["inspect", "data-dir", &text(&copy), "--verify"]).expect(0, &["sound"]);
}

/// Makes the record valid that contains this place.
fn refresh_checksum(bytes: &mut [u8], at: usize) {
    let int = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap()) as usize;
    let mut start = 16;
    loop {
        let length = int(&bytes[start + 8..start + 12]);
        let payload = start + 12..start + 12 + length;
        if payload.contains(&at) {
            let checksum = herdsman_store::log::checksum(&bytes[payload]);
            bytes[start..start + 8].copy_from_slice(&checksum.to_be_bytes());
            return;
        }
        start = payload.end + 1;
    }
}

/// A directory of Herdsman with a log of creates.
fn herdsman_directory(last: i64) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let dirs = Dirs::below(directory.path(), directory.path());
    dirs.create(&*disk).unwrap();
    let tree = Tree::new(TreeOptions::default());
    let (data, none) = (&dirs.data, Compression::None);
    write_snapshot(Arc::clone(&disk), data, none, &tree, LastZxid::Write).unwrap();
    let options = LogOptions { pre_alloc_bytes: 64 << 10, ..LogOptions::default() };
    let mut log = LogWriter::new(disk, &dirs.log, Zxid::ZERO, options);
    for zxid in 1..=last {
        let header = TxnHeader {
            session: SessionId(0x1000),
            cxid: 1,
            zxid: Zxid(zxid),
            time_ms: 1_700_000_000_000,
        };
        let create = CreateTxn {
            kind: CreateKind::Plain { ephemeral: false, with_stat: false },
            path: format!("/node-{zxid}").into(),
            data: None,
            acl: vec![Acl::world(Perms::ALL)],
            parent_cversion: i32::try_from(zxid).unwrap(),
        };
        let mut payload = Vec::new();
        Entry { header, txn: Txn::Create(create), digest: None }.encode(&mut payload);
        log.append(Zxid(zxid), &payload).unwrap();
        log.flush(SyncMode::Sync).unwrap();
    }
    directory
}

/// Zxids of a standalone server name other txns after a restore.
#[test]
fn files_of_another_history_are_refused() {
    let copy = damaged();
    let before = bytes_of(&copy.path().join("version-2"));
    let other = Copy::of("apache-3.8.0/plain");
    run(&["repair", copy.text(), "--from", other.text(), "--yes"])
        .expect(2, &["another history", "Nothing was changed"]);
    run(&["repair", copy.text(), "--from", copy.text(), "--yes"])
        .expect(2, &["is the directory that is to be repaired"]);
    run(&["repair", copy.text(), "--from", "/nowhere", "--yes"]).expect(2, &["does not exist"]);
    run(&["repair", copy.text(), "--from", other.text(), "--accept-loss"])
        .expect(2, &["cannot be used with"]);
    // The one record that is taken is another one; the digests of later txns show it.
    let forged = Copy::of("apache-3.9.5/plain");
    forged.replace_record("log.55", 0x60, 0x5f);
    run(&["repair", copy.text(), "--from", forged.text(), "--yes"])
        .expect(2, &["after txn 0x60 the tree has digest", "Nothing was changed"]);
    assert_eq!(bytes_of(&copy.path().join("version-2")), before);
}

/// A damaged epoch file of a member must not keep it from being repaired.
#[test]
fn a_member_with_a_damaged_epoch_file_gives_txns_up() {
    let copy = damaged();
    fs::write(copy.file("acceptedEpoch"), "rot").unwrap();
    run(&["repair", copy.text(), "--accept-loss", "--yes"]).expect(1, &["it will not vote"]);
}
