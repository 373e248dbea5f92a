//! `restore`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use herdsman_proto::{ConnectRequest, SessionId, Zxid};
use herdsman_testing::TestServer;
use tempfile::TempDir;

use crate::harness::{Copy, bytes_of, expected_digest, fixture, run, run_answering};
use crate::stub_server::StubServer;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A backup of a fixture.
fn backup(variant: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("zk.gz");
    run(&["backup", "--data-dir", text(&fixture(variant)), "-o", text(&file)]).expect(0, &[]);
    (dir, file)
}

/// Lets a server run on a directory and write a txn. The txn has the digest of the server's tree in it, so
/// replaying all over what was restored shows whether the server has read the same.
fn server_agrees(data_dir: &Path) {
    let owned = data_dir.to_owned();
    let mut server = TestServer::start_with(|config| {
        config.storage.data_dir = owned.clone();
        config.storage.log_dir = owned;
    });
    open_session(server.address());
    server.stop();
    let ran = run(&["inspect", "data-dir", text(data_dir), "--verify"]).expect(0, &["sound"]);
    assert!(ran.out.contains("ok       digests: "), "{}", ran.out);
}

/// Opens a session as a client does, and waits until the server says that it is open.
fn open_session(address: std::net::SocketAddr) {
    let request = ConnectRequest {
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 4000,
        session: SessionId::NONE,
        password: &[0; 16],
        read_only: Some(false),
    };
    let mut frame = Vec::new();
    request.encode_frame(&mut frame);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&frame).unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert!(u32::from_be_bytes(answer) > 30);
}

fn epoch(data_dir: &Path, name: &str) -> String {
    fs::read_to_string(data_dir.join("version-2").join(name)).unwrap()
}

#[test]
fn a_backup_is_restored_into_an_empty_directory() {
    for variant in ["apache-3.9.5/plain", "apache-3.8.0/snappy", "apache-3.9.5/unclean"] {
        let (_dir, file) = backup(variant);
        let target = tempfile::tempdir().unwrap();
        let data_dir = target.path().join("data");
        run(&["restore", text(&file), "--data-dir", text(&data_dir)]).expect(0, &["restored"]);
        run(&["inspect", "compare", text(&fixture(variant)), text(&data_dir), "--brief"])
            .expect(0, &["equal"]);
        assert_eq!(
            (epoch(&data_dir, "currentEpoch"), epoch(&data_dir, "acceptedEpoch")),
            ("0".into(), "0".into())
        );
        // It has no log, like the dataDir of a server whose dataLogDir was forgotten.
        let verify = ["inspect", "data-dir", text(&data_dir), "--verify"];
        run(&verify).expect(1, &["no txn log", "--log-dir"]);
        run(&[&verify[..], &["--log-dir", text(&data_dir)]].concat()).expect(0, &["sound"]);
        let summary = &run(&["inspect", "data-dir", text(&data_dir), "--json"]).json()[0];
        if let Some(digest) = expected_digest(&fixture(variant)) {
            assert_eq!(summary["digest"].as_i64(), Some(digest), "{variant}");
        }
        server_agrees(&data_dir);
    }
}

#[test]
fn a_used_directory_is_moved_aside_only_when_told_to() {
    let (_dir, file) = backup("apache-3.9.5/plain");
    let copy = Copy::of("apache-3.9.5/unclean");
    fs::write(copy.path().join("myid"), "3").unwrap();
    fs::write(copy.file("acceptedEpoch"), "7").unwrap();
    fs::write(copy.file("currentEpoch"), "6").unwrap();
    let before = bytes_of(&copy.path().join("version-2"));
    let arguments = ["restore", text(&file), "--data-dir", copy.text()];
    run(&arguments).expect(2, &["is not empty", "Nothing was changed"]);
    let forced = [&arguments[..], &["--force"]].concat();
    run(&forced).expect(2, &["use --yes"]);
    run_answering("n\n", &forced).expect(1, &["nothing was changed"]);
    assert_eq!(bytes_of(&copy.path().join("version-2")), before);
    let ran = run_answering("y\n", &forced).expect(
        0,
        &["the previous state is in", "restored", "restore the same file on every other member"],
    );
    let line = ran.out.lines().find(|line| line.starts_with("the previous state")).unwrap();
    let kept = Path::new(line.strip_prefix("the previous state is in ").unwrap());
    let names = |dir: &Path| {
        let files = bytes_of(dir).into_iter().filter(|(path, _)| path != dir);
        files.map(|(path, bytes)| (path.file_name().unwrap().to_owned(), bytes)).collect::<Vec<_>>()
    };
    let old: Vec<_> = before
        .into_iter()
        .filter(|(path, _)| path.file_name().unwrap() != "version-2")
        .map(|(path, bytes)| (path.file_name().unwrap().to_owned(), bytes))
        .collect();
    assert_eq!(names(kept), old);
    assert_eq!(fs::read_to_string(copy.path().join("myid")).unwrap(), "3");
    assert_eq!(
        (epoch(copy.path(), "currentEpoch"), epoch(copy.path(), "acceptedEpoch")),
        ("0".into(), "7".into())
    );
    run(&["inspect", "compare", text(&fixture("apache-3.9.5/plain")), copy.text(), "--brief"])
        .expect(0, &["equal"]);
}

