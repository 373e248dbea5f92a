//! REST grants the same permissions as the client port: every operation with every kind of permission,
//! tried on both.

use herdsman_client::{Acl, Client, ErrorKind, Id, Perms, Result};
use herdsman_tree::auth::{DigestAlgorithm, digest_id};
use serde_json::{Value, json};

use super::rest::{ALICE, Ask, ROOT_USER, Rest};

const RIGHTS: [Perms; 8] = [
    Perms(0),
    Perms::READ,
    Perms::WRITE,
    Perms::CREATE,
    Perms::DELETE,
    Perms::ADMIN,
    Perms(31 & !1),
    Perms::ALL,
];

const OPS: [&str; 8] =
    ["get", "exists", "children", "acl", "set", "create child", "delete child", "set acl"];

/// A znode with a child, whose ACL grants `perms` to `id`.
async fn prepare(setter: &Client, path: &str, perms: Perms, id: &Id) {
    setter.create(path, "x").await.unwrap();
    setter.create(&format!("{path}/child"), "").await.unwrap();
    setter.set_acl(path, vec![Acl { perms, id: id.clone() }]).await.unwrap();
}

async fn by_client(client: &Client, op: &str, path: &str, id: &Id) -> u16 {
    fn status<T>(result: Result<T>) -> u16 {
        match result {
            Ok(_) => 200,
            Err(error) if *error.kind() == ErrorKind::NoAuth => 403,
            Err(error) => panic!("{error}"),
        }
    }
    match op {
        "get" => status(client.get(path).await),
        "exists" => status(client.exists(path).await),
        "children" => status(client.children(path).await),
        "acl" => status(client.acl(path).await),
        "set" => status(client.set(path, "y").await),
        "create child" => status(client.create(&format!("{path}/new"), "").await),
        "delete child" => status(client.delete(&format!("{path}/child")).await),
        _ => status(client.set_acl(path, vec![Acl { perms: Perms::ALL, id: id.clone() }]).await),
    }
}

fn by_rest(rest: &Rest, user: Option<&str>, op: &str, path: &str, id: &Id) -> u16 {
    let node = format!("/api/v1/node?path={path}");
    let ask = match op {
        "get" => Ask::get(&node),
        "exists" => Ask::get(&format!("{node}&data=false")),
        "children" => Ask::get(&format!("/api/v1/children?path={path}")),
        "acl" => Ask::get(&format!("/api/v1/acl?path={path}")),
        "set" => Ask::json("PUT", &node, &json!({ "data": "y" })),
        "create child" => Ask::json("POST", &format!("{node}/new"), &json!({})),
        "delete child" => Ask::delete(&format!("{node}/child")),
        _ => {
            let acl = json!([{ "scheme": id.scheme, "id": id.id, "perms": "cdrwa" }]);
            Ask::json("PUT", &format!("/api/v1/acl?path={path}"), &json!({ "acl": acl }))
        }
    };
    let ask = match user {
        Some(user) => ask.user(user),
        None => ask,
    };
    let answer = rest.ask(&ask);
    if answer.status == 201 { 200 } else { answer.status }
}

#[tokio::test]
async fn rest_grants_what_the_client_port_grants() {
    let rest = Rest::start();
    let setter = rest.client().await;
    setter.create("/m", "").await.unwrap();
    let alice = Client::options().credentials("digest", ALICE);
    let alice = alice.connect(&rest.server.connect_string()).await.unwrap();
    let root = Client::options().credentials("digest", ROOT_USER);
    let root = root.connect(&rest.server.connect_string()).await.unwrap();
    let anonymous = rest.client().await;
    let callers = [(&alice, Some(ALICE)), (&anonymous, None), (&root, Some(ROOT_USER))];
    let digest = Id::new("digest", &digest_id(ALICE, DigestAlgorithm::Sha1));
    let granted = [digest, Id::anyone(), Id::new("ip", "127.0.0.1"), Id::new("ip", "10.0.0.0/8")];
    let mut allowed = 0;
    let mut refused = 0;
    for (g, id) in granted.iter().enumerate() {
        for perms in RIGHTS {
            for (a, (client, user)) in callers.into_iter().enumerate() {
                let base = format!("/m/{g}-{}-{a}", perms.0);
                let (one, other) = (format!("{base}-client"), format!("{base}-rest"));
                prepare(&setter, &one, perms, id).await;
                prepare(&setter, &other, perms, id).await;
                for op in OPS {
                    let expected = by_client(client, op, &one, id).await;
                    let got = by_rest(&rest, user, op, &other, id);
                    assert_eq!(got, expected, "{op} by {user:?} with {perms:?} for {id:?}");
                    *(if got == 200 { &mut allowed } else { &mut refused }) += 1;
                }
            }
        }
    }
    assert!(allowed > 100 && refused > 100, "{allowed} allowed, {refused} refused");
}

