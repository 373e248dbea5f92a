//! Requests that a page of another site could make a browser send. The whole table is in
//! `guard.rs`; here it is shown that the guard stands before every room.

use super::rest::{Ask, Rest};

fn post(path: &str) -> Ask {
    Ask::new("POST", path)
}

#[test]
fn another_sites_page_gets_nowhere() {
    let rest = Rest::start();
    let local = rest.admin.address().to_string();
    let json = |ask: Ask| ask.header("Content-Type", "application/json").body("{}");
    let node = "/api/v1/node?path=/x";
    let rows = [
        (403, json(post(node)).header("Origin", "http://evil.example")),
        (403, json(post(node)).header("Origin", "null")),
        (403, json(post(node)).header("Sec-Fetch-Site", "cross-site")),
        (403, json(post(node)).header("Host", "rebound.example")),
        (403, post(node).body("{}")),
        (415, post(node).header("Content-Type", "text/plain").body("{}")),
        (415, post(node).header("Content-Type", "application/x-www-form-urlencoded").body("{}")),
        (415, post(node).header("Content-Type", "multipart/form-data; boundary=x").body("{}")),
        (415, post(node).header("Content-Type", "application/octet-stream").body("{}")),
        (403, Ask::new("DELETE", "/api/v1/node?path=/zookeeper")),
        (403, Ask::get("/api/v1/node?path=/").header("Host", "rebound.example")),
        (403, Ask::get("/api/v1/watch?path=/").header("Origin", "http://evil.example")),
        (403, Ask::get("/").header("Host", "rebound.example").header("User-Agent", "Mozilla/5.0")),
        (405, Ask::new("OPTIONS", node).header("Access-Control-Request-Method", "POST")),
        (201, json(post(node)).header("Origin", &format!("http://{local}"))),
        (201, post("/api/v1/node?path=/y").header("X-Herdsman", "1")),
        (201, json(post("/api/v1/node?path=/z")).header("Host", "localhost:8080")),
    ];
    for (expected, ask) in rows {
        let answer = rest.ask(&ask);
        assert_eq!(answer.status, expected, "{ask:?}: {}", String::from_utf8_lossy(&answer.body));
        assert_eq!(answer.header("Access-Control-Allow-Origin"), None);
    }
    let refused = rest.ask(&Ask::get("/api/v1/whoami").header("Host", "zk9"));
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("herdsman.admin.hostNames"), "{message}");
}
