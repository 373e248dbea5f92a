//! REST on members of an ensemble.

use herdsman_admin::settings::Writers;
use herdsman_server::TestEnsemble;
use serde_json::json;

use super::rest::{Ask, admin};

#[test]
fn every_member_answers_and_one_without_a_quorum_does_not() {
    let mut ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let follower = ensemble.follower();
    let door = admin(ensemble.handle(follower), Writers::Anybody);
    let created = Ask::json("POST", "/api/v1/node?path=/a", &json!({ "data": "x" }));
    assert_eq!(created.of(door.address()).status, 201);
    // A member sees its own writes at once.
    assert_eq!(Ask::get("/api/v1/node?path=/a").of(door.address()).ok()["data"], "x");
    let other = admin(ensemble.handle(leader), Writers::Anybody);
    assert_eq!(Ask::get("/api/v1/node?path=/a").of(other.address()).ok()["data"], "x");
    drop(other);
    let others: Vec<_> = ensemble.ids().filter(|&id| id != follower).collect();
    for id in others {
        ensemble.kill(id);
    }
    let not_serving = (503, "NotServing".to_owned());
    ensemble.await_that("a member that does not serve", || {
        let answer = Ask::get("/api/v1/node?path=/a").of(door.address());
        (answer.status == 503 && answer.refusal() == not_serving).then_some(())
    });
    for ask in [
        Ask::get("/api/v1/children?path=/"),
        Ask::get("/api/v1/search?q=x"),
        Ask::get("/api/v1/export?path=/"),
        Ask::get("/api/v1/watch?path=/"),
        created,
        Ask::delete("/api/v1/node?path=/a"),
    ] {
        assert_eq!(ask.of(door.address()).refusal(), not_serving, "{ask:?}");
    }
    assert_eq!(Ask::get("/api/v1/whoami").of(door.address()).status, 200);
}