#[tokio::test]
async fn of_a_child_that_may_not_be_read_only_the_name_is_shown() {
    let rest = Rest::start();
    let setter = rest.client().await;
    setter.create("/p", "").await.unwrap();
    setter.create("/p/open", "12").await.unwrap();
    let acl = vec![Acl { perms: Perms::ALL, id: Id::new("digest", "u:h") }];
    setter.create("/p/shut", "secret").acl(acl).await.unwrap();
    let page = rest.get("/api/v1/children?path=/p").ok();
    assert_eq!(page["children"][0]["data_length"], 2);
    let shut = page["children"][1].as_object().unwrap();
    let ids: Vec<_> = shut.iter().filter(|(_, value)| !value.is_null()).collect();
    assert_eq!(json!(ids), json!([["name", "shut"], ["readable", false]]));
    let found = rest.get("/api/v1/search?q=secret").ok();
    assert_eq!(found["matches"], json!([]));
    let by_name = rest.get("/api/v1/search?q=shut").ok();
    assert_eq!(by_name["matches"][0]["path"], "/p/shut");
}

#[tokio::test]
async fn an_address_is_that_of_the_connection_not_of_a_header() {
    let rest = Rest::start();
    let setter = rest.client().await;
    for (path, address) in [("/near", "127.0.0.1"), ("/far", "192.0.2.7")] {
        let acl = vec![Acl { perms: Perms::ALL, id: Id::new("ip", address) }];
        setter.create(path, "x").acl(acl).await.unwrap();
    }
    for claim in [
        ("X-Forwarded-For", "192.0.2.7"),
        ("X-Forwarded-For", "192.0.2.7, 127.0.0.1"),
        ("Forwarded", "for=192.0.2.7"),
        ("X-Real-IP", "192.0.2.7"),
    ] {
        let status = |ask: Ask| rest.ask(&ask.header(claim.0, claim.1)).status;
        let set = |path| Ask::json("PUT", path, &json!({ "data": "y" }));
        assert_eq!(status(Ask::get("/api/v1/node?path=/far")), 403, "{claim:?}");
        assert_eq!(status(set("/api/v1/node?path=/far")), 403, "{claim:?}");
        assert_eq!(status(Ask::get("/api/v1/node?path=/near")), 200, "{claim:?}");
        assert_eq!(status(set("/api/v1/node?path=/near")), 200, "{claim:?}");
        let ids = rest.ask(&Ask::get("/api/v1/whoami").header(claim.0, claim.1)).ok();
        assert!(!ids.to_string().contains("192.0.2.7"), "{ids}");
    }
}

#[tokio::test]
async fn a_rejected_version_shows_the_stat_only_to_readers() {
    let rest = Rest::start();
    let setter = rest.client().await;
    setter.create("/w", "").acl(vec![Acl::world(Perms::WRITE)]).await.unwrap();
    let stale = Ask::json("PUT", "/api/v1/node?path=/w&version=9", &json!({ "data": "" }));
    let answer = rest.ask(&stale);
    assert_eq!(answer.refusal(), (409, "BadVersion".to_owned()));
    assert_eq!(answer.json()["stat"], Value::Null);
}
