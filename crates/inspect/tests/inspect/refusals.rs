//! What a server says when it refuses a backup or a restore reaches the operator.

use crate::harness::{fixture, run};
use crate::stub_server::StubServer;

const JSON: [&str; 1] = ["Content-Type: application/json"];

fn restore_refused(status: &str, body: &[u8]) -> String {
    let source = fixture("apache-3.9.5/plain/version-2/snapshot.54");
    let stub = StubServer::start(status, &JSON, body);
    let arguments = ["restore", source.to_str().unwrap(), "--server", &stub.url, "--yes"];
    let ran = run(&arguments).expect(2, &[]);
    assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    stub.request();
    ran.err
}

#[test]
fn the_reason_for_a_refusal_is_passed_on() {
    let rows: [(&str, &[u8], &str); 6] = [
        (
            "409 Conflict",
            br#"{"command":"restore","error":"a member of an ensemble is not restored"}"#,
            "answered 409 to restore: a member of an ensemble is not restored",
        ),
        (
            "400 Bad Request",
            br#"{"command":"restore","error":"not a snapshot (bad magic); nothing was changed"}"#,
            "answered 400 to restore: not a snapshot (bad magic); nothing was changed",
        ),
        (
            "403 Forbidden",
            br#"{"error":"HttpsOnly","message":"this port takes HTTPS only"}"#,
            "answered 403 to restore: this port takes HTTPS only",
        ),
        (
            "403 Forbidden",
            br#"{"command":"restore","error":"Not authorized"}"#,
            "Not authorized; these credentials do not have all permissions on /",
        ),
        (
            "503 Service Unavailable",
            br#"{"command":"restore","error":"the disk is full"}"#,
            "answered 503 to restore: the disk is full",
        ),
        ("418 I'm a teapot", b"{}", "answered 418 to restore: it gave no reason"),
    ];
    for (status, body, piece) in rows {
        let said = restore_refused(status, body);
        assert!(said.contains(piece), "{status}: {said}");
        assert!(!said.contains("not expected"), "{said}");
    }
}

#[test]
fn a_reason_can_neither_command_the_terminal_nor_fill_it() {
    let long = format!(r#"{{"error":"\u001b[2Jgone\n{}"}}"#, "x".repeat(50_000));
    let said = restore_refused("409 Conflict", long.as_bytes());
    assert!(said.contains(r"\u{1b}[2Jgone\n") && !said.contains('\x1b'), "{said}");
    assert!(said.contains("xxx…") && said.len() < 1000, "{} bytes", said.len());
}

/// Else a server that refuses at once closes while the snapshot is on its way, and its reason is lost.
#[test]
fn a_restore_waits_for_the_servers_word_before_it_sends_everything() {
    let source = fixture("apache-3.9.5/plain/version-2/snapshot.54");
    let answer = br#"{"last_zxid":113,"command":"restore","error":null}"#;
    let stub = StubServer::start("200 OK", &JSON, answer);
    run(&["restore", source.to_str().unwrap(), "--server", &stub.url, "--yes"])
        .expect(0, &["restored"]);
    assert_eq!(stub.request().headers["expect"], "100-continue");
}