#[test]
fn separate_log_directories_are_cleared() {
    let (_dir, file) = backup("apache-3.9.5/plain");
    let copy = Copy::of("apache-3.9.5/unclean");
    let logs = copy.path().join("logs");
    fs::create_dir_all(logs.join("version-2")).unwrap();
    fs::rename(copy.file("log.1"), logs.join("version-2/log.1")).unwrap();
    let arguments = [
        "restore",
        text(&file),
        "--data-dir",
        copy.text(),
        "--log-dir",
        text(&logs),
        "--force",
        "--yes",
    ];
    run(&arguments).expect(0, &["restored"]);
    let left: Vec<_> = fs::read_dir(logs.join("version-2")).unwrap().map(Result::unwrap).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].path().join("log.1").is_file(), "the old log is kept: {left:?}");
    run(&["inspect", "data-dir", copy.text(), "--log-dir", text(&logs), "--verify"])
        .expect(0, &["sound"]);
}

#[test]
fn epochs_are_those_of_the_snapshot() {
    // A member's tree: its zxid is of epoch 5.
    let source = tempfile::tempdir().unwrap();
    let mut loader = herdsman_tree::Loader::new(herdsman_tree::TreeOptions::default());
    let stat = herdsman_proto::StatPersisted::default();
    loader.node("", None, -1, stat).unwrap();
    loader.node("/zookeeper", None, -1, stat).unwrap();
    loader.node("/zookeeper/quota", None, -1, stat).unwrap();
    let tree = loader.finish(herdsman_proto::Zxid(5 << 32 | 9)).unwrap();
    let disk = std::sync::Arc::new(herdsman_store::RealDisk);
    let (packing, last) = (herdsman_store::Compression::None, herdsman_store::LastZxid::Write);
    let written =
        herdsman_store::write_snapshot(disk, source.path(), packing, &tree, last).unwrap();
    let target = tempfile::tempdir().unwrap();
    run(&["restore", text(&written.path), "--data-dir", text(target.path())])
        .expect(0, &["as of txn 0x500000009"]);
    assert_eq!(
        (epoch(target.path(), "currentEpoch"), epoch(target.path(), "acceptedEpoch")),
        ("5".into(), "5".into())
    );
    assert!(target.path().join("version-2/snapshot.500000009").is_file());
}

#[test]
fn a_running_server_is_left_alone() {
    let (_dir, file) = backup("apache-3.9.5/plain");
    let mut server = TestServer::start();
    let data_dir = text(server.data_dir()).to_owned();
    let target = ["--data-dir", &data_dir, "--log-dir", &data_dir, "--force", "--yes"];
    run(&[&["restore", text(&file)], &target[..]].concat())
        .expect(2, &["in use by another server or tool", "nothing was changed"]);
    server.restart();
    server.stop();
}

#[test]
fn what_is_no_backup_changes_nothing() {
    let copy = Copy::of("apache-3.9.5/plain");
    let before = bytes_of(copy.path());
    let mut damaged = fs::read(copy.file("snapshot.54")).unwrap();
    damaged[300] ^= 1;
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("damaged"), damaged).unwrap();
    fs::write(dir.path().join("text"), "no snapshot").unwrap();
    for (name, piece) in [
        ("damaged", "cannot be used"),
        ("text", "not a snapshot (bad magic"),
        ("none", "cannot read"),
    ] {
        let file = dir.path().join(name);
        run(&["restore", text(&file), "--data-dir", copy.text(), "--force", "--yes"])
            .expect(2, &[piece, "nothing was changed"]);
    }
    assert_eq!(bytes_of(copy.path()), before);
}

