//! `inspect snapshot`.

use std::collections::BTreeMap;
use std::fs;

use herdsman_store::names::SnapshotName;

use crate::harness::{Copy, fixture, fixtures, run};

#[test]
fn znodes_are_shown_as_apache_has_them() {
    for release in ["apache-3.8.0", "apache-3.9.5"] {
        for (variant, file) in [("gz", "snapshot.71.gz"), ("snappy", "snapshot.71.snappy")] {
            let variant = fixture(release).join(variant);
            let text = fs::read_to_string(variant.join("expected.txt")).unwrap();
            let nodes = text.lines().filter(|line| line.starts_with("node\t"));
            let expected: BTreeMap<String, (String, String)> = nodes
                .map(|line| {
                    let fields: Vec<&str> = line.split('\t').collect();
                    let zxid = format!("{:#x}", fields[3].parse::<i64>().unwrap());
                    (fields[1].to_owned(), (zxid, fields[16].to_owned()))
                })
                .collect();
            let file = variant.join("version-2").join(file);
            let ran =
                run(&["inspect", "snapshot", file.to_str().unwrap(), "--json"]).expect(0, &[]);
            let lines = ran.json();
            let of_kind = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).count();
            let shown: BTreeMap<String, (String, String)> = lines
                .iter()
                .filter(|line| line["kind"] == "znode")
                .map(|line| {
                    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
                    let stat = &line["stat"];
                    (text(&line["path"]), (text(&stat["czxid"]), text(&stat["ephemeral_owner"])))
                })
                .collect();
            assert_eq!(shown, expected, "{}", file.display());
            let sessions = text.lines().filter(|line| line.starts_with("session\t")).count();
            assert_eq!(of_kind("session"), sessions, "{}", file.display());
            assert_eq!(of_kind("trailer"), 1);
            assert!(of_kind("acl") > 0);
        }
    }
}

#[test]
fn parts_can_be_picked() {
    let copy = Copy::of("apache-3.9.5/plain");
    let file = copy.file_text("snapshot.54");
    run(&["inspect", "snapshot", &file]).expect(
        0,
        &[
            "Sessions\n",
            "ACLs\n",
            "Znodes\n",
            "Trailer\n",
            "  /app  10 bytes  version 0",
            "container",
            "ttl 3600000 ms",
            "ephemeral of 0x",
            "last zxid  0x54",
        ],
    );
    let ran = run(&["inspect", "snapshot", &file, "--path", "/app/multi", "--data", "--stat"])
        .expect(0, &["/app/multi/a", "\"3\"", "czxid 0x36", "aversion 0"]);
    assert!(!ran.out.contains("/app/queue"), "{}", ran.out);
    run(&["inspect", "snapshot", &file, "--summary", "--top", "2", "--depth", "1"]).expect(
        0,
        &["Parents with the most children", "/app/multi  5", "Largest subtrees by bytes", "/app "],
    );
}

#[test]
fn a_znode_that_is_not_there_is_a_problem() {
    let copy = Copy::of("apache-3.9.5/plain");
    let file = copy.file_text("snapshot.54");
    for (path, code) in [("/nope", 1), ("/app/mult", 1), ("/app/", 1), ("/app", 0), ("/", 0)] {
        for format in [&[][..], &["--json"]] {
            let ran = run(&[&["inspect", "snapshot", &file, "--path", path], format].concat());
            let said = format!("herdsman: snapshot.54: there is no znode {path}\n");
            let expected = if code == 1 { said.as_str() } else { "" };
            assert_eq!((ran.code, ran.err.as_str()), (code, expected), "{path}");
        }
    }
}

#[test]
fn every_fixture_is_sound() {
    for variant in fixtures() {
        for entry in fs::read_dir(variant.join("version-2")).unwrap() {
            let path = entry.unwrap().path();
            if SnapshotName::parse(path.file_name().unwrap().to_str().unwrap()).is_some() {
                let ran = run(&["inspect", "snapshot", path.to_str().unwrap(), "--verify"]);
                assert_eq!((ran.code, ran.out.ends_with("sound\n")), (0, true), "{ran:#?}");
            }
        }
    }
}

#[test]
fn damage_is_found_wherever_it_is() {
    for (fixture, name) in
        [("apache-3.9.5/plain", "snapshot.54"), ("apache-3.9.5/snappy", "snapshot.71.snappy")]
    {
        let bytes = fs::metadata(Copy::of(fixture).file(name)).unwrap().len();
        for offset in [30, 200, bytes / 2, bytes - 60, bytes - 3] {
            let copy = Copy::of(fixture);
            copy.flip(name, offset);
            let file = copy.file_text(name);
            let ran = run(&["inspect", "snapshot", &file, "--verify"]).expect(1, &["PROBLEM"]);
            assert!(ran.out.contains("1 problem found"), "{ran:?} {offset}");
            let ran = run(&["inspect", "snapshot", &file]);
            assert_eq!(ran.code, 1, "{ran:?} {offset}");
            assert!(ran.err.contains("Do not trust"), "{ran:?}");
        }
        let copy = Copy::of(fixture);
        copy.cut(name, bytes - 13);
        run(&["inspect", "snapshot", &copy.file_text(name), "--verify"]).expect(1, &["PROBLEM"]);
    }
}

#[test]
fn a_digest_that_is_not_that_of_the_znodes_is_found() {
    let copy = Copy::of("apache-3.9.5/plain");
    copy.falsify_digest("snapshot.54");
    run(&["inspect", "snapshot", &copy.file_text("snapshot.54"), "--verify"])
        .expect(1, &["its trailer has digest", "1 problem found"]);
    run(&["inspect", "data-dir", copy.text(), "--verify"]).expect(1, &["the snapshot says"]);
}

#[test]
fn what_is_no_snapshot_is_said_in_a_line() {
    let copy = Copy::of("apache-3.9.5/plain");
    for arguments in [
        ["inspect", "snapshot", "/nowhere/snapshot.1"],
        ["inspect", "snapshot", &copy.file_text("log.1")],
        ["inspect", "snapshot", copy.text()],
    ] {
        let ran = run(&arguments);
        assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{ran:?}");
        let ran = run(&[&arguments[..], &["--verify", "--json"]].concat());
        assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{ran:?}");
    }
}
