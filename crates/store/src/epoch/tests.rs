//! What two small files, their copies and the log say together.

use super::*;
use crate::disk::MemoryDisk;
use crate::testing::{dirs, disk, names};

const DIR: &str = "/data/version-2";
const LAST: Zxid = Zxid(3 << 32 | 7);

/// Checks the epochs (current, accepted) that these files give, and the files afterwards. Returns why voting is
/// suspended.
#[track_caller]
fn recover_from(files: &[(&str, &str)], (current, accepted): (u32, u32)) -> Option<String> {
    let (disk, dirs) = (disk(), dirs());
    let dir = &dirs.data;
    for (name, content) in files {
        disk.put(&dir.join(name), content.as_bytes().to_vec());
    }
    let epochs = recover_epochs(&disk, &dirs, LAST).unwrap();
    assert_eq!((epochs.current, epochs.accepted), (current, accepted), "{files:?}");
    disk.crash(|_| false);
    let durable = |file| read_epoch(&disk, dir, file).unwrap();
    assert_eq!(durable(EpochFile::Current), Some(current));
    assert_eq!(durable(EpochFile::Accepted), Some(accepted));
    let reason = voting::suspended(&disk, &dirs).unwrap();
    // The next start finds nothing wrong, and does not vote either.
    assert_eq!(recover_epochs(&disk, &dirs, LAST).unwrap(), epochs);
    assert_eq!(voting::suspended(&disk, &dirs).unwrap(), reason);
    reason
}

/// A server that has lost a file does not vote.
#[track_caller]
fn check(files: &[(&str, &str)], expected: (u32, u32)) {
    let is_good = |name| {
        let content =
            files.iter().find(|(file, _)| *file == name).map(|(_, content)| content.trim());
        content.is_some_and(|content| content.parse::<u32>().is_ok())
    };
    let is_whole = is_good("currentEpoch") && is_good("acceptedEpoch");
    let reason = recover_from(files, expected);
    assert_eq!(reason.is_none(), is_whole, "{files:?}: {reason:?}");
}

/// Files that contradict each other or the log: nobody knows what was promised.
#[track_caller]
fn check_contradiction(files: &[(&str, &str)], expected: (u32, u32), part: &str) {
    let reason = recover_from(files, expected).unwrap_or_else(|| panic!("{files:?}: it votes"));
    assert!(reason.contains(part), "{files:?}: {reason}");
}

#[test]
fn a_server_whose_epoch_files_contradict_each_other_does_not_vote() {
    const OLD: &str = "the epoch files are older than the log";
    check_contradiction(&[("currentEpoch", "2"), ("acceptedEpoch", "2")], (3, 3), OLD);
    check_contradiction(&[("currentEpoch", "1"), ("acceptedEpoch", "2")], (3, 3), OLD);
    check_contradiction(&[("currentEpoch", "2")], (3, 3), "acceptedEpoch is missing");
    for behind in ["1", "", "3x"] {
        let files = [("currentEpoch", "2"), ("currentEpoch.tmp", behind), ("acceptedEpoch", "2")];
        check_contradiction(&files, (3, 3), OLD);
    }
    const LESS: &str = "acceptedEpoch is less than currentEpoch";
    check_contradiction(&[("currentEpoch", "4"), ("acceptedEpoch", "3")], (3, 3), LESS);
    check_contradiction(&[("currentEpoch", "9"), ("acceptedEpoch", "0")], (3, 3), LESS);
    check_contradiction(&[("currentEpoch", "9"), ("acceptedEpoch", "5")], (3, 5), LESS);
    check_contradiction(&[("acceptedEpoch", "2")], (3, 3), "currentEpoch is missing");
    check_contradiction(&[("currentEpoch", "x"), ("acceptedEpoch", "2")], (3, 3), "damaged");
}

#[test]
fn epochs_are_recovered() {
    check(&[], (3, 3));
    check(&[("currentEpoch", "3"), ("acceptedEpoch", "4")], (3, 4));
    check(&[("currentEpoch", "5\n"), ("acceptedEpoch", "5")], (5, 5));
    // What Apache leaves when it crashes between writing and renaming.
    check(&[("currentEpoch", "2"), ("currentEpoch.tmp", "3")], (3, 3));
    // A later promise says nothing about whom we have followed.
    check(&[("currentEpoch", "3"), ("currentEpoch.tmp", "4"), ("acceptedEpoch", "4")], (3, 4));
    check(&[("currentEpoch", "4")], (4, 4));
    check(&[("acceptedEpoch", "5")], (3, 5));
    // Damaged files count as missing, and voting is suspended.
    check(&[("currentEpoch", "")], (3, 3));
    check(&[("currentEpoch", "3x"), ("acceptedEpoch", "5")], (3, 5));
    check(&[("currentEpoch", "3"), ("acceptedEpoch", "-1")], (3, 3));
    check(&[("currentEpoch", "4"), ("acceptedEpoch", "4\0")], (4, 4));
    let long = "4".repeat(100);
    check(&[("currentEpoch", "4"), ("acceptedEpoch", &long)], (4, 4));
}

