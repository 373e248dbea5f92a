//! Links: files of a server that are links are read, and links that another user has planted are not written through.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::path::Path;

use herdsman_testing::TestServer;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::harness::{Copy, fixture, run};

/// Moves a file of `version-2` to another directory and leaves a relative link to it.
fn link_elsewhere(copy: &Copy, name: &str) {
    let elsewhere = copy.path().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::rename(copy.file(name), elsewhere.join(name)).unwrap();
    symlink(Path::new("../elsewhere").join(name), copy.file(name)).unwrap();
}

#[test]
fn logs_and_snapshots_that_are_links_are_read() {
    let copy = Copy::of("apache-3.9.5/plain");
    for name in ["snapshot.54", "log.1", "log.55"] {
        link_elsewhere(&copy, name);
    }
    let original = fixture("apache-3.9.5/plain");
    run(&["inspect", "compare", original.to_str().unwrap(), copy.text(), "--brief"])
        .expect(0, &["equal"]);
    run(&["inspect", "data-dir", copy.text(), "--verify"]).expect(0, &["as of txn 0x71", "sound"]);
    let data_dir = copy.path().to_owned();
    let mut server = TestServer::start_with(|config| {
        config.storage.data_dir = data_dir.clone();
        config.storage.log_dir = data_dir;
    });
    server.stop();
    // It has ended the sessions of these files, behind the last txn of the log that is a link.
    let ran = run(&["inspect", "log", copy.text()]).expect(0, &["0x72", "closeSession"]);
    assert!(ran.out.contains("0x71"), "{}", ran.out);
    run(&["inspect", "data-dir", copy.text(), "--verify"]).expect(0, &["sound"]);
}

#[test]
fn a_link_to_a_missing_file_is_an_error() {
    let copy = Copy::of("apache-3.9.5/plain");
    link_elsewhere(&copy, "log.55");
    fs::remove_dir_all(copy.path().join("elsewhere")).unwrap();
    run(&["inspect", "data-dir", copy.text(), "--verify"])
        .expect(1, &["log.55", "link to ../elsewhere/log.55, which cannot be opened"]);
    let out = copy.path().join("backup");
    run(&["backup", "--data-dir", copy.text(), "-o", out.to_str().unwrap()])
        .expect(2, &["log.55", "link to ../elsewhere/log.55", "nothing was written"]);
}

/// Opening a FIFO without a writer blocks, and /dev/zero never ends.
#[test]
fn fifos_and_devices_in_the_place_of_files_do_not_stop_a_tool() {
    let backup = fixture("apache-3.9.5/plain/version-2/snapshot.54");
    for is_fifo in [true, false] {
        let plant = |path: &Path| match is_fifo {
            true => mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
            false => symlink("/dev/zero", path).unwrap(),
        };
        let copy = Copy::of("apache-3.9.5/plain");
        plant(&copy.file("acceptedEpoch"));
        plant(&copy.path().join("zookeeper_server.pid"));
        run(&["inspect", "data-dir", copy.text(), "--verify"])
            .expect(1, &["acceptedEpoch", "not a regular file"]);
        let restore = ["restore", backup.to_str().unwrap(), "--data-dir", copy.text()];
        run(&[&restore[..], &["--force", "--yes"]].concat()).expect(0, &["restored"]);
        assert_eq!(fs::read_to_string(copy.file("acceptedEpoch")).unwrap(), "0");
    }
}

/// The lock and the old files belong in the dataDir, where a server looks for them, and not beside the link.
#[test]
fn a_link_to_version_2_stands_for_the_directory() {
    let copy = Copy::of("apache-3.9.5/plain");
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link");
    symlink(copy.path().join("version-2"), &link).unwrap();
    let link = link.to_str().unwrap();
    run(&["repair", link, "--rebuild-snapshot=snapshot.54", "--yes"]).expect(0, &["sound"]);
    run(&["repair", link, "--rebuild-snapshot", "--yes"]).expect(0, &["sound"]);
    assert!(copy.path().join("herdsman.lock").exists() && copy.kept().is_dir());
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    // Also the link of a dataDir itself.
    let data_link = elsewhere.path().join("data");
    symlink(copy.path(), &data_link).unwrap();
    run(&["inspect", "data-dir", data_link.to_str().unwrap(), "--verify"]).expect(0, &["sound"]);
}

