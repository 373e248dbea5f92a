//! The port itself: limits, hostile clients, its beginning and its end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::{get, open, settings};
use herdsman_admin::{Admin, AdminError, AdminSettings};
use herdsman_server::TestServer;

fn connect(admin: &Admin) -> TcpStream {
    let stream = TcpStream::connect(admin.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// What comes until the other end closes.
fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn impatient() -> AdminSettings {
    AdminSettings { idle_timeout: Duration::from_millis(50), ..settings() }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let server = TestServer::start();
    let admin = open(server.handle());
    let same = AdminSettings { address: admin.address(), ..settings() };
    let error = Admin::start(server.handle(), same).unwrap_err();
    assert!(matches!(error, AdminError::Bind { address, .. } if address == admin.address()));
    assert!(error.to_string().contains("admin.serverPort"), "{error}");
}

#[test]
fn who_says_nothing_is_sent_away() {
    let server = TestServer::start();
    let admin = Admin::start(server.handle(), impatient()).unwrap();
    let silent = connect(&admin);
    let mut halfway = connect(&admin);
    halfway.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n").unwrap();
    let mut after_one = connect(&admin);
    after_one.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(rest(silent), "");
    assert!(!rest(halfway).contains("200 OK"));
    assert!(rest(after_one).contains("{\"status\":\"ok\"}"));
}

#[test]
fn an_endless_head_is_refused() {
    let server = TestServer::start();
    let admin = open(server.handle());
    let mut stream = connect(&admin);
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n").unwrap();
    let line = format!("X-Filler: {}\r\n", "x".repeat(1000));
    while stream.write_all(line.as_bytes()).is_ok() {}
    assert!(!rest(stream).contains("200 OK"));
    assert_eq!(get(&admin, "/livez").status, 200);
}

#[test]
fn garbage_is_a_bad_request() {
    let server = TestServer::start();
    let admin = open(server.handle());
    let mut stream = connect(&admin);
    stream.write_all(b"\x00\x00\x00\x2d\x00\x00\x00\x00\r\n\r\n").unwrap();
    assert!(rest(stream).starts_with("HTTP/1.1 400"));
}

#[test]
fn the_next_connection_waits_for_a_place() {
    let server = TestServer::start();
    let narrow = AdminSettings { connections_max: 1, ..settings() };
    let admin = Admin::start(server.handle(), narrow).unwrap();
    let first = connect(&admin);
    let mut second = connect(&admin);
    second
        .write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    second.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(second.read(&mut [0; 1]).is_err(), "it is not served while the first is there");
    drop(first);
    second.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert!(rest(second).contains("200 OK"));
}

#[test]
fn a_body_that_stands_still_ends_the_request() {
    let server = TestServer::start();
    let admin = Admin::start(server.handle(), impatient()).unwrap();
    let mut stream = connect(&admin);
    let head = "POST /commands/restore HTTP/1.1\r\nHost: localhost\r\nAuthorization: ip\r\n\
                Content-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\nZKSN";
    stream.write_all(head.as_bytes()).unwrap();
    let answer = rest(stream);
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("stood still"), "{answer}");
}

#[test]
fn the_end_does_not_wait_for_idle_connections() {
    let server = TestServer::start();
    let admin = open(server.handle());
    let mut idle = connect(&admin);
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut first = [0; 15];
    idle.read_exact(&mut first).unwrap();
    let address = admin.address();
    drop(admin);
    assert!(rest(idle).contains("ok"));
    assert!(TcpStream::connect(address).is_err());
}