/// The leader's txns are durable and the epoch is not yet: the crash that comes between the two
/// must not keep a server from starting.
#[test]
fn a_crash_between_log_and_epoch_is_repaired() {
    check(&[("currentEpoch", "2"), ("acceptedEpoch", "3")], (3, 3));
    check(&[("currentEpoch", "1"), ("acceptedEpoch", "5")], (3, 5));
    check(&[("currentEpoch", "2"), ("currentEpoch.tmp", ""), ("acceptedEpoch", "3")], (3, 3));
}

/// Nor has a standalone server, whose txns are all of epoch 0: both vote.
#[test]
fn a_fresh_server_has_promised_nothing() {
    for last in [Zxid::ZERO, Zxid(77)] {
        let (disk, dirs) = (disk(), dirs());
        for _ in 0..2 {
            assert_eq!(recover_epochs(&disk, &dirs, last).unwrap(), Epochs::default());
            disk.crash(|_| false);
            assert_eq!(voting::suspended(&disk, &dirs).unwrap(), None);
        }
        // The crash may have come between the two files.
        disk.remove(&dirs.data.join("currentEpoch")).unwrap();
        assert_eq!(recover_epochs(&disk, &dirs, last).unwrap(), Epochs::default());
        assert_eq!(voting::suspended(&disk, &dirs).unwrap(), None);
    }
}

/// Files are made anew only once it is durable that this server must not vote.
#[test]
fn a_crash_never_leaves_new_files_and_a_vote() {
    for power in 0..12 {
        let (disk, dirs) = (disk(), dirs());
        disk.cut_power_after(power);
        let recovered = recover_epochs(&disk, &dirs, LAST);
        disk.crash(|_| true);
        let is_made = |file| read_epoch(&disk, &dirs.data, file).unwrap().is_some();
        if is_made(EpochFile::Current) || is_made(EpochFile::Accepted) {
            assert!(voting::suspended(&disk, &dirs).unwrap().is_some(), "{power}");
        }
        assert!(recovered.is_err() || is_made(EpochFile::Current), "{power}");
        recover_epochs(&disk, &dirs, LAST).unwrap();
        assert!(voting::suspended(&disk, &dirs).unwrap().is_some(), "{power}");
    }
}

#[test]
fn a_crash_leaves_the_old_epoch_or_the_new_one() {
    for power in 0..6 {
        for survivors in 0..8 {
            let (disk, dir) = (MemoryDisk::new(), Path::new(DIR));
            disk.create_dir(dir).unwrap();
            write_epoch(&disk, dir, EpochFile::Current, 7).unwrap();
            disk.cut_power_after(power);
            let written = write_epoch(&disk, dir, EpochFile::Current, 8).is_ok();
            let mut asked = 0;
            disk.crash(|_| {
                asked += 1;
                asked <= survivors
            });
            let epoch = read_epoch(&disk, dir, EpochFile::Current).unwrap().unwrap();
            assert!(epoch == 8 || epoch == 7 && !written, "{epoch}, {power}, {survivors}");
        }
    }
}

#[test]
fn an_epoch_never_goes_back() {
    let (disk, dir) = (MemoryDisk::new(), Path::new(DIR));
    disk.create_dir(dir).unwrap();
    for file in [EpochFile::Accepted, EpochFile::Current] {
        for (epoch, expected) in [(6, 6), (0, 6), (7, 7), (5, 7), (7, 7)] {
            let written = write_epoch(&disk, dir, file, epoch);
            assert_eq!(written.is_ok(), epoch == expected, "{written:?}");
            assert_eq!(read_epoch(&disk, dir, file).unwrap(), Some(expected));
        }
    }
}

