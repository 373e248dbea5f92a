//! Sessions with their ephemerals and watches.

use serde_json::{Value, json};

use super::{alice_only, each, session_of};
use crate::api::rest::{ALICE, Ask, ROOT_USER, Rest};

/// A user who has logged in; the root is open to everyone.
const BOB: &str = "bob:the-builder";

#[tokio::test]
async fn a_session_shows_what_it_owns_and_watches() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.create("/b", "").await.unwrap();
    client.create("/b/e2", "").ephemeral().await.unwrap();
    client.create("/b/e1", "").ephemeral().await.unwrap();
    let _data = client.get("/b").watch().await.unwrap();
    let _child = client.children("/b").watch().await.unwrap();
    let _exist = client.exists("/coming").watch().await.unwrap();
    let _persistent = client.watch("/p").await.unwrap();
    let _recursive = client.watch("/r").recursive().await.unwrap();
    let id = session_of(&client);
    let view = rest.ask(&Ask::get(&format!("/api/v1/sessions/{id}")).user(BOB)).ok();
    assert_eq!((&view["id"], &view["local"]), (&json!(id), &json!(false)));
    assert_eq!(view["timeout_ms"], client.session().timeout().as_millis() as u64);
    assert_eq!(view["ephemeral_paths"], json!(["/b/e1", "/b/e2"]));
    let watches = json!([
        { "path": "/b", "kind": "data" },
        { "path": "/b", "kind": "child" },
        { "path": "/coming", "kind": "exist" },
        { "path": "/p", "kind": "persistent" },
        { "path": "/r", "kind": "recursive" },
    ]);
    assert_eq!(view["watch_paths"], watches);
    assert_eq!((&view["hidden"], &view["truncated"]), (&json!(0), &json!(false)));
    let connection = &view["connection"];
    assert!(connection["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{connection}");
    assert!(connection["received"].as_u64().unwrap() >= 9);
    assert!(view["expires_ms"].as_i64().unwrap() > connection["established_ms"].as_i64().unwrap());
    let list = rest.get("/api/v1/sessions").ok();
    assert_eq!((&list["total"], &list["next"]), (&json!(1), &Value::Null));
    let summary = &list["sessions"][0];
    // The persistent watch counts once for data and once for children.
    assert_eq!((&summary["ephemerals"], &summary["watches"]), (&json!(2), &json!(6)));
}

#[tokio::test]
async fn unreadable_paths_are_only_counted() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.authenticate("digest", ALICE).await.unwrap();
    client.create("/secret", "").acl(alice_only()).await.unwrap();
    client.create("/secret/e", "").ephemeral().acl(alice_only()).await.unwrap();
    client.create("/open", "").ephemeral().await.unwrap();
    let _data = client.get("/secret").watch().await.unwrap();
    let _exist = client.exists("/secret/coming").watch().await.unwrap();
    let target = format!("/api/v1/sessions/{}", session_of(&client));
    let view = rest.ask(&Ask::get(&target).user(BOB)).ok();
    assert_eq!((&view["ephemeral_paths"], &view["watch_paths"]), (&json!(["/open"]), &json!([])));
    assert_eq!((&view["hidden"], &view["ephemerals"]), (&json!(3), &json!(2)));
    let view = rest.ask(&Ask::get(&target).user(ALICE)).ok();
    assert_eq!(view["ephemeral_paths"], json!(["/open", "/secret/e"]));
    assert_eq!(each(&view["watch_paths"], "kind"), ["data", "exist"]);
    assert_eq!(view["hidden"], 0);
}

