//! `backup`.

use std::fs;
use std::path::Path;

use herdsman_testing::TestServer;

use crate::harness::{Copy, contents, expected_digest, expected_zxid, fixture, fixtures, run};
use crate::stub_server::StubServer;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn every_fixture_is_backed_up_with_apaches_digest() {
    let target = tempfile::tempdir().unwrap();
    for variant in fixtures() {
        for name in ["plain.snapshot", "packed.gz", "packed.snappy"] {
            let file = target.path().join(name);
            let ran = run(&["backup", "--data-dir", text(&variant), "-o", text(&file), "--force"])
                .expect(0, &["read back and verified", &expected_zxid(&variant)]);
            if let Some(digest) = expected_digest(&variant) {
                assert!(ran.out.contains(&format!("digest {digest};")), "{}", ran.out);
            }
            run(&["inspect", "snapshot", text(&file), "--verify"]).expect(0, &["sound"]);
            run(&["inspect", "compare", text(&file), text(&variant), "--brief"])
                .expect(0, &["equal"]);
        }
    }
    let names: Vec<_> =
        fs::read_dir(target.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "nothing else is left: {names:?}");
}

#[test]
fn a_directory_as_target_gives_the_name() {
    let target = tempfile::tempdir().unwrap();
    let dir = fixture("apache-3.9.5/plain");
    run(&["backup", "--data-dir", text(&dir), "-o", text(target.path())])
        .expect(0, &["snapshot.71"]);
    assert!(target.path().join("snapshot.71").is_file());
    run(&["backup", "--data-dir", text(&dir), "-o", text(target.path())])
        .expect(2, &["already exists; --force replaces it"]);
}

#[test]
fn nothing_is_overwritten_and_nothing_is_left_behind() {
    let target = tempfile::tempdir().unwrap();
    let file = target.path().join("zk.snapshot");
    fs::write(&file, "precious").unwrap();
    let dir = fixture("apache-3.9.5/plain");
    run(&["backup", "--data-dir", text(&dir), "-o", text(&file)]).expect(2, &["already exists"]);
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    let copy = Copy::of("apache-3.9.5/plain");
    copy.flip("log.55", copy.offsets("log.55")[&0x60] + 20);
    let before = contents(copy.path());
    run(&["backup", "--data-dir", copy.text(), "-o", text(&file), "--force"])
        .expect(2, &["is damaged"]);
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    assert_eq!(contents(copy.path()), before);
    let other = target.path().join("none/zk.snapshot");
    run(&["backup", "--data-dir", text(&dir), "-o", text(&other)]).expect(2, &["does not exist"]);
    run(&["backup", "-o", text(&file)]).expect(2, &["--data-dir", "--admin"]);
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 1);
}

#[test]
fn the_directory_of_a_running_server_is_backed_up() {
    let copy = Copy::of("apache-3.9.5/plain");
    let data_dir = copy.path().to_owned();
    let mut server = TestServer::start_with(|config| {
        config.storage.data_dir = data_dir.clone();
        config.storage.log_dir = data_dir;
    });
    let target = tempfile::tempdir().unwrap();
    let file = target.path().join("zk.snapshot");
    run(&["backup", "--data-dir", copy.text(), "-o", text(&file)]).expect(0, &["verified"]);
    server.stop();
}

#[test]
fn a_server_streams_its_snapshot() {
    for (variant, name) in
        [("plain", "snapshot.54"), ("gz", "snapshot.71.gz"), ("snappy", "snapshot.71.snappy")]
    {
        let source = fixture("apache-3.9.5").join(variant).join("version-2").join(name);
        let body = fs::read(&source).unwrap();
        let size = format!("snapshot_size: {}", body.len());
        let headers = ["Content-Type: application/octet-stream", "last_zxid: 0x54", &size];
        let stub = StubServer::start("200 OK", &headers, &body);
        let target = tempfile::tempdir().unwrap();
        let arguments = [
            "backup",
            "--admin",
            &stub.url,
            "--auth",
            "digest:super:se:cret",
            "-o",
            text(target.path()),
        ];
        run(&arguments).expect(0, &["read back and verified"]);
        assert_eq!(fs::read(target.path().join("snapshot.54")).unwrap(), body);
        let request = stub.request();
        assert_eq!(request.line, "GET /commands/snapshot?streaming=true HTTP/1.1");
        assert_eq!(request.headers["authorization"], "digest super:se:cret");
    }
}

