//! Cutting a log back to a txn.

use super::*;
use crate::testing::*;

fn names(disk: &dyn Disk) -> Vec<String> {
    let entries = disk.list(dir()).unwrap();
    entries.into_iter().map(|entry| entry.name).collect()
}

#[test]
fn everything_after_the_txn_goes() {
    let disk = disk();
    let mut log = writer(&disk, Zxid::ZERO);
    for from in [1, 11, 21] {
        write_batch(&mut log, from, from + 9);
        log.roll();
    }
    for missing in [0, 31] {
        assert!(matches!(
            truncate(&disk, dir(), Zxid(missing)),
            Err(TruncateError::NotFound { .. })
        ));
    }
    assert_eq!(names(&disk), ["log.1", "log.15", "log.b"]);
    truncate(&disk, dir(), Zxid(13)).unwrap();
    disk.crash(|_| false);
    assert_eq!(names(&disk), ["log.1", "log.b"]);
    assert_eq!(zxids(&disk, &log_path(11)), [11, 12, 13]);
    // The log goes on in a file of its own.
    write_batch(&mut writer(&disk, Zxid(13)), 14, 15);
    assert_eq!(names(&disk), ["log.1", "log.b", "log.e"]);
}