#[test]
fn a_server_is_sent_a_plain_snapshot() {
    let (_dir, file) = backup("apache-3.9.5/plain");
    let answer = br#"{"last_zxid":113,"command":"restore","error":null}"#;
    let stub = StubServer::start("200 OK", &["Content-Type: application/json"], answer);
    let arguments =
        ["restore", text(&file), "--server", &stub.url, "--auth", "digest:super:secret"];
    run(&arguments).expect(2, &["use --yes"]);
    run(&[&arguments[..], &["--yes"]].concat()).expect(0, &["restored: txn 0x71"]);
    let request = stub.request();
    assert_eq!(request.line, "POST /commands/restore HTTP/1.1");
    assert_eq!(request.headers["content-type"], "application/octet-stream");
    assert_eq!(request.headers["authorization"], "digest super:secret");
    assert!(request.body.starts_with(b"ZKSN"), "what was packed is unpacked");
    assert!(request.body.ends_with(b"\0\0\0\x01/"));
}

#[test]
fn refusals_become_one_line() {
    let source = fixture("apache-3.9.5/plain/version-2/snapshot.54");
    let check = |status: &str, body: &[u8], piece: &str| {
        let stub = StubServer::start(status, &["Content-Type: application/json"], body);
        let ran =
            run(&["restore", text(&source), "--server", &stub.url, "--yes"]).expect(2, &[piece]);
        assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
        stub.request();
    };
    check("401 Unauthorized", b"{}", "use --auth-file");
    check("403 Forbidden", b"{}", "do not have all permissions");
    check("429 Too Many Requests", b"{}", "too many requests");
    check("500 Internal Server Error", b"{}", "the command failed");
    check("200 OK", br#"{"error":"no"}"#, "restore failed: no");
}

/// A server that has the whole snapshot may have restored it, whatever happens to its answer.
#[test]
fn a_lost_answer_leaves_open_whether_the_server_was_restored() {
    let source = fixture("apache-3.9.5/plain/version-2/snapshot.54");
    let restore = |url: &str| run(&["restore", text(&source), "--server", url, "--yes"]);
    let truncated = ["Content-Type: application/json", "Content-Length: 100"];
    for stub in [
        StubServer::closing(),
        StubServer::start("200 OK", &truncated, b"{\"last_zxid\":"),
        StubServer::start("200 OK", &["Content-Type: application/json"], b"{}"),
    ] {
        let ran = restore(&stub.url).expect(2, &["may have restored it", "last zxid"]);
        assert!(!ran.err.contains("restore failed"), "{ran:?}");
        assert!(stub.request().body.ends_with(b"\0\0\0\x01/"));
    }
}

/// A server that was not sent the snapshot has not restored it.
#[test]
fn a_restore_that_was_not_sent_has_changed_nothing() {
    let source = fixture("apache-3.9.5/plain/version-2/snapshot.54");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let restore = || run(&["restore", text(&source), "--server", &url, "--yes"]);
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        lines.take_while(|line| !line.is_empty()).count()
    });
    restore().expect(2, &["the snapshot was not sent: nothing was changed"]);
    assert!(server.join().unwrap() > 1);
    // The listener is gone.
    restore().expect(2, &["the snapshot was not sent: nothing was changed"]);
}

/// Without a name, a digest that does not fit says that the snapshot was taken while writes went on.
#[test]
fn a_fuzzy_backup_is_restored_only_when_told_to() {
    let copy = Copy::of("apache-3.9.5/plain");
    copy.falsify_digest("snapshot.54");
    let file = copy.path().join("backup");
    fs::rename(copy.file("snapshot.54"), &file).unwrap();
    let target = tempfile::tempdir().unwrap();
    let arguments = ["restore", text(&file), "--data-dir", text(target.path())];
    run(&arguments).expect(
        2,
        &["does not show a single point in time", "--accept-fuzzy", "Nothing was changed"],
    );
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
    run(&[&arguments[..], &["--accept-fuzzy"]].concat()).expect(0, &["restored", "txn 0x54"]);
    let verify = ["inspect", "data-dir", text(target.path()), "--verify"];
    run(&[&verify[..], &["--log-dir", text(target.path())]].concat()).expect(0, &["sound"]);

    let body = fs::read(&file).unwrap();
    let stub = StubServer::start("200 OK", &["Content-Type: application/octet-stream"], &body);
    let received = target.path().join("received");
    run(&["backup", "--server", &stub.url, "-o", text(&received)])
        .expect(1, &["taken during writes", "does not match its znodes"]);
    stub.request();
}

