//! Search, export, and changes of whole subtrees.

use herdsman_client::{Acl, Id, Op, Perms};
use serde_json::{Value, json};

use super::rest::{ALICE, Ask, Rest, WAIT_MAX};

fn found(answer: &Value) -> Vec<String> {
    let row = |row: &Value| {
        format!("{} {}", row["path"].as_str().unwrap(), row["where"].as_str().unwrap())
    };
    answer["matches"].as_array().unwrap().iter().map(row).collect()
}

#[tokio::test]
async fn names_and_data_are_searched() {
    let rest = Rest::start();
    let client = rest.client().await;
    for (path, data) in [
        ("/app", "the Needle is here"),
        ("/app/needle", ""),
        ("/app/sub", "\u{7}needle\u{7}"),
        ("/other", "needle"),
    ] {
        client.create(path, data).await.unwrap();
    }
    client.create("/bin", &b"\xff\xfeneedle"[..]).await.unwrap();
    let search = |query: &str| rest.get(&format!("/api/v1/search?{query}")).ok();
    let all = search("q=needle");
    assert_eq!(
        found(&all),
        ["/app data", "/app/needle name", "/app/sub data", "/bin data", "/other data"]
    );
    assert_eq!((&all["truncated"], &all["scanned"]), (&json!(false), &json!(9)));
    assert_eq!(all["matches"][0]["excerpt"], "the Needle is here");
    assert_eq!(all["matches"][2]["excerpt"], " needle ");
    assert_eq!(found(&search("q=Needle")), ["/app data"]);
    assert_eq!(found(&search("q=needle&in=names")), ["/app/needle name"]);
    assert_eq!(found(&search("q=needle&in=data&path=/app")), ["/app data", "/app/sub data"]);
    assert_eq!(found(&search("q=app/s&in=names")), ["/app/sub name"]);
    let first = search("q=needle&limit=2");
    assert_eq!((found(&first).len(), &first["truncated"]), (2, &json!(true)));
    for wrong in ["q=", "q=x&in=dreams", "q=x&limit=x", "", &format!("q={}", "x".repeat(1001))] {
        assert_eq!(rest.get(&format!("/api/v1/search?{wrong}")).status, 400, "{wrong}");
    }
}

/// A thousand matches with long paths used to take up to a gigabyte.
#[tokio::test]
async fn a_search_ends_when_it_has_found_too_many_bytes() {
    let rest = Rest::start();
    let client = rest.client().await;
    let mut parent = String::new();
    for _ in 0..3 {
        parent = format!("{parent}/{}", "n".repeat(200_000));
        client.create(&parent, "").await.unwrap();
    }
    for n in 0..20 {
        client.create(&format!("{parent}/needle-{n}"), "needle").await.unwrap();
    }
    for places in ["names", "data", "both"] {
        let found = rest.get(&format!("/api/v1/search?q=needle&in={places}")).ok();
        assert_eq!(found["truncated"], json!(true), "{places}");
        let count = found["matches"].as_array().unwrap().len();
        assert!((6..=8).contains(&count), "{places}: {count} matches");
    }
    let one = rest.get("/api/v1/search?q=needle-19&in=names").ok();
    assert_eq!((one["matches"].as_array().unwrap().len(), &one["truncated"]), (1, &json!(false)));
}

#[tokio::test]
async fn an_export_contains_the_whole_subtree() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.create("/app", "top").await.unwrap();
    client.create("/app/b", &[0xff][..]).await.unwrap();
    client.create("/app/a", "line\n").await.unwrap();
    client.create("/app/a/deep", "").container().await.unwrap();
    client.create("/app/t", "").ttl(std::time::Duration::from_secs(60)).await.unwrap();
    let answer = rest.get("/api/v1/export?path=/app");
    assert_eq!(answer.header("Content-Type"), Some("application/x-ndjson"));
    let text = String::from_utf8(answer.body).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["format"], "herdsman-subtree");
    assert_eq!((&lines[0]["version"], &lines[0]["root"]), (&json!(1), &json!("/app")));
    let paths: Vec<_> = lines[1..6].iter().map(|line| line["path"].as_str().unwrap()).collect();
    assert_eq!(paths, [".", "a", "a/deep", "b", "t"]);
    assert_eq!((&lines[1]["data"], &lines[2]["data"]), (&json!("top"), &json!("line\n")));
    assert_eq!((&lines[4]["data_base64"], &lines[4]["data"]), (&json!("/w=="), &json!(null)));
    assert_eq!(lines[3]["type"], "container");
    assert_eq!((&lines[5]["type"], &lines[5]["ttl_ms"]), (&json!("ttl"), &json!(60_000)));
    assert_eq!(lines[1]["acl"][0]["perms"], "cdrwa");
    let stat = client.exists("/app/t").await.unwrap().unwrap();
    let newest = format!("{:#x}", stat.czxid.0);
    assert_eq!(lines[6], json!({ "end": true, "znodes": 5, "zxid": newest }));
    assert_eq!(lines.len(), 7);
    let everything = rest.get("/api/v1/export?path=/");
    let text = String::from_utf8(everything.body).unwrap();
    assert!(!text.contains("zookeeper") && text.contains("\"path\":\"app/a/deep\""));
}

