//! Tests with two sides from files.

use bytes::Bytes;
use herdsman_client::{Acl, Lifetime, Perms, Zxid};

use super::*;
use crate::subtree::file::ExportFile;

fn record(path: &str, data: &'static [u8]) -> Record {
    Record {
        path: path.to_owned(),
        data: Bytes::from_static(data),
        acl: vec![Acl::world(Perms::ALL)],
        lifetime: Lifetime::Persistent,
        stat: None,
    }
}

fn side(records: &[Record]) -> Side {
    let mut text = concat!(
        r#"{"format":"herdsman-subtree","version":1,"root":"/a","zxid":"0x1","time":"t"}"#,
        "\n"
    )
    .to_owned();
    for record in records {
        text += &record.to_line();
        text.push('\n');
    }
    let file = ExportFile::spool("file", text.as_bytes()).unwrap();
    Side::file(file.into_records().unwrap(), Completeness::Partial)
}

async fn differences(left: &[Record], right: &[Record], stat: StatComparison) -> Vec<Difference> {
    let mut diff = Diff::new(side(left), side(right), stat);
    let mut found = Vec::new();
    while let Some(difference) = diff.next().await.unwrap() {
        found.push(difference);
    }
    assert_eq!(diff.counts().is_equal(), found.is_empty());
    found
}

async fn check(left: &[Record], right: &[Record], expected: &[&str]) {
    let found = differences(left, right, StatComparison::Off).await;
    assert_eq!(found.iter().map(summary_line).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn missing_and_different_znodes_are_found() {
    let root = || record(".", b"");
    check(&[], &[], &[]).await;
    check(&[root()], &[root()], &[]).await;
    check(&[root()], &[], &["- . (0 B)"]).await;
    check(
        &[root(), record("a", b""), record("a/b", b"x"), record("a-b", b""), record("c", b"1")],
        &[root(), record("a", b"y"), record("a-b", b""), record("c", b"1"), record("d", b"1")],
        &["~ a: data", "- a/b (1 B)", "+ d (1 B)"],
    )
    .await;
    let secret = Record { acl: vec![Acl::world(Perms::READ)], ..record("a", b"") };
    check(&[record("a", b"")], &[secret], &["~ a: acl"]).await;
    let container = Record { lifetime: Lifetime::Container, ..record("a", b"") };
    check(&[record("a", b"")], &[container], &["~ a: type"]).await;
}

#[tokio::test]
async fn stats_differ_only_on_demand() {
    let with = |czxid| {
        let stat = Stat { czxid: Zxid(czxid), ..Stat::default() };
        [Record { stat: Some(stat), ..record("a", b"") }]
    };
    assert_eq!(differences(&with(1), &with(2), StatComparison::Off).await, []);
    let found = differences(&with(1), &with(2), StatComparison::On).await;
    let labels = Labels { left: "old", right: "new" };
    assert_eq!(as_text_lines(&found[0], labels), ["~ a: czxid", "  czxid 0x1 -> 0x2"]);
}

#[tokio::test]
async fn text_is_shown_line_by_line_and_the_rest_by_its_digest() {
    let left = [record("a", b"one\ntwo\n"), record("b", b"\0")];
    let right = [record("a", b"one\n\x09three\n"), record("b", b"\x01\x1b")];
    let found = differences(&left, &right, StatComparison::Off).await;
    let labels = Labels { left: "old", right: "new" };
    assert_eq!(
        as_text_lines(&found[0], labels),
        ["~ a: data", "--- old: a", "+++ new: a", "@@ -1,2 +1,2 @@", " one", "-two", "+\tthree"]
    );
    let lines = as_text_lines(&found[1], labels);
    assert!(lines[1].starts_with("  - data 1 byte, sha256 6e340b9cffb37a98"), "{lines:?}");
    let json = as_json(&found[1]);
    assert_eq!((&json["difference"], &json["right"]["bytes"]), (&"changed".into(), &2.into()));
}

#[tokio::test]
async fn a_file_out_of_order_is_rejected() {
    let mut diff =
        Diff::new(side(&[record("b", b""), record("a", b"")]), side(&[]), StatComparison::Off);
    let error = loop {
        match diff.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it went unnoticed"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().starts_with("file, line 3: a is not in the order"), "{error}");
}

#[tokio::test]
async fn a_truncated_file_is_rejected() {
    let whole = side(&[record("a", b"")]);
    let Side::File { records, last, .. } = side(&[record("a", b"")]) else {
        panic!("it is a file");
    };
    let cut = Side::File { records, last, completeness: Completeness::Required };
    let error = Diff::new(whole, cut, StatComparison::Off).next().await.unwrap_err();
    assert!(error.to_string().contains("line 2: the file is truncated"), "{error}");
}