#[test]
fn an_epoch_whose_sync_failed_is_not_there() {
    let (disk, dir) = (MemoryDisk::new(), Path::new(DIR));
    disk.create_dir(dir).unwrap();
    write_epoch(&disk, dir, EpochFile::Current, 7).unwrap();
    disk.fail_sync(0);
    assert!(write_epoch(&disk, dir, EpochFile::Current, 8).is_err());
    disk.crash(|_| true);
    assert_eq!(read_epoch(&disk, dir, EpochFile::Current).unwrap(), Some(7));
}

/// Checks the epochs that these files and a copy of (accepted, current) give. Voting is not suspended.
#[track_caller]
fn check_copied(
    files: &[(&str, &str)],
    (accepted, current): (u32, u32),
    expected: (u32, u32),
) -> MemoryDisk {
    let (disk, dirs) = (disk(), dirs());
    let copy = EpochCopy { accepted, current, last_zxid: Zxid::ZERO, open_log: None };
    write_copies(&disk, &dirs.data, copy).unwrap();
    for (name, content) in files {
        disk.put(&dirs.data.join(name), content.as_bytes().to_vec());
    }
    let Epochs { current, accepted } = recover_epochs(&disk, &dirs, LAST).unwrap();
    assert_eq!((accepted, current), expected, "{files:?}");
    disk.crash(|_| false);
    let durable = |file| read_epoch(&disk, &dirs.data, file).unwrap();
    assert_eq!(durable(EpochFile::Accepted), Some(accepted));
    assert_eq!(durable(EpochFile::Current), Some(current));
    let copy = read_copies(&disk, &dirs.data).unwrap();
    assert_eq!((copy.accepted, copy.current, copy.last_zxid), (accepted, current, LAST));
    disk
}

#[test]
fn damaged_files_are_restored_from_their_copies() {
    for current in ["", "x", "\0\0", "4", "3"] {
        for accepted in ["", "x", "5", "4", "0"] {
            let files = [("currentEpoch", current), ("acceptedEpoch", accepted)];
            // Nor is a larger number believed: a server follows the last epoch that it has accepted.
            let disk = check_copied(&files, (5, 3), (5, 3));
            assert_eq!(voting::suspended(&disk, &dirs()).unwrap(), None);
        }
    }
    let disk = check_copied(&[], (5, 4), (5, 4));
    assert_eq!(voting::suspended(&disk, &dirs()).unwrap(), None);
    // A flipped bit has made the epoch larger than any that was accepted.
    check_copied(&[("currentEpoch", "7"), ("acceptedEpoch", "5")], (5, 4), (5, 4));
    // The log shows that the epoch was followed.
    check_copied(&[("currentEpoch", "x"), ("acceptedEpoch", "5")], (5, 2), (5, 3));
}

/// A server that votes as if it had followed a later epoch wins against servers that have more txns.
#[test]
fn an_epoch_that_only_apache_may_have_followed_suspends_voting() {
    let disk = check_copied(&[("currentEpoch", "5"), ("acceptedEpoch", "5")], (5, 4), (5, 5));
    let reason = voting::suspended(&disk, &dirs()).unwrap().unwrap();
    assert!(reason.contains("currentEpoch says 5, and its copy 4"), "{reason}");
    // The log shows that it has.
    let disk = check_copied(&[("currentEpoch", "3"), ("acceptedEpoch", "3")], (3, 2), (3, 3));
    assert_eq!(voting::suspended(&disk, &dirs()).unwrap(), None);
}

/// An accepted epoch that is later than the copy was written by Apache, or right before a crash.
#[test]
fn later_files_count_more_than_their_copies() {
    check_copied(&[("currentEpoch", "6"), ("acceptedEpoch", "8")], (5, 4), (8, 6));
    check_copied(&[("currentEpoch", "3"), ("acceptedEpoch", "8")], (5, 4), (8, 3));
    // Then the copy says nothing about a damaged file either.
    let disk = check_copied(&[("currentEpoch", "x"), ("acceptedEpoch", "8")], (5, 4), (8, 3));
    let reason = voting::suspended(&disk, &dirs()).unwrap().unwrap();
    assert!(reason.contains("currentEpoch is damaged"), "{reason}");
}

/// The directory of the epochs is from an older backup than that of the log.
#[test]
fn copies_that_are_older_than_the_log_do_not_count() {
    let files = [("currentEpoch", "2"), ("acceptedEpoch", "2")];
    let disk = check_copied(&files, (2, 2), (3, 3));
    let reason = voting::suspended(&disk, &dirs()).unwrap().unwrap();
    assert!(reason.starts_with("the epoch files are older than the log"), "{reason}");
}