/// What a repair replaces was a link: the file that it points to stays as it is, and so does a way to it.
#[test]
fn a_repair_replaces_links_and_not_what_they_point_to() {
    let copy = Copy::of("apache-3.9.5/plain");
    copy.cut("log.55", copy.offsets("log.55")[&0x71] + 30);
    let torn = fs::read(copy.file("log.55")).unwrap();
    link_elsewhere(&copy, "log.55");
    run(&["repair", copy.text(), "--cut-torn-tail", "--yes"]).expect(0, &["sound"]);
    assert!(fs::symlink_metadata(copy.file("log.55")).unwrap().is_file());
    assert_eq!(fs::read(copy.path().join("elsewhere/log.55")).unwrap(), torn);
    assert_eq!(fs::read(copy.kept().join("log.55")).unwrap(), torn);
}

/// The server's user owns the directories and can put links there; a tool that root runs must not write through them.
#[test]
fn planted_links_are_not_followed() {
    let precious = |copy: &Copy| {
        let path = copy.path().join("precious");
        fs::write(&path, "precious").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        path
    };
    let check = |path: &Path| {
        assert_eq!(fs::read(path).unwrap(), b"precious");
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o640);
    };
    let copy = Copy::of("apache-3.9.5/plain");
    copy.cut("log.55", copy.offsets("log.55")[&0x71] + 30);
    let path = precious(&copy);
    symlink(&path, copy.file("tmp.log.55")).unwrap();
    symlink(&path, copy.file("tmp.snapshot.70")).unwrap();
    run(&["repair", copy.text(), "--cut-torn-tail", "--yes"]).expect(0, &["sound"]);
    check(&path);
    run(&["repair", copy.text(), "--rebuild-snapshot", "--yes"]).expect(0, &["sound"]);
    check(&path);
    let copy = Copy::of("apache-3.9.5/plain");
    let path = precious(&copy);
    let lock = copy.path().join("herdsman.lock");
    symlink(&path, &lock).unwrap();
    run(&["repair", copy.text(), "--rebuild-snapshot", "--yes"])
        .expect(2, &["herdsman.lock", "is a link", "nothing was changed"]);
    check(&path);
    fs::remove_file(&lock).unwrap();
    fs::hard_link(&path, &lock).unwrap();
    run(&["repair", copy.text(), "--rebuild-snapshot", "--yes"]).expect(0, &["sound"]);
    check(&path);
}

/// Only the super user can make such a link, so only then there is something to see.
#[test]
fn a_version_2_that_leads_to_another_users_directory_is_not_changed() {
    const USER: u32 = 12345;
    let copy = Copy::of("apache-3.9.5/plain");
    let (version_dir, elsewhere) = (copy.path().join("version-2"), copy.path().join("elsewhere"));
    fs::rename(&version_dir, &elsewhere).unwrap();
    symlink("elsewhere", &version_dir).unwrap();
    if lchown(&version_dir, Some(USER), Some(USER)).is_err() {
        return;
    }
    chown(copy.path(), Some(USER), Some(USER)).unwrap();
    let arguments = ["repair", copy.text(), "--rebuild-snapshot", "--yes"];
    run(&arguments).expect(2, &["Permission denied"]);
    assert!(!elsewhere.join("snapshot.71").exists());
    chown(&elsewhere, Some(USER), Some(USER)).unwrap();
    run(&arguments).expect(0, &["sound"]);
    assert_eq!(fs::metadata(elsewhere.join("snapshot.71")).unwrap().uid(), USER);
}

/// What a restore puts aside is still found if it was a relative link.
#[test]
fn a_restore_keeps_links_as_links() {
    let copy = Copy::of("apache-3.9.5/plain");
    let log = fs::read(copy.file("log.55")).unwrap();
    link_elsewhere(&copy, "log.55");
    let backup = fixture("apache-3.9.5/plain/version-2/snapshot.54");
    let arguments = ["restore", backup.to_str().unwrap(), "--data-dir", copy.text()];
    let ran = run(&[&arguments[..], &["--force", "--yes"]].concat()).expect(0, &["restored"]);
    let kept =
        ran.out.lines().find_map(|line| line.strip_prefix("the previous state is in ")).unwrap();
    assert_eq!(fs::read(Path::new(kept).join("log.55")).unwrap(), log);
    assert_eq!(fs::read(copy.path().join("elsewhere/log.55")).unwrap(), log);
    assert!(fs::symlink_metadata(copy.file("log.55")).is_err());
}
