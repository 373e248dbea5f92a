//! Tests of data as text and back, and of drafts.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn check(before: &[u8], format: EditFormat, shown: &str, edited: &str, after: &[u8]) {
    assert_eq!(to_editable(before, format).unwrap(), shown, "{before:?}");
    assert_eq!(from_editable(edited, before, format).unwrap(), after, "{edited:?}");
}

#[test]
fn an_added_line_end_is_removed_again() {
    use EditFormat::{Hex, Json, Text};
    check(b"a", Text, "a", "b\n", b"b");
    check(b"a\n", Text, "a\n", "b\n", b"b\n");
    check(b"a", Text, "a", "b\n\n", b"b\n");
    check(b"", Text, "", "\n", b"");
    check(br#"{"a":1}"#, Json, "{\n  \"a\": 1\n}\n", "{\n  \"a\": 2\n}\n", br#"{"a":2}"#);
    check(b"{\n\"a\": 1\n}", Json, "{\n  \"a\": 1\n}\n", "{\n\"a\": 2\n}\n", b"{\n\"a\": 2\n}");
    check(b"", Json, "", "{}\n", b"{}");
    check(b"a\0", Hex, &format!("{:<47}  # a.\n", "61 00"), "6100 FF # x\n\n01", b"a\0\xff\x01");
}

#[test]
fn data_of_another_format_is_rejected_with_a_hint() {
    let refused = |data: &[u8], format| to_editable(data, format).unwrap_err().to_string();
    assert!(refused(b"\0", EditFormat::Text).contains("edit --hex"));
    assert!(refused(b"a=1", EditFormat::Json).contains("edit it as text"));
    for bad in ["6", "6g", "é", "61 0"] {
        assert!(from_editable(bad, b"", EditFormat::Hex).is_err(), "{bad}");
    }
    assert!(from_editable("{", b"{}", EditFormat::Json).is_err());
}

#[test]
fn other_white_space_in_json_is_not_a_change() {
    assert!(is_unchanged(b"{ }", b"{}", EditFormat::Json));
    assert!(!is_unchanged(b"{ }", b"{}", EditFormat::Text));
    assert!(!is_unchanged(b"[1]", b"[2]", EditFormat::Json));
}

#[test]
fn the_first_editor_that_is_set_is_used() {
    let set = |text: &str| Some(text.to_owned());
    assert_eq!(choose_editor([set("code --wait"), set("nano")]), "code --wait");
    assert_eq!(choose_editor([None, set(" "), set("nano")]), "nano");
    assert_eq!(choose_editor([None, None]), "vi");
}

#[test]
fn a_draft_is_private_and_stays_until_it_is_discarded() {
    let draft = Draft::new("one", EditFormat::Json).unwrap();
    let path = draft.path().to_owned();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(path.extension().unwrap(), "json");
    assert!(!draft.is_edited());
    draft.edit("printf %s two >").unwrap();
    assert!(draft.is_edited());
    assert_eq!(draft.read().unwrap(), "two");
    let failure = draft.edit("false").unwrap_err().to_string();
    assert!(failure.contains("nothing was written"), "{failure}");
    drop(draft);
    assert_eq!(fs::read_to_string(&path).unwrap(), "two");
    fs::remove_file(path).unwrap();
}

#[test]
fn a_discarded_draft_is_gone() {
    let draft = Draft::new("mine", EditFormat::Text).unwrap();
    draft.discard();
    assert!(!draft.path().exists() && !draft.is_edited());
}
