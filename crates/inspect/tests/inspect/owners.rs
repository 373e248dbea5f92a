//! A tool that the super user runs works with the rights of the server's user, who can put anything in its directories.
//!
//! Only the super user can give files away, so without it there is nothing to see.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::path::Path;

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::harness::{Copy, bytes_of, fixture, run};

const USER: u32 = 12345;
const OTHER: u32 = 12346;

/// Gives a directory and everything in it to a user. `false` if this process may not.
fn give(path: &Path, user: u32) -> bool {
    if lchown(path, Some(user), Some(user)).is_err() {
        return false;
    }
    if fs::symlink_metadata(path).unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), user);
        }
    }
    true
}

fn owners(dir: &Path) -> Vec<(String, u32)> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let named = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().uid()));
    named.collect()
}

fn restore(data_dir: &str, log_dir: &str) -> crate::harness::CommandResult {
    let backup = fixture("apache-3.9.5/plain/version-2/snapshot.54");
    let arguments = ["restore", backup.to_str().unwrap(), "--data-dir", data_dir];
    run(&[&arguments[..], &["--log-dir", log_dir, "--force", "--yes"]].concat())
}

#[test]
fn what_a_tool_writes_belongs_to_the_owner_of_the_directory() {
    let copy = Copy::of("apache-3.9.5/plain");
    if !give(copy.path(), USER) {
        return;
    }
    restore(copy.text(), copy.text()).expect(0, &["restored"]);
    run(&["repair", copy.text(), "--log-dir", copy.text(), "--rebuild-snapshot", "--yes"])
        .expect(0, &["sound"]);
    for dir in [copy.path().to_owned(), copy.path().join("version-2")] {
        for (name, uid) in owners(&dir) {
            assert_eq!(uid, USER, "{name}");
        }
    }
    // The rights of this process are as they were.
    assert!(chown(copy.path(), Some(0), Some(0)).is_ok());
}

