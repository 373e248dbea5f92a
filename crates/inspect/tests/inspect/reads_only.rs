//! Reading never changes a file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use herdsman_testing::TestServer;

use crate::harness::{Copy, contents, run};

fn look_at_everything(copy: &Copy) {
    let snapshot = copy.file_text("snapshot.54");
    for arguments in [
        &["inspect", "data-dir", copy.text()][..],
        &["inspect", "data-dir", copy.text(), "--verify"],
        &["inspect", "data-dir", copy.text(), "--json"],
        &["inspect", "log", copy.text()],
        &["inspect", "log", copy.text(), "--verify"],
        &["inspect", "snapshot", &snapshot],
        &["inspect", "snapshot", &snapshot, "--verify"],
        &["inspect", "compare", &snapshot, copy.text()],
        &["inspect", "history", "/app", "--data-dir", copy.text(), "--recursive"],
        &["repair", copy.text()],
        &["repair", copy.text(), "--cut-torn-tail", "--dry-run"],
        &["repair", copy.text(), "--accept-loss", "--dry-run"],
        &["repair", copy.text(), "--rebuild-snapshot", "--dry-run"],
    ] {
        let ran = run(arguments);
        assert!(!ran.out.is_empty() || ran.code == 2, "{arguments:?} {ran:?}");
    }
}

#[test]
fn a_sound_directory_stays_as_it_is() {
    let copy = Copy::of("apache-3.9.5/plain");
    let before = contents(copy.path());
    look_at_everything(&copy);
    assert_eq!(contents(copy.path()), before);
}

#[test]
fn a_torn_and_damaged_directory_stays_as_it_is() {
    let copy = Copy::of("apache-3.9.5/plain");
    let offsets = copy.offsets("log.55");
    copy.flip("log.55", offsets[&0x58] + 20);
    copy.flip("snapshot.54", 100);
    fs::write(copy.file("tmp.snapshot.60"), "unfinished").unwrap();
    fs::write(copy.file("log.90"), "ZKLG").unwrap();
    let before = contents(copy.path());
    look_at_everything(&copy);
    assert_eq!(contents(copy.path()), before);
}

#[test]
fn a_directory_that_cannot_be_written_is_read() {
    let copy = Copy::of("apache-3.9.5/plain");
    let version_dir = copy.path().join("version-2");
    for path in [&version_dir, copy.path()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o555)).unwrap();
    }
    let before = contents(copy.path());
    look_at_everything(&copy);
    assert_eq!(contents(copy.path()), before);
    for path in [copy.path(), &version_dir] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn the_directory_of_a_running_server_is_read_and_the_server_does_not_notice() {
    let copy = Copy::of("apache-3.9.5/plain");
    let data_dir = copy.path().to_owned();
    let mut server = TestServer::start_with(|config| {
        config.storage.data_dir = data_dir.clone();
        config.storage.log_dir = data_dir;
    });
    run(&["inspect", "data-dir", copy.text()]).expect(0, &["Tree as of txn"]);
    run(&["inspect", "data-dir", copy.text(), "--verify"])
        .expect(0, &["a server starts with", "sound"]);
    run(&["repair", copy.text(), "--rebuild-snapshot", "--yes"])
        .expect(2, &["in use by another server or tool"]);
    server.restart();
    server.stop();
}
