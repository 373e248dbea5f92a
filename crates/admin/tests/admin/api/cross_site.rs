//! Requests that a page of another site could make a browser send. The complete table is in `guard.rs`;
//! these tests show that the guard applies to every route.

use super::rest::{Ask, ROOT_USER, Rest};

fn post(path: &str) -> Ask {
    Ask::new("POST", path)
}

#[test]
fn pages_of_other_sites_are_rejected() {
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

/// Commands that change something although they use GET, and commands that only read.
const CHANGING: [&str; 9] = [
    "connection_stat_reset",
    "crst",
    "observer_connection_stat_reset",
    "orst",
    "stat_reset",
    "srst",
    "set_trace_mask?traceMask=7",
    "stmk?traceMask=7",
    "snapshot?streaming=false",
];

/// What browsers send with a request caused by a page of another site. To addresses without TLS other than
/// localhost they send no `Sec-Fetch-Site`.
const CROSS_SITE_HEADERS: [&[(&str, &str)]; 8] = [
    &[("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")],
    &[("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Mode", "navigate")],
    &[("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "no-cors"), ("Sec-Fetch-Dest", "image")],
    &[("User-Agent", "Mozilla/5.0"), ("Accept-Language", "en")],
    &[("User-Agent", "Mozilla/5.0")],
    &[("Accept-Language", "en"), ("Referer", "http://evil.example/")],
    &[("Origin", "null")],
    &[("Host", "rebound.example"), ("User-Agent", "Mozilla/5.0")],
];

fn with_all(ask: Ask, headers: &[(&str, &str)]) -> Ask {
    headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value))
}

/// `Sec-Fetch-Site: none` also stands for a link in a mail or chat program, and for preloaded pages.
#[test]
fn a_link_in_another_program_changes_nothing() {
    let rest = Rest::start();
    let browser = ("User-Agent", "Mozilla/5.0");
    let own = ("Sec-Fetch-Site", "same-origin");
    let unclear: [&[(&str, &str)]; 3] = [
        &[browser, ("Sec-Fetch-Site", "none")],
        &[browser, own, ("Sec-Purpose", "prefetch;prerender")],
        &[browser, own, ("Purpose", "prefetch")],
    ];
    for command in CHANGING {
        for headers in unclear {
            let ask = with_all(Ask::get(&format!("/commands/{command}")), headers);
            assert_eq!(rest.ask(&ask).status, 403, "{command} {headers:?}");
        }
    }
}

#[test]
fn links_of_other_sites_change_nothing() {
    let rest = Rest::start();
    let mask = || rest.get("/commands/gtmk").ok()["tracemask"].clone();
    let before = mask();
    for command in CHANGING {
        for headers in CROSS_SITE_HEADERS {
            for method in ["GET", "HEAD"] {
                let target = format!("/commands/{command}");
                let ask = with_all(Ask::new(method, &target), headers).user(ROOT_USER);
                let answer = rest.ask(&ask);
                assert_eq!(answer.status, 403, "{ask:?}");
            }
        }
    }
    assert_eq!(mask(), before);
    let explained = Ask::get("/commands/srst").header("User-Agent", "Mozilla/5.0");
    let error = rest.ask(&explained).json()["error"].as_str().unwrap().to_owned();
    assert!(error.contains("X-Herdsman: 1"), "{error}");
}

#[test]
fn tools_and_users_may_use_every_command() {
    let rest = Rest::start();
    let meant: [&[(&str, &str)]; 4] = [
        &[],
        &[("User-Agent", "curl/8.5.0"), ("Accept", "*/*")],
        &[("User-Agent", "Mozilla/5.0"), ("Sec-Fetch-Site", "same-origin")],
        &[("User-Agent", "Mozilla/5.0"), ("X-Herdsman", "1")],
    ];
    for command in CHANGING.into_iter().filter(|command| !command.starts_with("snapshot")) {
        for headers in meant {
            let ask = with_all(Ask::get(&format!("/commands/{command}")), headers);
            rest.ask(&ask).ok();
        }
    }
}

#[test]
fn links_of_other_sites_reach_only_the_console() {
    let rest = Rest::start();
    let follow = |target: &str| {
        let ask = Ask::get(target).header("Sec-Fetch-Site", "cross-site");
        rest.ask(&ask.header("Sec-Fetch-Mode", "navigate")).status
    };
    assert_eq!(follow("/"), 200);
    for target in [
        "/commands",
        "/commands/ruok",
        "/metrics",
        "/livez",
        "/api/v1/export?path=/",
        "/api/v1/watch?path=/",
        "/api/v1/log-level",
    ] {
        assert_eq!(follow(target), 403, "{target}");
    }
    let socket = Ask::get("/api/v1/watch?path=/")
        .header("Upgrade", "websocket")
        .header("Origin", "http://evil.example");
    assert_eq!(rest.ask(&socket).status, 403);
}
