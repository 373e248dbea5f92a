//! Files with data are for their owner alone, and a restore keeps owners and modes.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use crate::harness::{Copy, fixture, run};
use crate::stub_server::StubServer;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_backup_is_for_its_owner_alone() {
    let target = tempfile::tempdir().unwrap();
    let file = target.path().join("zk.snapshot");
    let source = fixture("apache-3.9.5/plain");
    let (source, file_text) = (source.to_str().unwrap(), file.to_str().unwrap());
    run(&["backup", "--data-dir", source, "-o", file_text]).expect(0, &[]);
    assert_eq!(mode(&file), 0o600);
    chmod(&file, 0o644);
    run(&["backup", "--data-dir", source, "-o", file_text, "--force"]).expect(0, &[]);
    assert_eq!(mode(&file), 0o600);
    let body = fs::read(&file).unwrap();
    let stub = StubServer::start("200 OK", &["Content-Type: application/octet-stream"], &body);
    run(&["backup", "--server", &stub.url, "-o", file_text, "--force"]).expect(0, &[]);
    stub.request();
    assert_eq!(mode(&file), 0o600);
}

#[test]
fn a_restore_keeps_modes() {
    let backup = fixture("apache-3.9.5/plain/version-2/snapshot.54");
    for (dir_mode, file_mode) in [(0o700, 0o600), (0o750, 0o640)] {
        let copy = Copy::of("apache-3.9.5/unclean");
        let version_dir = copy.path().join("version-2");
        for entry in fs::read_dir(&version_dir).unwrap() {
            chmod(&entry.unwrap().path(), file_mode);
        }
        chmod(&version_dir, dir_mode);
        let arguments = ["restore", backup.to_str().unwrap(), "--data-dir", copy.text()];
        run(&[&arguments[..], &["--force", "--yes"]].concat()).expect(0, &["restored"]);
        assert_eq!(mode(&version_dir), dir_mode);
        for entry in fs::read_dir(&version_dir).unwrap() {
            let path = entry.unwrap().path();
            let expected = if path.is_dir() { dir_mode } else { file_mode };
            assert_eq!(mode(&path), expected, "{}", path.display());
        }
    }
}

#[test]
fn a_restore_into_a_new_directory_is_for_its_owner_alone() {
    let target = tempfile::tempdir().unwrap();
    let data_dir = target.path().join("data");
    let backup = fixture("apache-3.9.5/plain/version-2/snapshot.54");
    let arguments = ["restore", backup.to_str().unwrap(), "--data-dir", data_dir.to_str().unwrap()];
    run(&arguments).expect(0, &["restored"]);
    assert_eq!(mode(&data_dir.join("version-2")), 0o700);
    for name in ["snapshot.54", "currentEpoch", "acceptedEpoch"] {
        assert_eq!(mode(&data_dir.join("version-2").join(name)), 0o600, "{name}");
    }
}
