//! Tests with complete, truncated and invalid files.

use super::*;

const HEADER: &str = concat!(
    r#"{"format":"herdsman-subtree","version":1,"root":"/app","#,
    r#""zxid":"0x1","time":"2026-01-01T00:00:00Z"}"#,
    "\n"
);

fn end(znodes: u64) -> String {
    format!("{{\"end\":true,\"znodes\":{znodes},\"zxid\":\"0x1\"}}\n")
}

async fn check(text: &str, completeness: Completeness) -> Result<Outline, String> {
    let file = ExportFile::spool("file", text.as_bytes()).unwrap();
    file.check(completeness).await.map_err(|error| error.to_string())
}

async fn check_fault(text: &str, expected: &str) {
    let fault = check(text, Completeness::Required).await.unwrap_err();
    assert!(fault.starts_with(expected), "{fault:?} should begin with {expected:?}");
    assert!(!fault.contains('\n'), "{fault:?}");
}

#[tokio::test]
async fn a_complete_file_is_accepted() {
    let text = format!("{HEADER}{{\"path\":\".\"}}\n\n{{\"path\":\"a\"}}\n{}", end(2));
    let outline = check(&text, Completeness::Required).await.unwrap();
    assert_eq!((outline.znodes, outline.header.root.as_str()), (2, "/app"));
    assert_eq!(outline.first_hidden_acl, None);
}

#[tokio::test]
async fn the_first_fault_is_reported_with_its_line() {
    let missing = "file, line 1: not an export file";
    check_fault("", missing).await;
    check_fault("garbage\n", missing).await;
    check_fault("{}\n", missing).await;
    check_fault(&HEADER.replace("herdsman", "other"), missing).await;
    check_fault(&HEADER.replace(":1,", ":2,"), "file, line 1: version 2 of the format").await;
    check_fault(&HEADER.replace("/app", "app"), "file, line 1: the root \"app\"").await;
    let after_header = |lines: &str| format!("{HEADER}{lines}");
    check_fault(&after_header("{\"path\":\".\"}\nx\n"), "file, line 3: expected value").await;
    check_fault(&after_header("{\"path\":\"a/b\"}\n"), "file, line 2: a/b comes before").await;
    let twice = "{\"path\":\"a\"}\n{\"path\":\"a\"}\n";
    check_fault(&after_header(twice), "file, line 3: a is already in line 2").await;
    let below = "{\"path\":\"a\",\"type\":\"ephemeral\"}\n{\"path\":\"a/b\"}\n";
    check_fault(&after_header(below), "file, line 3: a/b is below a").await;
    check_fault(&after_header(&(end(0) + "{\"path\":\"a\"}\n")), "file, line 3: there is more")
        .await;
}

#[tokio::test]
async fn a_truncated_file_is_accepted_only_on_demand() {
    let cut = format!("{HEADER}{{\"path\":\"a\"}}\n");
    check_fault(&cut, "file, line 2: the file is truncated").await;
    check_fault(&(cut.clone() + &end(2)), "file, line 3: the last line counts 2 znodes").await;
    assert_eq!(check(&cut, Completeness::Partial).await.unwrap().znodes, 1);
    assert_eq!(check(&(cut + &end(2)), Completeness::Partial).await.unwrap().znodes, 1);
}

#[test]
fn bytes_that_are_not_text_are_reported() {
    let bytes = [HEADER.as_bytes(), b"\xff\xfe\n"].concat();
    let mut records = Records::begin("file", bytes.as_slice()).unwrap();
    assert_eq!(records.next_record().unwrap_err().to_string(), "file, line 2: not UTF-8");
}

#[test]
fn a_directory_is_rejected() {
    let directory = tempfile::tempdir().unwrap();
    assert!(matches!(ExportFile::open(directory.path()), Err(SubtreeError::File { .. })));
}