#[test]
fn refusals_become_one_line() {
    let target = tempfile::tempdir().unwrap();
    let file = target.path().join("zk.snapshot");
    let check = |status: &str, headers: &[&str], body: &[u8], piece: &str| {
        let stub = StubServer::start(status, headers, body);
        let ran = run(&["backup", "--admin", &stub.url, "-o", text(&file)]).expect(2, &[piece]);
        assert_eq!((ran.out.as_str(), ran.err.lines().count()), ("", 1), "{ran:?}");
        stub.request();
        assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0, "nothing is left");
    };
    let json = ["Content-Type: application/json"];
    check("401 Unauthorized", &json, br#"{"error":null}"#, "use --auth-file");
    check("403 Forbidden", &json, b"{}", "do not have all permissions");
    check("404 Not Found", &[], b"<html>", "does not have this command");
    check("429 Too Many Requests", &json, b"{}", "too many requests");
    check("503 Service Unavailable", &json, b"{}", "is disabled");
    check("500 Internal Server Error", &json, b"{}", "the command failed");
    check("302 Found", &["Location: https://127.0.0.1/x"], b"", "redirects");
    let error = br#"{"command":"snapshot","error":"This ZooKeeper instance is not currently serving requests"}"#;
    check("200 OK", &json, error, "not currently serving");
    let octets = "Content-Type: application/octet-stream";
    check("200 OK", &[octets, "snapshot_size: 7"], b"garbage", "not a snapshot (bad magic");
    check("200 OK", &[octets, "snapshot_size: 3"], b"too much", "more than the 3 bytes");
    check("200 OK", &[octets, "snapshot_size: 300"], b"too little", "announced 300 bytes");
    let mut damaged = fs::read(fixture("apache-3.9.5/plain/version-2/snapshot.54")).unwrap();
    damaged[300] ^= 1;
    check("200 OK", &[octets], &damaged, "did not send a valid snapshot");
}

#[test]
fn wrong_addresses_are_said_in_a_line() {
    let target = tempfile::tempdir().unwrap();
    let file = target.path().join("zk.snapshot");
    let check = |url: &str, piece: &str| {
        let ran = run(&["backup", "--admin", url, "-o", text(&file)]).expect(2, &[piece]);
        assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let secure = format!("https://{}", listener.local_addr().unwrap());
    check(&secure, "https:// needs --tls-trust-store");
    check("127.0.0.1:8080", "give it as http://host:8080");
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    check(&format!("http://{unused}"), &unused.to_string());
    let url = format!("http://{unused}");
    run(&["backup", "--admin", &url, "--auth", "digest", "-o", text(&file)])
        .expect(2, &["such as digest:user:password"]);
    let twice = ["--auth", "digest:a:b", "--auth", "digest:c:d"];
    run(&[&["backup", "--admin", &url, "-o", text(&file)][..], &twice].concat())
        .expect(2, &["accepts only one --auth"]);
    run(&["backup", "--data-dir", "/x", "--auth", "digest:a:b", "-o", text(&file)])
        .expect(2, &["--auth can only be used with --admin"]);
    run(&["backup", "--admin", &url, "--data-dir", "/x", "-o", text(&file)])
        .expect(2, &["cannot be used with"]);
}

/// Only a regular file is replaced: a link or a device stays what it is.
#[test]
fn a_target_that_is_not_a_file_is_refused() {
    let target = tempfile::tempdir().unwrap();
    let [file, link, socket] = ["file", "link", "socket"].map(|name| target.path().join(name));
    fs::write(&file, "precious").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let dir = fixture("apache-3.9.5/plain");
    for path in [&link, &socket] {
        run(&["backup", "--data-dir", text(&dir), "-o", text(path), "--force"])
            .expect(2, &["is not a regular file"]);
        assert!(!fs::symlink_metadata(path).unwrap().is_file());
    }
    // The name that a directory gives.
    std::os::unix::fs::symlink(&file, target.path().join("snapshot.71")).unwrap();
    run(&["backup", "--data-dir", text(&dir), "-o", text(target.path()), "--force"])
        .expect(2, &["snapshot.71 is not a regular file"]);
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

#[test]
fn targets_that_cannot_be_meant_are_refused() {
    let copy = Copy::of("apache-3.9.5/plain");
    let before = contents(copy.path());
    let arguments = ["backup", "--data-dir", copy.text(), "-o"];
    run(&[&arguments[..], &["-"]].concat()).expect(2, &["standard output"]);
    for name in ["", "mine"] {
        run(&[&arguments[..], &[&copy.file_text(name)]].concat()).expect(2, &["elsewhere"]);
    }
    assert_eq!(contents(copy.path()), before);
    run(&["backup", "--admin", "http://127.0.0.1:1", "--log-dir", copy.text(), "-o", "x"])
        .expect(2, &["--log-dir cannot be used with --admin"]);
}
