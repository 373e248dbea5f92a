//! What commands report.

use super::{SUPER, get, get_as, open, settings, with_client, with_super};
use herdsman_admin::{Admin, AdminSettings};
use herdsman_client::{Acl, Id, Lifetime, Perms};
use herdsman_testing::{TestEnsemble, TestServer};
use serde_json::{Value, json};

const ALL: &str = "configuration connection_stat_reset connections dirs dump environment get_trace_mask hash \
                   initial_configuration is_read_only last_snapshot leader monitor \
                   observer_connection_stat_reset observers ruok server_stats set_trace_mask stat_reset stats \
                   system_properties voting_view watch_summary watches watches_by_path zabstate";

#[test]
fn every_response_has_the_command_and_the_error() {
    let server = TestServer::start();
    let admin = open(server.handle());
    for name in ALL.split_whitespace() {
        let answer = get(&admin, &format!("/commands/{name}"));
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some("application/json")),
            "{name}"
        );
        let json = answer.json();
        assert_eq!(json["command"], name);
        let error = json.get("error").expect("always there");
        assert!(error.is_null() || ["leader", "set_trace_mask"].contains(&name), "{name}: {error}");
    }
    let links = get(&admin, "/commands");
    assert!(links.text().contains("<a href=\"/commands/server_stats\">server_stats</a>\n<br/>\n"));
    assert_eq!(links.text().matches("<a href").count(), 28);
    assert_eq!(get(&admin, "/commands/").body, links.body);
}

#[test]
fn the_text_is_formatted_as_by_apache() {
    let server = TestServer::start();
    let admin = open(server.handle());
    assert_eq!(
        get(&admin, "/commands/ruok").text(),
        "{\n  \"command\" : \"ruok\",\n  \"error\" : null\n}"
    );
    let unknown = get(&admin, "/commands/nosuch");
    assert_eq!(
        unknown.text(),
        "{\n  \"command\" : \"nosuch\",\n  \"error\" : \"Unknown command: nosuch\"\n}"
    );
    assert_eq!(unknown.status, 200);
    assert_eq!(get(&admin, "/commands/mntr").json()["command"], "monitor");
    let leader = get(&admin, "/commands/leader").json();
    assert_eq!(leader, json!({ "command": "leader", "error": "server is not initialized" }));
}

#[test]
fn trace_masks_are_kept() {
    let server = TestServer::start();
    let admin = open(server.handle());
    let error = |query: &str| get(&admin, &format!("/commands/stmk{query}")).error();
    assert_eq!(error(""), "setTraceMask requires long traceMask argument");
    assert_eq!(error("?traceMask=x"), "setTraceMask requires long traceMask argument, got x");
    assert_eq!(error("?traceMask=7"), "");
    assert_eq!(get(&admin, "/commands/gtmk").json()["tracemask"], 7);
}

#[test]
fn a_clients_activity_is_reported() {
    let server = TestServer::start_with(with_super);
    let admin = open(server.handle());
    with_client(&server, async |client| {
        client.create("/a", "x").await.unwrap();
        client.create("/a/e", "x").lifetime(Lifetime::Ephemeral).await.unwrap();
        let watch = client.watch("/a").await.unwrap();
        let session = client.session().id().0;
        let of = |name: &str| get_as(&admin, &format!("/commands/{name}"), SUPER).json();
        let connections = of("connections");
        let connection = &connections["connections"][0];
        assert_eq!(connection["session_id"], session);
        assert_eq!(connections["connections"].as_array().unwrap().len(), 1);
        assert_eq!(
            of("dump")["session_id_to_ephemeral_paths"],
            json!({ session.to_string(): ["/a/e"] })
        );
        let ends = of("dump")["expiry_time_to_session_ids"].clone();
        assert_eq!(ends.as_object().unwrap().values().next().unwrap(), &json!([session]));
        assert_eq!(
            of("wchc")["session_id_to_watched_paths"],
            json!({ session.to_string(): ["/a"] })
        );
        assert_eq!(of("wchp")["path_to_session_ids"], json!({ "/a": [session] }));
        assert_eq!(of("wchs")["num_total_watches"], 1);
        let stats = of("stats");
        assert_eq!(stats["node_count"], 7);
        assert_eq!(stats["server_stats"]["last_processed_zxid"], 3);
        assert_eq!(of("monitor")["znode_count"], 7);
        of("crst");
        assert_eq!(of("cons")["connections"][0]["packets_received"], 0);
        drop(watch);
    });
}

