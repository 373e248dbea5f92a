//! Reads of one znode, and the caller's ids.

use herdsman_admin::settings::Writers;
use serde_json::json;

use super::rest::{ALICE, Ask, ROOT_USER, Rest};

#[test]
fn whoami_shows_the_callers_ids() {
    let rest = Rest::start_with(Writers::LoggedIn);
    let anonymous = rest.get("/api/v1/whoami").ok();
    assert_eq!(anonymous["ids"], json!([{ "scheme": "ip", "id": "127.0.0.1" }]));
    assert_eq!(
        (&anonymous["logged_in"], &anonymous["can_write"], &anonymous["user"]),
        (&json!(false), &json!(false), &json!(null))
    );
    let alice = rest.ask(&Ask::get("/api/v1/whoami").user(ALICE)).ok();
    assert_eq!(alice["ids"][1], json!({ "scheme": "digest", "id": "alice" }));
    assert_eq!((&alice["can_write"], &alice["user"]), (&json!(true), &json!("alice")));
    let apache = Ask::get("/api/v1/whoami").header("Authorization", &format!("digest {ROOT_USER}"));
    let root = rest.ask(&apache).ok();
    assert_eq!(root["ids"][1]["scheme"], "super");
    let wrong = Ask::get("/api/v1/whoami").header("Authorization", "Bearer x");
    assert_eq!(rest.ask(&wrong).refusal(), (400, "BadRequest".to_owned()));
}

#[tokio::test]
async fn a_znode_is_shown_as_a_client_sees_it() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.create("/a", "grüß").await.unwrap();
    client.create("/a/b", "").ephemeral().await.unwrap();
    let (node, shown) = (client.get("/a").await.unwrap(), rest.get("/api/v1/node?path=/a").ok());
    assert_eq!(shown["data"], "grüß");
    assert_eq!(shown["encoding"], "utf-8");
    assert_eq!((&shown["path"], &shown["type"]), (&json!("/a"), &json!("persistent")));
    assert_eq!(shown["acl"], json!([{ "scheme": "world", "id": "anyone", "perms": "cdrwa" }]));
    assert_eq!(shown["acl_version"], 0);
    let stat = json!({
        "czxid": format!("{:#x}", node.stat.czxid.0),
        "mzxid": format!("{:#x}", node.stat.mzxid.0),
        "pzxid": format!("{:#x}", node.stat.pzxid.0),
        "ctime_ms": node.stat.ctime,
        "mtime_ms": node.stat.mtime,
        "version": 0,
        "cversion": node.stat.cversion,
        "aversion": 0,
        "ephemeral_owner": null,
        "data_length": 6,
        "num_children": 1,
    });
    assert_eq!(shown["stat"], stat);
    let ephemeral = rest.get("/api/v1/node?path=/a/b").ok();
    assert_eq!(ephemeral["type"], "ephemeral");
    let owner = format!("{:#x}", client.session().id().0);
    assert_eq!(ephemeral["stat"]["ephemeral_owner"], owner);
    client.close().await.unwrap();
}

#[tokio::test]
async fn data_that_is_not_text_is_base64() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.create("/bin", &[0xff, 0x00, 0x7f][..]).await.unwrap();
    let shown = rest.get("/api/v1/node?path=/bin").ok();
    assert_eq!((&shown["data"], &shown["data_base64"]), (&json!(null), &json!("/wB/")));
    assert_eq!(shown["encoding"], "base64");
    let without = rest.get("/api/v1/node?path=/bin&data=false").ok();
    assert!(without["data_base64"].is_null());
    assert_eq!(without["stat"]["data_length"], 3);
}

#[test]
fn missing_znodes_and_invalid_requests_are_errors() {
    let rest = Rest::start();
    let refusal = |target: &str| rest.get(target).refusal();
    let absent = rest.get("/api/v1/node?path=/none");
    assert_eq!(absent.refusal(), (404, "NoNode".to_owned()));
    assert_eq!(absent.json()["path"], "/none");
    assert_eq!(refusal("/api/v1/acl?path=/none").0, 404);
    assert_eq!(refusal("/api/v1/children?path=/none").0, 404);
    assert_eq!(refusal("/api/v1/search?q=x&path=/none").0, 404);
    assert_eq!(refusal("/api/v1/export?path=/none").0, 404);
    for wrong in ["", "?path=", "?path=a", "?path=/a/", "?path=/a%00", "?path=/a&x=1", "?path=%FF"]
    {
        assert_eq!(
            refusal(&format!("/api/v1/node{wrong}")),
            (400, "BadRequest".to_owned()),
            "{wrong}"
        );
    }
    assert_eq!(refusal("/api/v1/nothing"), (404, "NoSuchRoute".to_owned()));
    let wrong_method = Ask::json("PATCH", "/api/v1/node?path=/a", &json!({}));
    assert_eq!(rest.ask(&wrong_method).refusal(), (405, "WrongMethod".to_owned()));
}

#[test]
fn every_response_has_the_security_headers() {
    let rest = Rest::start();
    for target in ["/api/v1/whoami", "/api/v1/node?path=/none", "/nowhere"] {
        let answer = rest.get(target);
        let header = |name| answer.header(name).unwrap_or_else(|| panic!("{target} lacks {name}"));
        assert!(header("Content-Security-Policy").contains("default-src 'self'"));
        assert_eq!(header("X-Content-Type-Options"), "nosniff");
        assert_eq!(header("Referrer-Policy"), "no-referrer");
        assert_eq!(header("X-Frame-Options"), "DENY");
        assert_eq!(answer.header("WWW-Authenticate"), None);
        assert_eq!(answer.header("Access-Control-Allow-Origin"), None);
    }
    assert_eq!(rest.get("/api/v1/whoami").header("Cache-Control"), Some("no-store"));
}