#[tokio::test]
async fn a_partial_export_is_rejected_unless_requested() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.create("/app", "").await.unwrap();
    let acl = vec![Acl { perms: Perms::ALL, id: Id::new("digest", "u:h") }];
    client.create("/app/shut", "").acl(acl).await.unwrap();
    let refused = rest.get("/api/v1/export?path=/app");
    assert_eq!(refused.refusal(), (403, "NoAuth".to_owned()));
    assert_eq!(refused.json()["path"], "/app/shut");
    let skipped = rest.get("/api/v1/export?path=/app&unreadable=skip");
    let text = String::from_utf8(skipped.body).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&last["znodes"], &last["unreadable"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn a_subtree_is_deleted_as_a_whole() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.create("/app", "").await.unwrap();
    for block in 0..3 {
        let parent = format!("/app/{block}");
        let below = (0..500).map(|n| Op::create(&format!("{parent}/{n}"), ""));
        client.transaction([Op::create(&parent, "")].into_iter().chain(below)).await.unwrap();
    }
    let delete = |query: &str| rest.ask(&Ask::delete(&format!("/api/v1/node?path={query}")));
    let stale = delete("/app&recursive=true&version=4");
    assert_eq!(stale.refusal(), (409, "BadVersion".to_owned()));
    assert_eq!(stale.json()["stat"]["num_children"], 3);
    assert_eq!(delete("/app&recursive=true&version=0").ok(), json!({ "deleted": 1504 }));
    assert_eq!(delete("/app&recursive=true").status, 404);
    assert_eq!(delete("/&recursive=true").status, 400);
    assert_eq!(delete("/zookeeper&recursive=true").status, 400);
}

#[tokio::test]
async fn a_protected_znode_keeps_the_whole_subtree() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.create("/app", "").await.unwrap();
    // A znode below /app/a may not be deleted, and the walk starts with the last names.
    let guarded = vec![Acl::world(Perms(Perms::READ.0 | Perms::CREATE.0 | Perms::ADMIN.0))];
    client.create("/app/a", "").acl(guarded).await.unwrap();
    client.create("/app/a/x", "").await.unwrap();
    let many = (0..600).map(|n| Op::create(&format!("/app/z{n}"), ""));
    client.transaction(many).await.unwrap();
    let refused = rest.ask(&Ask::delete("/api/v1/node?path=/app&recursive=true"));
    assert_eq!(refused.refusal(), (403, "NoAuth".to_owned()));
    assert_eq!(
        (&refused.json()["path"], &refused.json()["deleted"]),
        (&json!("/app/a"), &json!(0))
    );
    assert_eq!(rest.get("/api/v1/children?path=/app").ok()["total"], 601);
}

#[tokio::test]
async fn a_protected_znode_keeps_all_acls() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.create("/app", "").await.unwrap();
    client.create("/app/a", "").acl(vec![Acl::world(Perms::READ)]).await.unwrap();
    client.transaction((0..300).map(|n| Op::create(&format!("/app/z{n}"), ""))).await.unwrap();
    let before = rest.server.handle().core().tree().last_zxid();
    let acl = json!([{ "scheme": "world", "id": "anyone", "perms": "ra" }]);
    let body = json!({ "acl": acl, "recursive": true });
    let refused = rest.ask(&Ask::json("PUT", "/api/v1/acl?path=/app", &body));
    assert_eq!(refused.refusal(), (403, "NoAuth".to_owned()));
    assert_eq!(
        (&refused.json()["path"], &refused.json()["changed"]),
        (&json!("/app/a"), &json!(0))
    );
    assert_eq!(rest.server.handle().core().tree().last_zxid(), before, "nothing was written");
}

