//! The port itself: limits, hostile clients, start and stop.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::{get, open, settings};
use herdsman_admin::{Admin, AdminError, AdminSettings};
use herdsman_testing::TestServer;

/// An idle timeout longer than any test.
const HOUR: Duration = Duration::from_secs(3600);

fn connect(admin: &Admin) -> TcpStream {
    let stream = TcpStream::connect(admin.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Reads until the other end closes.
fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn with_idle_timeout() -> AdminSettings {
    AdminSettings { idle_timeout: Duration::from_millis(50), ..settings() }
}

#[test]
fn a_port_in_use_is_named() {
    let server = TestServer::start();
    let admin = open(server.handle());
    let same = AdminSettings { address: admin.address(), ..settings() };
    let error = Admin::start(server.handle(), same).unwrap_err();
    assert!(matches!(error, AdminError::Bind { address, .. } if address == admin.address()));
    assert!(error.to_string().contains("admin.serverPort"), "{error}");
}

#[test]
fn silent_connections_are_closed() {
    let server = TestServer::start();
    let admin = Admin::start(server.handle(), with_idle_timeout()).unwrap();
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
fn an_endless_head_is_rejected() {
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

/// Connections that send nothing, without a timeout.
fn open_idle(admin: &Admin, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| connect(admin)).collect()
}

/// A connection whose response never ends.
fn open_stream(admin: &Admin) -> TcpStream {
    let mut stream = connect(admin);
    let ask = "GET /api/v1/watch?path=/ HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(ask.as_bytes()).unwrap();
    let mut seen = Vec::new();
    while !seen.windows(12).any(|window| window == b"event: ready") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        seen.push(byte[0]);
    }
    stream
}

#[test]
fn idle_connections_of_one_client_block_no_request() {
    let server = TestServer::start();
    let patient = AdminSettings { idle_timeout: HOUR, ..settings() };
    let admin = Admin::start(server.handle(), patient).unwrap();
    let idle = open_idle(&admin, 385);
    for path in ["/livez", "/readyz", "/commands/ruok", "/metrics"] {
        assert_eq!(get(&admin, path).status, 200, "{path}");
    }
    drop(idle);
}

#[test]
fn health_checks_are_answered_when_all_slots_are_in_use() {
    let server = TestServer::start();
    let narrow = AdminSettings { connections_max: 1, idle_timeout: HOUR, ..settings() };
    let admin = Admin::start(server.handle(), narrow).unwrap();
    let busy = open_stream(&admin);
    let idle = open_idle(&admin, 100);
    for path in ["/livez", "/readyz", "/livez?verbose"] {
        assert_eq!(get(&admin, path).status, 200, "{path}");
    }
    let refused = get(&admin, "/commands/ruok");
    assert_eq!((refused.status, refused.error().as_str()), (503, "TooManyConnections"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    drop((busy, idle));
    // The server notices a moment later that the stream was closed.
    while get(&admin, "/commands/ruok").status != 200 {
        std::thread::yield_now();
    }
}

#[test]
fn a_stalled_body_ends_the_request() {
    let server = TestServer::start();
    let admin = Admin::start(server.handle(), with_idle_timeout()).unwrap();
    let mut stream = connect(&admin);
    let head = "POST /commands/restore HTTP/1.1\r\nHost: localhost\r\nAuthorization: ip\r\n\
                Content-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\nZKSN";
    stream.write_all(head.as_bytes()).unwrap();
    let answer = rest(stream);
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("stalled"), "{answer}");
}

/// A tool that is about to send a large snapshot is rejected before it sends anything.
#[test]
fn a_restore_is_rejected_before_its_body_is_sent() {
    let server = TestServer::start();
    let admin = Admin::start(server.handle(), with_idle_timeout()).unwrap();
    let ask = |authorization: &str| {
        let mut stream = connect(&admin);
        let head = format!(
            "POST /commands/restore HTTP/1.1\r\nHost: localhost\r\n{authorization}\
             Content-Type: application/octet-stream\r\nContent-Length: 1000000000\r\n\
             Expect: 100-continue\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        rest(stream)
    };
    let refused = ask("");
    assert!(
        refused.starts_with("HTTP/1.1 401") && refused.contains("Auth info is missing"),
        "{refused}"
    );
    let admitted = ask("Authorization: ip\r\n");
    assert!(admitted.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 408"), "{admitted}");
}

#[test]
fn the_stop_does_not_wait_for_idle_connections() {
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
