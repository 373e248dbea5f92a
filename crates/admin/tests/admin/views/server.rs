//! The view of a server, and its guard.

use herdsman_testing::TestServer;

use crate::api::rest::{Ask, Rest, admin};
use herdsman_admin::settings::Writers;

#[tokio::test]
async fn a_server_shows_its_numbers() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.create("/a", "12345").await.unwrap();
    client.create("/e", "").ephemeral().await.unwrap();
    let (_, _watch) = client.get("/a").watch().await.unwrap();
    let view = rest.get("/api/v1/server").ok();
    assert_eq!((&view["role"], &view["storage"]), (&"standalone".into(), &"ok".into()));
    assert_eq!((&view["serving"], &view["server_id"]), (&true.into(), &().into()));
    // The root, three of the service's own, and two more.
    assert_eq!((&view["znodes"], &view["ephemerals"]), (&6.into(), &1.into()));
    assert_eq!((&view["sessions"], &view["watches"]), (&1.into(), &1.into()));
    assert_eq!(view["connections"], 1);
    assert_eq!(view["client_address"], rest.server.connect_string());
    assert_eq!(view["epoch"], serde_json::Value::Null);
    let zxid = view["zxid"].as_str().unwrap();
    assert!(zxid.starts_with("0x") && zxid != "0x0", "{zxid}");
    assert!(view["data_dir_bytes"].as_u64().unwrap() > 0);
    assert!(view["version"].as_str().unwrap().contains("herdsman"));
}

#[test]
fn a_stopped_server_is_shown_as_it_was() {
    let server = TestServer::start();
    let admin = admin(server.handle(), Writers::Nobody);
    drop(server);
    let view = Ask::get("/api/v1/server").of(admin.address()).ok();
    assert_eq!(view["serving"], false);
}

#[test]
fn views_accept_only_get() {
    let rest = Rest::start();
    let answer = rest.ask(&Ask::delete("/api/v1/sessions/0x1"));
    assert_eq!(answer.status, 405);
}
