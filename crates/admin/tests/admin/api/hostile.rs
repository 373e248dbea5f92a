//! Bodies and requests that are garbage, endless or cut short: a clear error, and nothing is changed.

use std::io::{Read, Write};
use std::net::Shutdown;

use serde_json::json;

use super::rest::{Answer, Ask, Rest, connect};

const POST: &str = "POST /api/v1/node?path=/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                    Content-Type: application/json\r\n";

fn total(rest: &Rest) -> i64 {
    rest.get("/api/v1/children?path=/").ok()["total"].as_i64().unwrap()
}

#[test]
fn garbage_is_rejected() {
    let rest = Rest::start();
    for body in
        ["{", "[]", "nonsense", "\"x\"", "{\"data\":1}", "{\"data\":\"\\ud800\"}", "\u{0}", "{}{}"]
    {
        let ask =
            Ask::new("POST", "/api/v1/node?path=/x").header("Content-Type", "application/json");
        let answer = rest.ask(&ask.body(body));
        assert_eq!(answer.refusal(), (400, "BadRequest".to_owned()), "{body}");
    }
    let deep = "[".repeat(200_000);
    let ask = Ask::new("POST", "/api/v1/multi").header("Content-Type", "application/json");
    assert_eq!(rest.ask(&ask.body(deep)).status, 400);
    let latin = Ask::new("POST", "/api/v1/node?path=/x").header("Content-Type", "application/json");
    assert_eq!(rest.ask(&latin.body(&b"{\"data\":\"\xff\"}"[..])).status, 400);
    assert_eq!(total(&rest), 1);
}

#[test]
fn a_body_with_a_large_content_length_is_rejected_before_it_is_sent() {
    let rest = Rest::start();
    let mut stream = connect(rest.admin.address());
    write!(stream, "{POST}Content-Length: 99999999999\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = Answer::parse(&answer);
    assert_eq!(answer.refusal(), (413, "TooLarge".to_owned()));
    assert!(answer.json()["message"].as_str().unwrap().contains("jute.maxbuffer"));
}

#[test]
fn an_endless_body_is_cut_off() {
    let rest = Rest::start();
    let mut stream = connect(rest.admin.address());
    write!(stream, "{POST}Transfer-Encoding: chunked\r\n\r\n").unwrap();
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
    // The server answers and closes the connection long before that.
    let mut sent = 0;
    while sent < 1_000 && stream.write_all(&chunk).is_ok() {
        sent += 1;
    }
    assert!(sent < 1_000, "the server accepted {sent} chunks of 64 KiB");
    assert_eq!(total(&rest), 1);
}

#[test]
fn a_body_that_ends_early_changes_nothing() {
    let rest = Rest::start();
    let mut stream = connect(rest.admin.address());
    write!(stream, "{POST}Content-Length: 100\r\n\r\n{{}}").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || Answer::parse(&answer).status == 400);
    assert_eq!(total(&rest), 1);
}

#[test]
fn requests_that_are_not_http_are_harmless() {
    let rest = Rest::start();
    for bytes in [
        &b"\x00\x00\x00\x2d\x00\x00\x00\x00"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\r\n",
    ] {
        let mut stream = connect(rest.admin.address());
        _ = stream.write_all(bytes);
        _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 2"), "{bytes:?}");
    }
    let mut stream = connect(rest.admin.address());
    let long = "x".repeat(1 << 20);
    _ = write!(stream, "GET /api/v1/node?path=/{long} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 2"));
    assert_eq!(rest.get("/api/v1/whoami").status, 200);
}

#[test]
fn a_path_of_thousands_of_levels_is_rejected_as_a_whole() {
    let rest = Rest::start();
    let target = format!("/api/v1/node?path={}", "/a".repeat(10_000));
    let answer = rest.ask(&Ask::json("POST", &target, &json!({ "parents": true })));
    assert_eq!(answer.refusal(), (413, "TooLarge".to_owned()));
    assert_eq!(total(&rest), 1);
    let target = format!("/api/v1/node?path={}", "/a".repeat(100));
    assert_eq!(rest.ask(&Ask::json("POST", &target, &json!({ "parents": true }))).status, 201);
}

#[test]
fn the_largest_data_is_accepted_in_both_forms() {
    let rest = Rest::start();
    let text = "\"\n".repeat(500_000);
    let target = |name: &str| format!("/api/v1/node?path=/{name}");
    let created = rest.ask(&Ask::json("POST", &target("text"), &json!({ "data": text })));
    assert_eq!(created.status, 201);
    assert_eq!(rest.get(&target("text")).ok()["data"], text);
    let coded = "/wAA".repeat(330_000);
    let created = rest.ask(&Ask::json("POST", &target("bytes"), &json!({ "data_base64": coded })));
    assert_eq!(created.status, 201);
    assert_eq!(rest.get(&target("bytes")).ok()["data_base64"], coded);
}