#[tokio::test]
async fn setting_the_acl_of_everything_skips_the_services_own_znodes() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.transaction((0..300).map(|n| Op::create(&format!("/z{n}"), ""))).await.unwrap();
    let acl = json!([{ "scheme": "world", "id": "anyone", "perms": "cdra" }]);
    let body = json!({ "acl": acl, "recursive": true });
    let answer = rest.ask(&Ask::json("PUT", "/api/v1/acl?path=/", &body)).ok();
    assert_eq!(answer, json!({ "changed": 301, "skipped": ["/zookeeper"] }));
    assert_eq!(rest.get("/api/v1/acl?path=/z0").ok()["acl"], acl);
    let own = rest.get("/api/v1/acl?path=/zookeeper").ok();
    assert_eq!((&own["acl"][0]["perms"], &own["aversion"]), (&json!("cdrwa"), &json!(0)));
    let named = rest.ask(&Ask::json("PUT", "/api/v1/acl?path=/zookeeper", &body));
    assert_eq!((named.status, &named.json()["path"]), (403, &json!("/zookeeper/config")));
}

#[tokio::test]
async fn a_deletion_is_completed_after_its_client_has_disconnected() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.create("/app", "").await.unwrap();
    for block in 0..20 {
        let below = (0..1000).map(|n| Op::create(&format!("/app/{block}-{n}"), ""));
        client.transaction(below).await.unwrap();
    }
    let children = async || client.exists("/app").await.unwrap().map(|stat| stat.num_children);
    let deletion = Ask::delete("/api/v1/node?path=/app&recursive=true").open(rest.admin.address());
    while children().await == Some(20_000) {}
    drop(deletion);
    let deleted = async { while children().await.is_some() {} };
    tokio::time::timeout(WAIT_MAX, deleted).await.expect("all of it is deleted");
}

#[tokio::test]
async fn a_failed_creation_leaves_no_parents_behind() {
    let rest = Rest::start_and(|config| config.znodes.enforce_quota = true);
    let client = rest.client().await;
    for (path, data) in [
        ("/q", ""),
        ("/zookeeper/quota/q", ""),
        (
            "/zookeeper/quota/q/zookeeper_limits",
            "count=-1,bytes=-1;byteHardLimit=10;countHardLimit=-1",
        ),
        ("/zookeeper/quota/q/zookeeper_stats", ""),
    ] {
        client.create(path, data).await.unwrap();
    }
    let create = |path: &str, data: &str| {
        let body = json!({ "parents": true, "data": data });
        rest.ask(&Ask::json("POST", &format!("/api/v1/node?path={path}"), &body))
    };
    let refused = create("/q/a/b/c", "more than ten bytes");
    assert_eq!(refused.refusal(), (403, "QuotaExceeded".to_owned()));
    assert!(client.exists("/q/a").await.unwrap().is_none());
    assert_eq!(create("/q/a/b", "").json()["path"], "/q/a/b");
    assert_eq!(create("/q/a/b", "").refusal(), (409, "NodeExists".to_owned()));
}

#[tokio::test]
async fn an_unreadable_znode_keeps_the_whole_subtree() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.create("/app", "").await.unwrap();
    client.create("/app/a", "").acl(vec![Acl::world(Perms::WRITE)]).await.unwrap();
    client.create("/app/b", "").await.unwrap();
    let refused = rest.ask(&Ask::delete("/api/v1/node?path=/app&recursive=true"));
    assert_eq!(refused.refusal(), (403, "NoAuth".to_owned()));
    assert_eq!(refused.json()["path"], "/app/a");
    assert!(client.exists("/app/b").await.unwrap().is_some());
}

#[tokio::test]
async fn the_acl_of_a_whole_subtree_is_replaced() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.create("/app", "").await.unwrap();
    client.transaction((0..300).map(|n| Op::create(&format!("/app/{n}"), ""))).await.unwrap();
    let acl = json!([{ "scheme": "auth", "id": "", "perms": "cdrwa" }]);
    let body = json!({ "acl": acl, "recursive": true });
    let put = |query: &str| {
        rest.ask(&Ask::json("PUT", &format!("/api/v1/acl?path=/app{query}"), &body).user(ALICE))
    };
    assert_eq!(put("&version=3").refusal(), (409, "BadVersion".to_owned()));
    assert_eq!(put("&version=0").ok(), json!({ "changed": 301 }));
    assert_eq!(rest.get("/api/v1/node?path=/app/7").status, 403);
    let seen = rest.ask(&Ask::get("/api/v1/acl?path=/app/7").user(ALICE)).ok();
    assert_eq!((&seen["acl"][0]["scheme"], &seen["aversion"]), (&json!("digest"), &json!(1)));
}
