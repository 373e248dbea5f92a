//! The log level view: who may change it, and to what.

use std::sync::Arc;

use herdsman_client::{Acl, Perms};
use herdsman_server::operators::log_level::{BadLogLevel, LogLevel};
use parking_lot::Mutex;
use serde_json::json;

use super::alice_only;
use crate::api::rest::{ALICE, Ask, Rest};

const TARGET: &str = "/api/v1/log-level";

/// A server whose log level is only stored.
fn start() -> Rest {
    let rest = Rest::start();
    let level = Arc::new(Mutex::new("info".to_owned()));
    let get = {
        let level = Arc::clone(&level);
        move || level.lock().clone()
    };
    let set = move |wanted: &str| match wanted {
        "info" | "debug" => {
            *level.lock() = wanted.to_owned();
            Ok(())
        }
        other => Err(BadLogLevel(format!("{other:?} is not a level; use info or debug"))),
    };
    rest.server.use_log_level(LogLevel::new(get, set));
    rest
}

fn put(level: &str) -> Ask {
    Ask::json("PUT", TARGET, &json!({ "level": level }))
}

#[test]
fn all_permissions_on_the_root_are_needed_to_change_the_level() {
    let rest = start();
    assert_eq!(rest.get(TARGET).ok(), json!({ "level": "info" }));
    assert_eq!(rest.ask(&put("debug")).refusal(), (401, "LoginRequired".to_owned()));
    assert_eq!(rest.ask(&put("debug").user(ALICE)).ok(), json!({ "level": "debug" }));
    let wrong = rest.ask(&put("loud").user(ALICE));
    assert_eq!(wrong.refusal(), (400, "BadRequest".to_owned()));
    assert!(wrong.json()["message"].as_str().unwrap().contains("not a level"));
    let unknown = Ask::json("PUT", TARGET, &json!({ "leve": "info" })).user(ALICE);
    assert_eq!(rest.ask(&unknown).status, 400);
    assert_eq!(rest.ask(&put(&"x".repeat(5000)).user(ALICE)).status, 400);
    assert_eq!(rest.get(TARGET).ok(), json!({ "level": "debug" }));
}

#[tokio::test]
async fn one_permission_is_not_enough() {
    let rest = start();
    let client = rest.client().await;
    let acl = [vec![Acl::world(Perms::READ)], alice_only()].concat();
    client.set_acl("/", acl).await.unwrap();
    assert_eq!(rest.ask(&put("debug").user("bob:x")).refusal(), (403, "NoAuth".to_owned()));
    assert_eq!(rest.get(TARGET).ok(), json!({ "level": "info" }));
    assert_eq!(rest.ask(&put("debug").user(ALICE)).status, 200);
}

#[test]
fn a_fixed_level_is_an_error() {
    let rest = Rest::start();
    assert_eq!(rest.get(TARGET).ok(), json!({ "level": "unknown" }));
    let refused = rest.ask(&put("debug").user(ALICE));
    assert_eq!(refused.refusal(), (400, "BadRequest".to_owned()));
    assert!(refused.json()["message"].as_str().unwrap().contains("cannot be changed"));
}
