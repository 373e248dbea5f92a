//! Writes of single znodes, and transactions.

use std::num::NonZeroU32;

use herdsman_admin::settings::Writers;
use herdsman_client::Client;
use herdsman_testing::TestServer;
use serde_json::{Value, json};

use super::rest::{ALICE, Ask, Rest, admin};

fn node(path: &str) -> String {
    format!("/api/v1/node?path={path}")
}

#[tokio::test]
async fn znodes_of_every_persistent_kind_are_created() {
    let rest = Rest::start();
    let create = |path: &str, body: Value| rest.ask(&Ask::json("POST", &node(path), &body));
    let created = create("/p", json!({ "data": "x" }));
    assert_eq!(created.status, 201);
    assert_eq!(created.json()["path"], "/p");
    assert_eq!(created.json()["stat"]["data_length"], 1);
    assert_eq!(create("/p/b", json!({ "data_base64": "/wA=" })).status, 201);
    assert_eq!(create("/p/c", json!({ "type": "container" })).status, 201);
    assert_eq!(create("/p/t", json!({ "type": "ttl", "ttl_ms": 60_000 })).status, 201);
    assert_eq!(create("/deep/er/est", json!({ "parents": true })).status, 201);
    assert_eq!(create("/p/s-", json!({ "sequential": true })).json()["path"], "/p/s-0000000003");
    assert_eq!(create("/p/", json!({ "sequential": true })).json()["path"], "/p/0000000004");
    let acl = json!([{ "scheme": "digest", "id": "u:h", "perms": "cr" }]);
    assert_eq!(create("/p/acl", json!({ "acl": acl })).status, 201);
    let shown = rest.get("/api/v1/node?path=/p/t").ok();
    assert_eq!((&shown["type"], &shown["ttl_ms"]), (&json!("ttl"), &json!(60_000)));
    assert_eq!(rest.get("/api/v1/node?path=/p/c").ok()["type"], "container");
    let client = rest.client().await;
    assert_eq!(client.get("/p/b").await.unwrap().data, &[0xff, 0x00][..]);
    assert_eq!(rest.get("/api/v1/acl?path=/p/acl").refusal(), (403, "NoAuth".to_owned()));
}

#[test]
fn invalid_creations_are_rejected_with_a_reason() {
    let rest = Rest::start();
    rest.create("/there", "");
    let check = |path: &str, body: Value, status: u16, word: &str| {
        let answer = rest.ask(&Ask::json("POST", &node(path), &body));
        let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!(answer.status, status, "{body}: {message}");
        assert!(message.contains(word), "{body}: {message}");
    };
    check("/e", json!({ "type": "ephemeral" }), 400, "session");
    check("/t", json!({ "type": "ttl" }), 400, "ttl_ms");
    check("/t", json!({ "type": "ttl", "ttl_ms": 0 }), 400, "ttl_ms");
    check("/t", json!({ "ttl_ms": 1 }), 400, "ttl_ms");
    check("/c-", json!({ "type": "container", "sequential": true }), 400, "sequential");
    check("/b", json!({ "data": "x", "data_base64": "eA==" }), 400, "both");
    check("/b", json!({ "data_base64": "!" }), 400, "data_base64");
    check("/b", json!({ "acl": [] }), 400, "ACL");
    check("/b", json!({ "acl": [{ "scheme": "nope", "id": "x", "perms": "r" }] }), 400, "ACL");
    check("/b", json!({ "acl": [{ "scheme": "ip", "id": "::1", "perms": "x" }] }), 400, "cdrwa");
    check("/b", json!({ "color": "red" }), 400, "color");
    check("/b/", json!({}), 400, "path");
    check("b", json!({}), 400, "path");
    check("/there", json!({}), 409, "already");
    check("/none/x", json!({}), 404, "parents");
    check("/big", json!({ "data": "x".repeat(1 << 20) }), 413, "limit");
    assert_eq!(rest.get("/api/v1/children?path=/").ok()["total"], 2);
}

