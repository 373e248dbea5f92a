//! The view of an ensemble from one of its members.

use herdsman_admin::settings::Writers;
use herdsman_testing::TestEnsemble;
use serde_json::{Value, json};

use super::{each, until};
use crate::api::rest::{Ask, Rest, admin};

#[test]
fn a_standalone_server_is_an_ensemble_of_one() {
    let rest = Rest::start();
    let view = rest.get("/api/v1/ensemble").ok();
    assert_eq!((&view["mode"], &view["leader_id"]), (&json!("standalone"), &Value::Null));
    let members = view["members"].as_array().unwrap();
    assert_eq!(members.len(), 1);
    assert_eq!((&members[0]["me"], &members[0]["role"]), (&json!(true), &json!("standalone")));
    assert_eq!(view["elections"], json!([]));
}

#[tokio::test]
async fn all_members_are_shown_and_a_stopped_one_with_its_problem() {
    let mut ensemble = TestEnsemble::start_with_client_ports();
    let leader = ensemble.await_leader();
    let follower = ensemble.follower();
    let admin = admin(ensemble.handle(follower), Writers::Nobody);
    let view = Ask::get("/api/v1/ensemble").of(admin.address()).ok();
    assert_eq!((&view["mode"], &view["leader_id"]), (&json!("ensemble"), &json!(leader)));
    assert_eq!(each(&view["members"], "id"), [1, 2, 3]);
    assert_eq!(each(&view["members"], "reachable"), [true, true, true], "{view}");
    assert_eq!(each(&view["members"], "problem"), [&Value::Null; 3]);
    for id in 1..=3 {
        let member = &view["members"][id - 1];
        let role = if id == leader { "leader" } else { "follower" };
        assert_eq!((&member["role"], &member["me"]), (&json!(role), &json!(id == follower)));
        assert_eq!(member["client_address"], ensemble.address(id).to_string());
        assert_eq!(member["configured_role"], "participant");
        assert!(member["lag"].is_u64() && member["version"].is_string(), "{member}");
        assert_eq!(member["znodes"], 5);
    }
    let last = view["elections"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["event"], &last["leader_id"]), (&json!("following"), &json!(leader)));
    assert_eq!(last["epoch"], view["epoch"]);
    assert!(last["took_ms"].is_u64() && last["at_ms"].as_i64().unwrap() > 0);

    let third = ensemble.ids().find(|id| ![leader, follower].contains(id)).unwrap();
    ensemble.stop(third);
    // Responses are cached for a second.
    let stopped = until("stopped member", || {
        let view = Ask::get("/api/v1/ensemble").of(admin.address()).ok();
        let member = view["members"][third - 1].clone();
        (member["reachable"] == false).then_some(member)
    });
    let stopped = stopped.await;
    assert!(stopped["problem"].as_str().unwrap().contains("cannot be reached"), "{stopped}");
    assert_eq!(
        (&stopped["role"], &stopped["zxid"], &stopped["lag"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn a_member_without_a_leader_shows_that_and_its_last_election() {
    let mut ensemble = TestEnsemble::start_with_client_ports();
    let leader = ensemble.await_leader();
    let follower = ensemble.follower();
    let admin = admin(ensemble.handle(follower), Writers::Nobody);
    for id in ensemble.ids().filter(|id| *id != follower) {
        ensemble.stop(id);
    }
    let view = until("member without a leader", || {
        let view = Ask::get("/api/v1/ensemble").of(admin.address()).ok();
        (view["members"][follower - 1]["role"] == "looking").then_some(view)
    });
    let view = view.await;
    assert_eq!((&view["leader_id"], &view["mode"]), (&Value::Null, &json!("ensemble")));
    assert!(view["members"][follower - 1]["problem"].is_string());
    let events = each(&view["elections"], "event");
    assert_eq!(events.last().unwrap().as_str(), Some("looking"));
    assert!(events.len() >= 2, "{events:?}");
    let server = Ask::get("/api/v1/server").of(admin.address()).ok();
    assert_eq!((&server["role"], &server["serving"]), (&json!("looking"), &json!(false)));
    assert_ne!(leader, follower);
}

#[test]
fn an_unknown_client_port_is_reported() {
    let ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let admin = admin(ensemble.handle(leader), Writers::Nobody);
    let view = Ask::get("/api/v1/ensemble").of(admin.address()).ok();
    let reachable = each(&view["members"], "reachable");
    assert_eq!(reachable.iter().filter(|one| **one == true).count(), 1);
    let other = &view["members"][leader % 3];
    assert!(other["problem"].as_str().unwrap().contains("semicolon"), "{other}");
}
