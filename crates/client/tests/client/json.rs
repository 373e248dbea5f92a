//! Values of the program's own types, stored as JSON.

use std::collections::BTreeMap;
use std::error::Error as _;

use herdsman_client::json::JsonNode;
use herdsman_client::{ErrorKind, Op, Optional, Outcome};
use herdsman_proto::OpCode;
use herdsman_testing::TestServer;
use serde::{Deserialize, Serialize};

use crate::world::{World, connect, eventually, kind, within};

#[derive(Debug, Serialize, Deserialize, PartialEq)]
struct Limits {
    connections: u32,
    name: String,
}

fn limits(connections: u32) -> Limits {
    Limits { connections, name: "ä".to_owned() }
}

#[tokio::test]
async fn a_value_is_created_read_and_replaced_under_a_version() {
    let World { zk, other, server: _server, proxy: _proxy } = World::start().await;
    let created = zk.create_json("/a/b", &limits(1)).parents().ephemeral().await.unwrap();
    let JsonNode { value, stat } = other.get_json::<Limits>("/a/b").await.unwrap();
    assert_eq!((value, stat), (limits(1), created.stat));
    let stat = zk.set_json("/a/b", &limits(2)).version(0).await.unwrap();
    assert_eq!(stat.version, 1);
    assert!(zk.set_json("/a/b", &limits(3)).version(0).await.unwrap_err().is_bad_version());
    assert_eq!(other.get_json::<Limits>("/a/b").await.unwrap().value, limits(2));
    assert_eq!(other.get("/a/b").await.unwrap().data, r#"{"connections":2,"name":"ä"}"#);
    let missing = zk.get_json::<Limits>("/missing").await.optional();
    assert_eq!(missing.unwrap(), None);
}

#[tokio::test]
async fn data_that_is_not_the_value_is_an_error_that_names_path_and_reason() {
    let server = TestServer::start();
    let zk = connect(&server.connect_string()).await;
    let rows = [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("{", "EOF while parsing an object at line 1 column 1"),
        (
            r#"{"connections":"many"}"#,
            "invalid type: string \"many\", expected u32 at line 1 column 21",
        ),
        (r#"{"connections":1}"#, "missing field `name` at line 1 column 17"),
    ];
    zk.create("/a", "").await.unwrap();
    for (data, reason) in rows {
        zk.set("/a", data).await.unwrap();
        let error = zk.get_json::<Limits>("/a").await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::InvalidData(reason.to_owned()));
        assert_eq!((error.path(), error.outcome()), (Some("/a"), Outcome::NotApplied));
        assert_eq!(error.to_string(), format!("getData /a: the data cannot be decoded: {reason}"));
        assert!(error.source().unwrap().is::<serde_json::Error>());
        assert_eq!(error, error.clone());
    }
}

#[tokio::test]
async fn a_value_that_cannot_be_encoded_sends_nothing() {
    let World { zk, proxy, server: _server, other: _other } = World::start().await;
    let unwritable = BTreeMap::from([(vec![1], "keys must be strings")]);
    zk.create("/a", "x").await.unwrap();
    let creations = proxy.traffic().requests(OpCode::Create2);
    for error in [
        zk.set_json("/a", &unwritable).await.unwrap_err(),
        zk.create_json("/a", &unwritable).await.unwrap_err(),
        zk.create_json("/a", &unwritable).parents().protected().await.unwrap_err(),
        zk.transaction([Op::set_json("/a", &unwritable)]).await.unwrap_err(),
        zk.transaction([Op::create_json("/a", &unwritable)]).await.unwrap_err(),
    ] {
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument(_)), "{error}");
        assert_eq!(error.path(), Some("/a"));
        assert!(
            error.to_string().contains("the value cannot be written as JSON: key must be a string")
        );
    }
    assert_eq!(zk.get("/a").await.unwrap().data, "x");
    let traffic = proxy.traffic();
    assert_eq!(traffic.requests(OpCode::Create2), creations);
    assert_eq!((traffic.requests(OpCode::SetData), traffic.requests(OpCode::Multi)), (0, 0));
}

#[tokio::test]
async fn a_typed_read_can_watch() {
    let World { zk, other, server, proxy: _proxy } = World::start().await;
    zk.transaction([Op::create_json("/a", &1), Op::set_json("/a", &2)]).await.unwrap();
    let (node, changed) = zk.get_json::<u32>("/a").watch().await.unwrap();
    assert_eq!((node.value, node.stat.version), (2, 1));
    other.set_json("/a", "text").await.unwrap();
    within(changed).await.unwrap();
    let refused = zk.get_json::<u32>("/a").watch().await;
    assert!(matches!(kind(refused), ErrorKind::InvalidData(_)));
    eventually("a failed read leaves no watch behind", || server.watch_count() == 0).await;
}
