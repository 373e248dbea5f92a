//! Changes as server-sent events.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;

use herdsman_admin::settings::Writers;
use herdsman_testing::TestServer;
use serde_json::{Value, json};

use super::rest::{Answer, Ask, Rest, WAIT_MAX, admin};

struct Events(BufReader<TcpStream>);

impl Events {
    fn open(rest: &Rest, query: &str) -> Self {
        let ask = Ask::get(&format!("/api/v1/watch?{query}"));
        Events(BufReader::new(ask.open(rest.admin.address())))
    }

    /// Returns the name and the data of the next event; `None` at the end of the stream.
    fn next(&mut self) -> Option<(String, Value)> {
        let mut name = None;
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            if let Some(event) = line.trim().strip_prefix("event: ") {
                name = Some(event.to_owned());
            } else if let Some(data) = line.trim().strip_prefix("data: ") {
                return Some((name.unwrap(), serde_json::from_str(data).unwrap()));
            }
        }
    }

    fn change(&mut self) -> (String, String) {
        let (name, data) = self.next().expect("the stream continues");
        assert_eq!(name, "change");
        let text = |field: &str| data[field].as_str().unwrap().to_owned();
        (text("type"), text("path"))
    }
}

fn pair(kind: &str, path: &str) -> (String, String) {
    (kind.to_owned(), path.to_owned())
}

#[test]
fn changes_arrive_in_order() {
    let rest = Rest::start();
    rest.create("/a", "");
    let mut one = Events::open(&rest, "path=/a");
    let mut all = Events::open(&rest, "path=/a&recursive=true");
    assert_eq!(one.next(), Some(("ready".to_owned(), json!({}))));
    assert_eq!(all.next(), Some(("ready".to_owned(), json!({}))));
    rest.create("/a/b", "");
    let body = json!({ "data": "x" });
    rest.ask(&Ask::json("PUT", "/api/v1/node?path=/a/b", &body)).ok();
    rest.ask(&Ask::json("PUT", "/api/v1/node?path=/a", &body)).ok();
    rest.ask(&Ask::delete("/api/v1/node?path=/a&recursive=true")).ok();
    let expected = [
        pair("created", "/a/b"),
        pair("changed", "/a/b"),
        pair("changed", "/a"),
        pair("deleted", "/a/b"),
        pair("deleted", "/a"),
    ];
    for event in expected {
        assert_eq!(all.change(), event);
    }
    for (kind, path) in
        [("children", "/a"), ("changed", "/a"), ("children", "/a"), ("deleted", "/a")]
    {
        assert_eq!(one.change(), pair(kind, path));
    }
}

#[test]
fn the_watch_is_removed_when_its_reader_disconnects() {
    let rest = Rest::start();
    rest.create("/a", "");
    let mut events = Events::open(&rest, "path=/a&recursive=true");
    events.next().unwrap();
    assert_eq!(rest.server.watch_count(), 1);
    drop(events);
    // The server notices at the latest when it has something to send.
    let deadline = std::time::Instant::now() + WAIT_MAX;
    while rest.server.watch_count() > 0 {
        rest.ask(&Ask::json("PUT", "/api/v1/node?path=/a", &json!({ "data": "x" }))).ok();
        assert!(std::time::Instant::now() < deadline, "the watch was not removed");
    }
}

#[test]
fn the_stream_ends_with_the_server() {
    let mut server = TestServer::start();
    let admin = admin(server.handle(), Writers::Anybody);
    let ask = Ask::get("/api/v1/watch?path=/");
    let mut events = Events(BufReader::new(ask.open(admin.address())));
    events.next().unwrap();
    server.stop();
    assert_eq!(events.next(), None);
    let answer = Ask::get("/api/v1/node?path=/").of(admin.address());
    assert_eq!(answer.refusal(), (503, "NotServing".to_owned()));
    drop(admin);
}

#[test]
fn the_stream_ends_with_the_admin_server() {
    let Rest { server, admin } = Rest::start();
    let ask = Ask::get("/api/v1/watch?path=/");
    let mut events = Events(BufReader::new(ask.open(admin.address())));
    events.next().unwrap();
    drop(admin);
    assert_eq!(events.next(), None);
    drop(server);
}

#[test]
fn a_lost_session_is_a_gap() {
    let rest = Rest::start();
    let mut events = Events::open(&rest, "path=/");
    events.next().unwrap();
    let session = rest.server.handle().core().tree().sessions().next().unwrap().0;
    rest.server.expire_session(session);
    assert_eq!(events.next(), Some(("gap".to_owned(), json!({}))));
    rest.create("/after", "");
    assert_eq!(events.change(), pair("children", "/"));
}

#[test]
fn streams_of_one_address_are_limited() {
    let rest = Rest::start();
    let mut open: Vec<_> = (0..32).map(|_| Events::open(&rest, "path=/")).collect();
    for events in &mut open {
        events.next().unwrap();
    }
    let refused = rest.get("/api/v1/watch?path=/");
    assert_eq!(refused.refusal(), (429, "TooMany".to_owned()));
    assert_eq!(rest.server.session_count(), 1);
    let wrong: Answer = rest.get("/api/v1/watch?path=x");
    assert_eq!(wrong.status, 400);
}