#[tokio::test]
async fn sessions_are_listed_in_pages() {
    let rest = Rest::start();
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(rest.client().await);
    }
    let mut expected: Vec<_> = clients.iter().map(session_of).collect();
    expected.sort();
    let (mut seen, mut target) = (Vec::new(), "/api/v1/sessions?limit=2".to_owned());
    loop {
        let page = rest.ask(&Ask::get(&target).user(BOB)).ok();
        assert_eq!(page["total"], 5);
        let ids = each(&page["sessions"], "id");
        assert!((1..=2).contains(&ids.len()));
        seen.extend(ids.iter().map(|id| id.as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        target = format!("/api/v1/sessions?limit=2&after={next}");
    }
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_session_without_a_connection_is_still_there() {
    let mut rest = Rest::start();
    let client = rest.client().await;
    client.create("/e", "").ephemeral().await.unwrap();
    let id = session_of(&client);
    // The client does not run in between, so it does not reconnect before the requests are answered.
    rest.server.restart();
    let admin =
        crate::api::rest::admin(rest.server.handle(), herdsman_admin::settings::Writers::Nobody);
    let view = Ask::get(&format!("/api/v1/sessions/{id}")).user(BOB).of(admin.address()).ok();
    assert_eq!((&view["connection"], &view["watches"]), (&Value::Null, &json!(0)));
    assert_eq!(view["ephemeral_paths"], json!(["/e"]));
    assert!(view["expires_ms"].is_i64());
}

#[test]
fn invalid_session_ids_are_rejected() {
    let rest = Rest::start();
    let refusal = |target: &str| rest.ask(&Ask::get(target).user(BOB)).refusal();
    assert_eq!(refusal("/api/v1/sessions/0x7"), (404, "NoSession".to_owned()));
    assert_eq!(refusal("/api/v1/sessions/7"), (400, "BadRequest".to_owned()));
    assert_eq!(refusal("/api/v1/sessions?after=x"), (400, "BadRequest".to_owned()));
}

/// Pages and single sessions work with masked ids as with real ones.
#[tokio::test]
async fn ids_are_masked_without_full_permissions() {
    let rest = Rest::start();
    let mut clients = Vec::new();
    for i in 0..3 {
        let client = rest.client().await;
        client.create(&format!("/e{i}"), "").ephemeral().await.unwrap();
        clients.push(client);
    }
    let (mut masked, mut target) = (Vec::new(), "/api/v1/sessions?limit=2".to_owned());
    loop {
        let page = rest.get(&target).ok();
        let ids = each(&page["sessions"], "id");
        masked.extend(ids.iter().map(|id| id.as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        target = format!("/api/v1/sessions?limit=2&after={next}");
    }
    assert_eq!(masked.len(), 3);
    let mut owned = Vec::new();
    for id in &masked {
        assert!(id.starts_with("masked-"), "{id}");
        let view = rest.get(&format!("/api/v1/sessions/{id}")).ok();
        assert_eq!(view["id"], **id);
        owned.push(view["ephemeral_paths"][0].as_str().unwrap().to_owned());
    }
    owned.sort();
    assert_eq!(owned, ["/e0", "/e1", "/e2"]);
    // Pages after an unmasked id would reveal which ids exist.
    for id in [session_of(&clients[0]), "0x7".to_owned()] {
        let refusal = rest.get(&format!("/api/v1/sessions?after={id}")).refusal();
        assert_eq!(refusal, (403, "NoAuth".to_owned()));
    }
    // Callers who may read a znode know its owner.
    let view = rest.get(&format!("/api/v1/sessions/{}", session_of(&clients[0]))).ok();
    assert_eq!(view["ephemeral_paths"], json!(["/e0"]));
    assert!(view["id"].as_str().unwrap().starts_with("masked-"));
    let refusal = rest.get("/api/v1/sessions/masked-0000000000007").refusal();
    assert_eq!(refusal, (404, "NoSession".to_owned()));
    let root = Ask::get("/api/v1/sessions").user(ROOT_USER);
    clients[0].set_acl("/", alice_only()).await.unwrap();
    assert!(
        each(&rest.ask(&root).ok()["sessions"], "id").contains(&&json!(session_of(&clients[0])))
    );
    let bob = rest.ask(&Ask::get("/api/v1/sessions").user(BOB)).ok();
    assert_eq!(each(&bob["sessions"], "id"), masked.iter().collect::<Vec<_>>());
}