/// A damaged server promises epochs without having brought its copies up to date at the start.
#[test]
fn copies_from_before_apache_are_left_alone() {
    let (disk, dirs) = (disk(), dirs());
    write_copies(
        &disk,
        &dirs.data,
        EpochCopy { accepted: 5, current: 4, last_zxid: LAST, open_log: None },
    )
    .unwrap();
    disk.put(&dirs.data.join("acceptedEpoch"), b"8".to_vec());
    disk.put(&dirs.data.join("currentEpoch"), b"7".to_vec());
    write_epoch(&disk, &dirs.data, EpochFile::Accepted, 9).unwrap();
    let epochs = recover_epochs(&disk, &dirs, LAST).unwrap();
    assert_eq!((epochs.current, epochs.accepted), (7, 9));
    assert_eq!(voting::suspended(&disk, &dirs).unwrap(), None);
}

/// What was promised is known after any crash, whichever of the files is damaged then.
#[test]
fn a_promise_survives_a_crash_and_a_damaged_file() {
    for file in [EpochFile::Accepted, EpochFile::Current] {
        for power in 0..14 {
            for survivors in [0, 2, 100] {
                let (disk, dirs) = (disk(), dirs());
                write_epoch(&disk, &dirs.data, EpochFile::Accepted, 9).unwrap();
                write_epoch(&disk, &dirs.data, EpochFile::Current, 7).unwrap();
                recover_epochs(&disk, &dirs, LAST).unwrap();
                let epoch = if file == EpochFile::Accepted { 10 } else { 8 };
                disk.cut_power_after(power);
                let is_written = write_epoch(&disk, &dirs.data, file, epoch).is_ok();
                let mut asked = 0;
                disk.crash(|_| {
                    asked += 1;
                    asked <= survivors
                });
                let is_known = read_epoch(&disk, &dirs.data, file).unwrap() == Some(epoch);
                assert!(is_known || !is_written);
                if is_written {
                    disk.put(&dirs.data.join(file.name()), b"rot".to_vec());
                }
                let epochs = recover_epochs(&disk, &dirs, LAST).unwrap();
                let found = match file {
                    EpochFile::Accepted => epochs.accepted,
                    EpochFile::Current => epochs.current,
                };
                assert!(found == epoch || !is_known && found == epoch - 1, "{power}, {survivors}");
                assert_eq!(voting::suspended(&disk, &dirs).unwrap(), None);
            }
        }
    }
}

/// A running server whose file is damaged still keeps its promises.
#[test]
fn an_epoch_never_goes_back_behind_its_copy() {
    let (disk, dirs) = (disk(), dirs());
    recover_epochs(&disk, &dirs, LAST).unwrap();
    write_epoch(&disk, &dirs.data, EpochFile::Accepted, 9).unwrap();
    disk.put(&dirs.data.join("acceptedEpoch"), b"rot".to_vec());
    write_epoch(&disk, &dirs.data, EpochFile::Accepted, 8).unwrap_err();
    write_epoch(&disk, &dirs.data, EpochFile::Accepted, 10).unwrap();
    assert_eq!(copied_epoch(&disk, &dirs.data, EpochFile::Accepted), Some(10));
}

#[test]
fn the_last_txn_is_known_until_it_is_given_up() {
    let (disk, dirs) = (disk(), dirs());
    recover_epochs(&disk, &dirs, LAST).unwrap();
    assert_eq!(known_log(&disk, &dirs.data).last, Some(LAST));
    recover_epochs(&disk, &dirs, Zxid(LAST.0 - 1)).unwrap();
    assert_eq!(known_log(&disk, &dirs.data).last, Some(LAST));
    lower_last_known(&disk, &dirs.data, Zxid(5)).unwrap();
    lower_last_known(&disk, &dirs.data, Zxid(6)).unwrap();
    assert_eq!(known_log(&disk, &dirs.data).last, Some(Zxid(5)));
    // Apache has run here, and may have cut the log.
    disk.put(&dirs.data.join("acceptedEpoch"), b"12".to_vec());
    assert_eq!(known_log(&disk, &dirs.data).last, None);
    recover_epochs(&disk, &dirs, Zxid(3 << 32 | 1)).unwrap();
    assert_eq!(known_log(&disk, &dirs.data).last, Some(Zxid(3 << 32 | 1)));
    assert!(names(&disk).contains(&COPIES_FILE.to_owned()));
}