#[test]
fn data_is_set_with_and_without_a_version() {
    let rest = Rest::start();
    rest.create("/a", "0");
    let set = |query: &str, body: Value| {
        rest.ask(&Ask::json("PUT", &format!("/api/v1/node?path=/a{query}"), &body))
    };
    assert_eq!(set("", json!({ "data": "1" })).ok()["stat"]["version"], 1);
    assert_eq!(set("&version=1", json!({ "data": "2" })).ok()["stat"]["version"], 2);
    assert_eq!(set("&version=-1", json!({ "data_base64": "Mw==" })).ok()["stat"]["version"], 3);
    let stale = set("&version=1", json!({ "data": "lost" }));
    assert_eq!(stale.refusal(), (409, "BadVersion".to_owned()));
    assert_eq!(stale.json()["stat"]["version"], 3);
    let body = json!({ "data": "4" });
    let matching = Ask::json("PUT", &node("/a"), &body).header("If-Match", "\"3\"");
    assert_eq!(rest.ask(&matching).ok()["stat"]["version"], 4);
    assert_eq!(rest.ask(&matching).status, 409);
    assert_eq!(rest.get("/api/v1/node?path=/a").ok()["data"], "4");
    // None of these may empty the znode.
    for wrong in [json!({}), json!({ "data": null }), json!({ "dta": "x" }), json!("x")] {
        assert_eq!(set("", wrong.clone()).status, 400, "{wrong}");
    }
    assert_eq!(set("&verison=4", json!({ "data": "x" })).status, 400);
    assert_eq!(rest.get("/api/v1/node?path=/a").ok()["stat"]["version"], 4);
}

#[test]
fn znodes_are_deleted_with_and_without_a_version() {
    let rest = Rest::start();
    rest.create("/a", "");
    rest.create("/a/b", "");
    let delete = |target: &str| rest.ask(&Ask::delete(target));
    assert_eq!(delete(&node("/a")).refusal(), (409, "NotEmpty".to_owned()));
    let stale = delete("/api/v1/node?path=/a/b&version=7");
    assert_eq!(stale.refusal(), (409, "BadVersion".to_owned()));
    assert_eq!(stale.json()["stat"]["version"], 0);
    assert_eq!(delete("/api/v1/node?path=/a/b&version=0").ok(), json!({ "deleted": 1 }));
    assert_eq!(delete(&node("/a/b")).refusal(), (404, "NoNode".to_owned()));
    assert_eq!(delete(&node("/")).status, 400);
}

#[test]
fn acls_are_shown_and_replaced() {
    let rest = Rest::start();
    rest.create("/a", "");
    let acl = json!([
        { "scheme": "world", "id": "anyone", "perms": "r" },
        { "scheme": "auth", "id": "", "perms": "cdrwa" },
    ]);
    let put = |query: &str, acl: &Value| {
        let target = format!("/api/v1/acl?path=/a{query}");
        rest.ask(&Ask::json("PUT", &target, &json!({ "acl": acl })).user(ALICE))
    };
    assert_eq!(put("&version=5", &acl).refusal(), (409, "BadVersion".to_owned()));
    assert_eq!(put("&version=0", &acl).ok()["stat"]["aversion"], 1);
    let anonymous = rest.get("/api/v1/acl?path=/a").ok();
    assert_eq!(
        anonymous["acl"][1],
        json!({ "scheme": "digest", "id": "alice:x", "perms": "cdrwa" })
    );
    let alice = rest.ask(&Ask::get("/api/v1/acl?path=/a").user(ALICE)).ok();
    assert_ne!(alice["acl"][1]["id"], "alice:x");
    assert_eq!(alice["aversion"], 1);
    assert_eq!(put("", &json!([])).refusal(), (400, "InvalidAcl".to_owned()));
}

