//! What was changed is changed, and is reported as done, even if standard output cannot be written to.

use std::fs;
use std::io::ErrorKind;

use crate::harness::{Copy, fixture, run, run_failing_output};
use crate::stub_server::StubServer;

const KINDS: [ErrorKind; 2] = [ErrorKind::BrokenPipe, ErrorKind::StorageFull];

#[test]
fn a_restore_is_done_when_its_output_fails() {
    let backup = fixture("apache-3.9.5/plain/version-2/snapshot.54");
    let backup = backup.to_str().unwrap();
    for kind in KINDS {
        let copy = Copy::of("apache-3.9.5/plain");
        let arguments = ["restore", backup, "--data-dir", copy.text(), "--force", "--yes"];
        let ran = run_failing_output("the previous state is in", kind, &arguments)
            .expect(0, &["herdsman: restored, but standard output cannot be written to"]);
        for piece in ["the previous state is in", "restored: 43 znodes as of txn 0x54"] {
            assert!(ran.err.contains(piece), "{ran:#?}");
        }
        // Once more: it is there already.
        let ran = run_failing_output("already has this state", kind, &arguments)
            .expect(0, &["but standard output cannot be written to"]);
        assert!(ran.err.contains("already has this state"), "{ran:#?}");
    }
}

#[test]
fn a_restore_of_a_server_is_done_when_its_output_fails() {
    let backup = fixture("apache-3.9.5/plain/version-2/snapshot.54");
    for kind in KINDS {
        let answer = br#"{"last_zxid":84,"command":"restore","error":null}"#;
        let stub = StubServer::start("200 OK", &["Content-Type: application/json"], answer);
        let arguments = ["restore", backup.to_str().unwrap(), "--server", &stub.url, "--yes"];
        let ran = run_failing_output("restored", kind, &arguments)
            .expect(0, &["herdsman: restored, but standard output cannot be written to"]);
        assert!(ran.err.contains("restored: txn 0x54"), "{ran:#?}");
        stub.request();
    }
}

#[test]
fn a_backup_is_done_when_its_output_fails() {
    let source = fixture("apache-3.9.5/plain");
    let body = fs::read(source.join("version-2/snapshot.54")).unwrap();
    for kind in KINDS {
        let target = tempfile::tempdir().unwrap();
        let file = target.path().join("zk.snapshot");
        let file = file.to_str().unwrap();
        let stub = StubServer::start("200 OK", &["Content-Type: application/octet-stream"], &body);
        for from in [["--data-dir", source.to_str().unwrap()], ["--server", &stub.url]] {
            let arguments = [&["backup", "-o", file, "--force"], &from[..]].concat();
            let ran = run_failing_output("znodes", kind, &arguments)
                .expect(0, &["the backup is written, but standard output cannot be written to"]);
            assert!(ran.err.contains("read back and verified"), "{ran:#?}");
            run(&["inspect", "snapshot", file, "--verify"]).expect(0, &["sound"]);
        }
        stub.request();
    }
}