/// Apache's fields and types are kept.
#[test]
fn session_ids_are_masked_without_all_permissions_on_the_root() {
    let server = TestServer::start_with(with_super);
    let admin = open(server.handle());
    with_client(&server, async |client| {
        client.create("/e", "x").lifetime(Lifetime::Ephemeral).await.unwrap();
        let _watch = client.watch("/e").await.unwrap();
        let session = client.session().id().0.to_string();
        let commands = ["connections", "dump", "watches", "watches_by_path"];
        let shows = |name: &str, authorization: Option<&str>| {
            let target = format!("/commands/{name}");
            let answer = match authorization {
                Some(authorization) => get_as(&admin, &target, authorization),
                None => get(&admin, &target),
            };
            answer.text().contains(&session)
        };
        for name in commands {
            assert!(shows(name, Some(SUPER)) && !shows(name, None), "{name}");
            // The root is open to everyone, so this user could read the ids from a snapshot.
            assert!(shows(name, Some("digest ann:secret")), "{name}");
        }
        let readable = Acl { perms: Perms::READ, id: Id::new("world", "anyone") };
        client.set_acl("/", vec![readable]).await.unwrap();
        for name in commands {
            assert!(shows(name, Some(SUPER)) && !shows(name, Some("digest ann:secret")), "{name}");
        }
        let masked = |name: &str| get(&admin, &format!("/commands/{name}")).json();
        let id = masked("connections")["connections"][0]["session_id"].clone();
        assert!(id.as_i64().unwrap() < 0);
        assert_eq!(masked("watches_by_path")["path_to_session_ids"], json!({ "/e": [id] }));
    });
}

#[test]
fn a_member_reports_its_ensemble() {
    let ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let follower = ensemble.follower();
    let leads = open(ensemble.handle(leader));
    let follows = open(ensemble.handle(follower));
    let of = |admin: &Admin, name: &str| get(admin, &format!("/commands/{name}")).json();
    for (admin, is_leader) in [(&leads, true), (&follows, false)] {
        let answer = of(admin, "leader");
        assert_eq!(
            (&answer["leader_id"], &answer["leader_ip"]),
            (&json!(leader), &json!("127.0.0.1"))
        );
        assert_eq!(answer["is_leader"], is_leader);
        let state = of(admin, "zabstate");
        assert_eq!((&state["voting"], &state["zabstate"]), (&json!(true), &json!("broadcast")));
        assert_eq!(state["quorum_address"]["all_host_strings"], json!(["127.0.0.1"]));
        let voters = of(admin, "voting_view")["current_config"].clone();
        assert_eq!(voters.as_object().unwrap().keys().collect::<Vec<_>>(), ["1", "2", "3"]);
        assert_eq!(of(admin, "observers")["synced_observers"], 0);
    }
    assert!(of(&leads, "srvr")["proposal_stats"]["max_buffer_size"].is_i64());
    assert_eq!(of(&follows, "srvr").get("proposal_stats"), None);
    let configured = of(&leads, "icfg")["initial_configuration"].clone();
    assert!(configured.as_str().unwrap().contains("server.1="), "{configured}");
}

#[test]
fn without_a_quorum_most_commands_report_an_error() {
    let mut ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let lonely = ensemble.follower();
    let admin = open(ensemble.handle(lonely));
    for id in ensemble.ids().filter(|id| *id != lonely).collect::<Vec<_>>() {
        ensemble.stop(id);
    }
    assert_ne!(leader, lonely);
    ensemble.await_that("the loss of the leader", || {
        ensemble.serves_as(lonely).is_none().then_some(())
    });
    let not_serving = "This ZooKeeper instance is not currently serving requests";
    for name in ["srvr", "ruok", "snapshot", "cons"] {
        let answer = get(&admin, &format!("/commands/{name}"));
        assert_eq!((answer.status, answer.error()), (200, not_serving.to_owned()), "{name}");
    }
    // On a busy machine it may not have noticed yet that the others are gone, and try to join them.
    ensemble.await_that("an election", || {
        (get(&admin, "/commands/zabstate").json()["zabstate"] == "election").then_some(())
    });
    assert_eq!(get(&admin, "/commands/envi").json()["error"], Value::Null);
    let ready = get(&admin, "/readyz");
    assert_eq!(ready.status, 503);
    assert_eq!(
        ready.json()["failed"],
        json!([{ "check": "leader", "problem": "there is no leader" }])
    );
    assert_eq!(get(&admin, "/livez").status, 200);
}

#[test]
fn commands_can_have_another_path() {
    let server = TestServer::start_with(with_super);
    let elsewhere = AdminSettings { command_url: "/ops/zk".to_owned(), ..settings() };
    let admin = Admin::start(server.handle(), elsewhere).unwrap();
    assert_eq!(get(&admin, "/ops/zk/ruok").status, 200);
    assert!(get(&admin, "/ops/zk").text().contains("href=\"/ops/zk/ruok\""));
    assert_ne!(get(&admin, "/commands/ruok").header("content-type"), Some("application/json"));
}
