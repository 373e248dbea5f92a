//! REST on members of an ensemble.

use herdsman_admin::settings::Writers;
use herdsman_node::ServesAs;
use herdsman_testing::TestEnsemble;
use serde_json::json;

use super::rest::{Ask, admin};

#[test]
fn every_member_serves_and_one_without_a_quorum_does_not() {
    let mut ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let follower = ensemble.follower();
    let port = admin(ensemble.handle(follower), Writers::Anybody);
    let created = Ask::json("POST", "/api/v1/node?path=/a", &json!({ "data": "x" }));
    assert_eq!(created.of(port.address()).status, 201);
    // A member sees its own writes immediately.
    assert_eq!(Ask::get("/api/v1/node?path=/a").of(port.address()).ok()["data"], "x");
    let other = admin(ensemble.handle(leader), Writers::Anybody);
    // Other members see them a moment later.
    let shown = ensemble.await_that("the leader shows it", || {
        let answer = Ask::get("/api/v1/node?path=/a").of(other.address());
        (answer.status == 200).then_some(answer)
    });
    assert_eq!(shown.ok()["data"], "x");
    drop(other);
    let others: Vec<_> = ensemble.ids().filter(|&id| id != follower).collect();
    for id in others {
        ensemble.kill(id);
    }
    let not_serving = (503, "NotServing".to_owned());
    ensemble.await_that("a member that does not serve", || {
        let answer = Ask::get("/api/v1/node?path=/a").of(port.address());
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
        assert_eq!(ask.of(port.address()).refusal(), not_serving, "{ask:?}");
    }
    assert_eq!(Ask::get("/api/v1/whoami").of(port.address()).status, 200);
}

#[test]
fn a_read_only_member_shows_everything_and_rejects_writes() {
    let mut ensemble = TestEnsemble::start_with("", |_, config| config.read_only_mode = true);
    ensemble.await_leader();
    let left = ensemble.follower();
    let port = admin(ensemble.handle(left), Writers::Anybody);
    let node = "/api/v1/node?path=/a";
    let set = Ask::json("PUT", node, &json!({ "data": "y" }));
    let create = |path: &str| Ask::json("POST", path, &json!({ "data": "x" }));
    assert_eq!(create(node).of(port.address()).status, 201);
    let others: Vec<_> = ensemble.ids().filter(|&id| id != left).collect();
    for id in others {
        ensemble.kill(id);
    }
    ensemble.await_role(left, ServesAs::ReadOnly);
    let acl = json!({ "acl": [{ "scheme": "world", "id": "anyone", "perms": "r" }] });
    let steps = json!({ "operations": [{ "op": "delete", "path": "/a" }] });
    for ask in [
        set,
        create("/api/v1/node?path=/b"),
        Ask::delete(node),
        Ask::json("PUT", "/api/v1/acl?path=/a", &acl),
        Ask::json("POST", "/api/v1/multi", &steps),
        Ask::delete("/api/v1/node?path=/a&recursive=true"),
    ] {
        let refused = ask.of(port.address()).refusal();
        assert_eq!(refused, (503, "ReadOnly".to_owned()), "{ask:?}");
    }
    let restore = Ask::new("POST", "/commands/restore").body("not a snapshot").of(port.address());
    assert!(restore.status >= 400, "{restore:?}");
    for path in [node, "/api/v1/children?path=/", "/api/v1/acl?path=/a"] {
        assert_eq!(Ask::get(path).of(port.address()).status, 200, "{path}");
    }
    assert_eq!(Ask::get(node).of(port.address()).ok()["data"], "x");
}