/// `.` and `version-2` name the directory that they are, not one of that name below.
#[test]
fn relative_paths_to_version_2_are_understood() {
    let (_dir, file) = backup("apache-3.9.5/plain");
    for inside in [".", "../version-2", "version-2"] {
        let copy = Copy::of("apache-3.9.5/unclean");
        let version_dir = copy.path().join("version-2");
        let working_dir = if inside == "version-2" { copy.path() } else { &version_dir };
        // In a process of its own: the working directory is the whole process's.
        let test = "restore::restores_in_the_working_directory";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env("RESTORE_FILE", &file)
            .env("RESTORE_INTO", inside)
            .current_dir(working_dir)
            .output()
            .unwrap();
        assert!(output.status.success(), "{inside}: {output:?}");
        assert!(!version_dir.join("version-2").exists(), "{inside}");
        run(&["inspect", "compare", text(&fixture("apache-3.9.5/plain")), copy.text(), "--brief"])
            .expect(0, &["equal"]);
    }
}

/// Does nothing unless the test above runs it.
#[test]
fn restores_in_the_working_directory() {
    let (Ok(file), Ok(into)) = (std::env::var("RESTORE_FILE"), std::env::var("RESTORE_INTO"))
    else {
        return;
    };
    run(&["restore", &file, "--data-dir", &into, "--force", "--yes"]).expect(0, &["restored"]);
}

/// A directory that was just restored has no log; that is not a log that was forgotten.
#[test]
fn a_second_restore_finds_the_state_in_place() {
    let (_dir, file) = backup("apache-3.9.5/plain");
    let target = tempfile::tempdir().unwrap();
    let arguments = ["restore", text(&file), "--data-dir", text(target.path())];
    run(&arguments).expect(0, &["restored"]);
    let before = bytes_of(&target.path().join("version-2"));
    run(&arguments).expect(0, &["already has this state"]);
    assert_eq!(bytes_of(&target.path().join("version-2")), before);
}

/// Logs in dataDir and snapshots in dataLogDir, for which a server refuses to start, make way and are kept.
#[test]
fn files_in_the_wrong_directory_make_way() {
    let copy = Copy::of("apache-3.9.5/plain");
    let logs = tempfile::tempdir().unwrap();
    let log_dir = logs.path().join("version-2");
    fs::create_dir(&log_dir).unwrap();
    fs::copy(copy.file("snapshot.54"), log_dir.join("snapshot.54")).unwrap();
    fs::copy(copy.file("snapshot.54"), copy.file("snapshot.99.bak")).unwrap();
    let (_dir, file) = backup("apache-3.9.5/plain");
    let arguments = ["restore", text(&file), "--data-dir", copy.text(), "--log-dir"];
    run(&[&arguments[..], &[text(logs.path()), "--force", "--yes"]].concat())
        .expect(0, &["restored", "the previous state is in"]);
    for path in [copy.file("log.1"), copy.file("snapshot.99.bak"), log_dir.join("snapshot.54")] {
        assert!(!path.exists(), "{}", path.display());
    }
}

fn accepted_epoch(copy: &Copy) -> String {
    fs::read_to_string(copy.file("acceptedEpoch")).unwrap()
}

/// What a server has promised must not be forgotten, or a zxid could be given twice.
#[test]
fn epochs_do_not_go_back() {
    let (_dir, file) = backup("apache-3.9.5/plain");
    let restore = |copy: &Copy| {
        let arguments = ["restore", text(&file), "--data-dir", copy.text()];
        run(&[&arguments[..], &["--force", "--yes"]].concat()).expect(0, &["restored"]);
    };
    let copy = Copy::of("apache-3.9.5/plain");
    let _ = fs::remove_file(copy.file("acceptedEpoch"));
    fs::write(copy.file("currentEpoch"), "6").unwrap();
    restore(&copy);
    assert_eq!(accepted_epoch(&copy), "6");
    // Garbage is kept, and the name of a log shows the epoch.
    let copy = Copy::of("apache-3.9.5/plain");
    fs::write(copy.file("acceptedEpoch"), "garbage").unwrap();
    fs::write(copy.file("log.800000001"), "").unwrap();
    restore(&copy);
    assert_eq!(accepted_epoch(&copy), "8");
}

/// Without a digest, znodes that are newer than the name show it.
#[test]
fn a_fuzzy_snapshot_without_a_digest_is_refused() {
    let copy = Copy::of("apache-3.9.5/old-style");
    let newest = fs::read_dir(copy.path().join("version-2"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| text(path).contains("/snapshot."))
        .max_by_key(|path| fs::metadata(path).unwrap().len())
        .unwrap();
    let file = copy.path().join("snapshot.1");
    fs::copy(newest, &file).unwrap();
    let target = tempfile::tempdir().unwrap();
    let arguments = ["restore", text(&file), "--data-dir", text(target.path())];
    run(&arguments).expect(
        2,
        &["does not show a single point in time", "--accept-fuzzy", "Nothing was changed"],
    );
    run(&[&arguments[..], &["--accept-fuzzy"]].concat()).expect(0, &["restored"]);
}