#[test]
fn a_transaction_is_all_or_nothing() {
    let rest = Rest::start();
    rest.create("/a", "");
    let multi = |operations: Value| {
        let body = json!({ "operations": operations });
        rest.ask(&Ask::json("POST", "/api/v1/multi", &body))
    };
    let done = multi(json!([
        { "op": "check", "path": "/a", "version": 0 },
        { "op": "create", "path": "/a/s-", "data": "x", "sequential": true },
        { "op": "set", "path": "/a", "data": "y", "version": 0 },
        { "op": "create", "path": "/gone" },
        { "op": "delete", "path": "/gone" },
    ]))
    .ok();
    assert_eq!(done["results"][1]["path"], "/a/s-0000000000");
    assert_eq!(done["results"][2]["stat"]["version"], 1);
    assert_eq!(done["results"][4], json!({ "op": "delete" }));
    let failed = multi(json!([
        { "op": "create", "path": "/b" },
        { "op": "set", "path": "/a", "data": "z", "version": 0 },
        { "op": "delete", "path": "/none" },
    ]));
    assert_eq!(failed.refusal(), (409, "BadVersion".to_owned()));
    assert_eq!((&failed.json()["failed_index"], &failed.json()["path"]), (&json!(1), &json!("/a")));
    assert_eq!(failed.json()["results"], json!([null, { "error": "BadVersion" }, null]));
    assert_eq!(rest.get("/api/v1/node?path=/b").status, 404);
    assert_eq!(multi(json!([{ "op": "delete", "path": "/none" }])).status, 409);
    for wrong in [
        json!([]),
        json!([{ "op": "burn", "path": "/a" }]),
        json!([{ "op": "delete" }]),
        json!([{ "op": "set", "path": "/a" }]),
        json!([{ "op": "delete", "path": "/a", "vresion": 1 }]),
        json!([{ "op": "create", "path": "/e", "type": "ephemeral" }]),
        json!([{ "op": "create", "path": "bad" }]),
        json!(vec![json!({ "op": "check", "path": "/a" }); 1001]),
    ] {
        assert_eq!(multi(wrong.clone()).status, 400, "{wrong}");
    }
}

#[test]
fn anonymous_writes_are_rejected_unless_allowed() {
    let body = json!({ "data": "x" });
    let write = || {
        vec![
            Ask::json("POST", &node("/x"), &body),
            Ask::json("PUT", &node("/"), &body),
            Ask::delete(&node("/zookeeper")),
            Ask::json("PUT", "/api/v1/acl?path=/", &json!({ "acl": [] })),
            Ask::json("POST", "/api/v1/multi", &json!({ "operations": [] })),
        ]
    };
    let rest = Rest::start_with(Writers::LoggedIn);
    for ask in write() {
        let answer = rest.ask(&ask);
        assert_eq!(answer.refusal(), (401, "LoginRequired".to_owned()), "{ask:?}");
        assert_eq!(answer.header("WWW-Authenticate"), None);
    }
    assert_eq!(rest.ask(&Ask::json("POST", &node("/x"), &body).user(ALICE)).status, 201);
    let rest = Rest::start_with(Writers::Nobody);
    for ask in write() {
        assert_eq!(rest.ask(&ask.user(ALICE)).refusal(), (403, "ReadOnly".to_owned()));
    }
    assert_eq!(rest.server.session_count(), 0);
}

#[test]
fn one_session_serves_all_requests_of_one_caller() {
    let rest = Rest::start();
    for n in 0..5 {
        rest.create(&format!("/n{n}"), "");
    }
    assert_eq!(rest.server.session_count(), 1);
    let body = json!({});
    assert_eq!(rest.ask(&Ask::json("POST", &node("/x"), &body).user(ALICE)).status, 201);
    assert_eq!(rest.server.session_count(), 2);
    let peer = rest.server.handle().core().clients.all()[0].peer;
    assert!(peer.ip().is_loopback());
}

#[tokio::test]
async fn a_session_that_the_client_port_rejects_is_an_error() {
    let server = TestServer::start_with(|config| {
        config.limits.connections_per_address_max = NonZeroU32::new(1);
    });
    let admin = admin(server.handle(), Writers::Anybody);
    let only = Client::connect(&server.connect_string()).await.unwrap();
    let refused = Ask::json("POST", &node("/x"), &json!({})).of(admin.address());
    assert_eq!(refused.refusal(), (503, "NotServing".to_owned()));
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("maxClientCnxns"), "{message}");
    // Reads need no session.
    assert_eq!(Ask::get(&node("/")).of(admin.address()).status, 200);
    assert!(only.exists("/x").await.unwrap().is_none());
}
