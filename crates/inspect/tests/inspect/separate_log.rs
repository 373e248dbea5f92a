//! A server with a dataLogDir of its own: tools that do not get it must not take the snapshots for everything.

use std::fs;
use std::path::PathBuf;

use crate::harness::{Copy, contents, fixture, run};

/// A copy of a fixture whose logs are in `logs`.
fn separated() -> (Copy, PathBuf) {
    let copy = Copy::of("apache-3.9.5/plain");
    let logs = copy.path().join("logs");
    fs::create_dir_all(logs.join("version-2")).unwrap();
    for name in ["log.1", "log.55"] {
        fs::rename(copy.file(name), logs.join("version-2").join(name)).unwrap();
    }
    (copy, logs)
}

#[test]
fn snapshots_without_any_log_are_refused() {
    let (copy, logs) = separated();
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("zk.snapshot");
    let (file, logs) = (file.to_str().unwrap(), logs.to_str().unwrap());
    let source = fixture("apache-3.9.5/plain/version-2/snapshot.54");
    let source = source.to_str().unwrap();
    let before = contents(copy.path());
    let advice = &["no txn log", "--log-dir", "--config"];
    run(&["backup", "--data-dir", copy.text(), "-o", file]).expect(2, advice);
    run(&["restore", source, "--data-dir", copy.text(), "--force", "--yes"]).expect(2, advice);
    run(&["repair", copy.text(), "--rebuild-snapshot", "--yes"]).expect(2, advice);
    assert_eq!(contents(copy.path()), before);
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
    run(&["inspect", "data-dir", copy.text()]).expect(0, advice);
    // It has no such options.
    let ran = run(&["inspect", "compare", copy.text(), copy.text(), "--brief"])
        .expect(0, &["may be an old state"]);
    assert!(!ran.err.contains("--config"), "{ran:?}");
    let ran = run(&["repair", copy.text()]).expect(1, advice);
    assert!(!ran.out.contains("Nothing needs to be repaired"), "{ran:?}");
    let verify = ["inspect", "data-dir", copy.text(), "--verify"];
    let ran = run(&verify).expect(1, advice);
    assert!(!ran.out.contains("a server starts"), "{ran:?}");
    let ran = run(&[&verify[..], &["--json"]].concat()).expect(1, advice);
    assert_eq!(ran.json()[0]["sound"], false);
    run(&[&verify[..], &["--log-dir", logs]].concat()).expect(0, &["as of txn 0x71", "sound"]);
    run(&[&verify[..], &["--log-dir", copy.text()]].concat())
        .expect(0, &["as of txn 0x54", "sound"]);
    run(&["backup", "--data-dir", copy.text(), "--log-dir", logs, "-o", file])
        .expect(0, &["as of txn 0x71"]);
    // The operator says that there are no others.
    run(&["backup", "--data-dir", copy.text(), "--log-dir", copy.text(), "-o", file, "--force"])
        .expect(0, &["as of txn 0x54"]);
}

#[test]
fn logs_that_end_before_the_newest_snapshot_are_refused() {
    let copy = Copy::of("apache-3.9.5/plain");
    fs::remove_file(copy.file("log.55")).unwrap();
    copy.cut("log.1", copy.offsets("log.1")[&0x30]);
    let out = tempfile::tempdir().unwrap();
    run(&["backup", "--data-dir", copy.text(), "-o", out.path().to_str().unwrap()])
        .expect(2, &["ends at txn 0x2f, before snapshot.54", "--log-dir"]);
}

#[test]
fn the_directories_are_taken_from_zoo_cfg() {
    let (copy, logs) = separated();
    let config = copy.path().join("zoo.cfg");
    let text = format!("dataDir={}\ndataLogDir={}\n", copy.text(), logs.display());
    fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("zk.snapshot");
    let file = file.to_str().unwrap();
    run(&["backup", "--config", config, "-o", file]).expect(0, &["as of txn 0x71"]);
    run(&["inspect", "data-dir", "--config", config, "--verify"])
        .expect(0, &["as of txn 0x71", "sound"]);
    run(&["inspect", "history", "/app", "--config", config]).expect(0, &[]);
    run(&["repair", "--config", config]).expect(0, &["as of txn 0x71"]);
    let source = fixture("apache-3.9.5/plain/version-2/snapshot.54");
    run(&["restore", source.to_str().unwrap(), "--config", config, "--force", "--yes"])
        .expect(0, &["as of txn 0x54"]);
    let names: Vec<_> = fs::read_dir(logs.join("version-2"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .collect();
    assert!(names.is_empty(), "{names:?}");
    run(&["backup", "--config", config, "--data-dir", copy.text(), "-o", file])
        .expect(2, &["cannot be used with"]);
    fs::write(copy.path().join("empty.cfg"), "tickTime=2000\n").unwrap();
    let empty = copy.path().join("empty.cfg");
    run(&["backup", "--config", empty.to_str().unwrap(), "-o", file, "--force"])
        .expect(2, &["no dataDir"]);
}