/// The owner can put a link to any directory where the tool expects its own.
#[test]
fn directories_of_others_are_not_changed() {
    let copy = Copy::of("apache-3.9.5/plain");
    if !give(copy.path(), USER) {
        return;
    }
    let precious = tempfile::tempdir().unwrap();
    fs::set_permissions(precious.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(precious.path().join("version-2")).unwrap();
    fs::write(precious.path().join("version-2/log.1"), "precious").unwrap();
    let before = bytes_of(precious.path());
    let link = copy.path().join("logs");
    symlink(precious.path(), &link).unwrap();
    lchown(&link, Some(USER), Some(USER)).unwrap();
    restore(copy.text(), link.to_str().unwrap())
        .expect(2, &["Permission denied", "nothing was changed"]);
    assert_eq!(bytes_of(precious.path()), before);
    // A dataDir that is a link counts as its owner's, too.
    let data_link = copy.path().join("data");
    symlink(precious.path(), &data_link).unwrap();
    lchown(&data_link, Some(USER), Some(USER)).unwrap();
    let data_link = data_link.to_str().unwrap();
    restore(data_link, data_link).expect(2, &["Permission denied", "nothing was changed"]);
    assert_eq!(bytes_of(precious.path()), before);
    give(precious.path(), OTHER);
    restore(copy.text(), link.to_str().unwrap())
        .expect(2, &["users 12345 and 12346", "Nothing was changed"]);
    assert_eq!(bytes_of(precious.path()), before);
}

#[test]
fn what_is_restored_into_a_new_directory_belongs_to_the_owner_of_its_parent() {
    let parent = tempfile::tempdir().unwrap();
    let data_dir = parent.path().join("new/data");
    let data_dir_text = data_dir.to_str().unwrap();
    if !give(parent.path(), USER) {
        return;
    }
    restore(data_dir_text, data_dir_text).expect(0, &["restored"]);
    assert_eq!(fs::metadata(data_dir.join("version-2/snapshot.54")).unwrap().uid(), USER);
    assert_eq!(fs::metadata(parent.path().join("new")).unwrap().uid(), USER);
    let parent = tempfile::tempdir().unwrap();
    let data_dir = parent.path().join("data");
    let data_dir = data_dir.to_str().unwrap();
    restore(data_dir, data_dir).expect(0, &["belongs to root", "chown"]);
}

/// Others who can write in a directory of the super user can exchange what the super user makes there for a link.
#[test]
fn directories_of_the_super_user_that_others_can_write_in_are_refused() {
    let copy = Copy::of("apache-3.9.5/plain");
    let version_dir = copy.path().join("version-2");
    if chown(&version_dir, Some(0), Some(USER)).is_err() {
        return;
    }
    let chmod = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let repair = ["repair", copy.text(), "--rebuild-snapshot", "--yes"];
    let refused = &["belongs to root and is writable by its group", "Nothing was changed"];
    let before = bytes_of(copy.path());
    for (shared, mode) in [(copy.path(), 0o775), (copy.path(), 0o702), (&*version_dir, 0o775)] {
        chmod(shared, mode);
        restore(copy.text(), copy.text()).expect(2, refused);
        run(&repair).expect(2, refused);
        assert_eq!(bytes_of(copy.path()), before);
        chmod(shared, 0o755);
    }
    // What is missing would be created there.
    let parent = tempfile::tempdir().unwrap();
    let data_dir = parent.path().join("new/data");
    let data_dir = data_dir.to_str().unwrap();
    chmod(parent.path(), 0o777);
    restore(data_dir, data_dir).expect(2, refused);
    // With the sticky bit others cannot exchange it.
    chmod(parent.path(), 0o1777);
    restore(data_dir, data_dir).expect(0, &["restored"]);
    run(&repair).expect(0, &["sound"]);
    restore(copy.text(), copy.text()).expect(0, &["restored"]);
}

/// Runs a command with the effective ids of a user. Only the super user can do that.
fn run_as(user: u32, arguments: &[&str]) -> crate::harness::CommandResult {
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            set_thread_groups(&[]).unwrap();
            set_thread_res_gid(None, Gid::from_raw(user), None).unwrap();
            set_thread_res_uid(None, Uid::from_raw(user), None).unwrap();
            run(arguments)
        });
        running.join().unwrap()
    })
}

/// The server's user may not be able to read what another user has created.
#[test]
fn a_tool_says_that_new_files_belong_to_another_user() {
    let remark = "belong to user 12346, and ";
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (data_dir, backup) = (place.path().join("data"), place.path().join("backup"));
    fs::copy(fixture("apache-3.9.5/plain/version-2/snapshot.54"), &backup).unwrap();
    let version_dir = data_dir.join("version-2");
    fs::create_dir_all(&version_dir).unwrap();
    if !give(&data_dir, USER) {
        return;
    }
    for dir in [&data_dir, &version_dir] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let data_dir = data_dir.to_str().unwrap();
    let restore = ["restore", backup.to_str().unwrap(), "--data-dir", data_dir];
    run_as(OTHER, &restore).expect(0, &["restored", remark, "user 12345", "chown"]);
    assert_eq!(fs::metadata(version_dir.join("snapshot.54")).unwrap().uid(), OTHER);
    let repair = ["repair", data_dir, "--log-dir", data_dir, "--rebuild-snapshot", "--yes"];
    run_as(OTHER, &repair).expect(0, &["sound", remark]);
    // They are the owner's own, or root's, who may share the directory with the server.
    give(place.path(), USER);
    let ran = run_as(USER, &repair).expect(0, &["sound"]);
    assert!(!ran.out.contains("belong to user"), "{ran:?}");
    chown(&version_dir, Some(0), Some(USER)).unwrap();
    let ran = run_as(USER, &repair).expect(0, &["sound"]);
    assert!(!ran.out.contains("belong to user"), "{ran:?}");
}
