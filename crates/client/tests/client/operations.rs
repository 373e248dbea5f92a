//! Every operation of the protocol, with and without a chroot.

use std::time::Duration;

use bytes::Bytes;
use herdsman_client::{
    Acl, Client, ErrorKind, Lifetime, Op, Optional, Outcome, Perms, Read, ReadResult,
};
use herdsman_proto::OpCode;
use herdsman_testing::{TestProxy, TestServer};

use crate::world::{World, children, connect, kind, options, within};

/// A server, and a client for each kind of chroot.
async fn roots() -> Vec<(TestServer, Client)> {
    let mut all = Vec::new();
    for chroot in ["", "/app", "/deep/er"] {
        let server = TestServer::start_with(|config| config.znodes.ttl = true);
        let zk = connect(&format!("{}{chroot}", server.connect_string())).await;
        zk.ensure("/", Lifetime::Persistent).await.unwrap();
        all.push((server, zk));
    }
    all
}

#[tokio::test]
async fn a_znode_is_created_read_changed_and_deleted() {
    for (_server, zk) in roots().await {
        let created = zk.create("/a", "x").await.unwrap();
        assert_eq!((created.path.as_str(), created.name()), ("/a", "a"));
        let node = zk.get("/a").await.unwrap();
        assert_eq!((&node.data[..], node.stat), (&b"x"[..], created.stat));
        assert_eq!(zk.exists("/a").await.unwrap(), Some(created.stat));
        assert_eq!(zk.exists("/b").await.unwrap(), None);
        let stat = zk.set("/a", "yy").version(0).await.unwrap();
        assert_eq!((stat.version, stat.data_length), (1, 2));
        assert_eq!(kind(zk.set("/a", "z").version(0).await), ErrorKind::BadVersion);
        assert_eq!(kind(zk.delete("/a").version(7).await), ErrorKind::BadVersion);
        zk.delete("/a").version(1).await.unwrap();
        for missing in [kind(zk.get("/a").await), kind(zk.delete("/a").await)] {
            assert_eq!(missing, ErrorKind::NoNode);
        }
    }
}

#[tokio::test]
async fn errors_name_the_path_as_the_caller_wrote_it() {
    for (_server, zk) in roots().await {
        let error = zk.get("/missing").await.unwrap_err();
        assert_eq!((error.path(), error.outcome()), (Some("/missing"), Outcome::NotApplied));
        assert_eq!(error.to_string(), "getData /missing: the znode does not exist");
    }
}

#[tokio::test]
async fn a_missing_znode_can_be_none() {
    for (_server, zk) in roots().await {
        assert_eq!(zk.get("/a").await.optional().unwrap(), None);
        assert_eq!(zk.children("/a").await.optional().unwrap(), None);
        assert!(zk.get("/a").watch().await.optional().unwrap().is_none());
        zk.create("/a", "x").await.unwrap();
        assert_eq!(zk.get("/a").await.optional().unwrap().unwrap().data, "x");
        assert!(matches!(kind(zk.get("a").await.optional()), ErrorKind::InvalidPath(_)));
    }
}

#[tokio::test]
async fn a_watch_that_ends_with_its_client_names_its_path() {
    for (_server, zk) in roots().await {
        let (_, watch) = zk.exists("/a").watch().await.unwrap();
        let (_, watch_of_root) = zk.exists("/").watch().await.unwrap();
        zk.close().await.unwrap();
        let error = within(watch).await.unwrap_err();
        assert!(error.is_closed());
        assert_eq!(error.to_string(), "watch /a: the client is closed");
        assert_eq!(within(watch_of_root).await.unwrap_err().path(), Some("/"));
    }
}

#[tokio::test]
async fn an_error_of_an_operation_without_a_path_has_none() {
    for (_server, zk) in roots().await {
        zk.close().await.unwrap();
        let error = zk.who_am_i().await.unwrap_err();
        assert_eq!(error.path(), None);
        assert_eq!(error.to_string(), "whoAmI: the client is closed");
    }
}

#[tokio::test]
async fn every_kind_of_znode_can_be_created() {
    for (server, zk) in roots().await {
        let session = zk.session().id();
        let ephemeral = zk.create("/e", "").ephemeral().await.unwrap();
        assert_eq!(ephemeral.stat.ephemeral_owner, session.0);
        assert_eq!(server.ephemerals(session), [format!("{}/e", zk.chroot())]);
        let child = zk.create("/e/child", "").await;
        assert_eq!(kind(child), ErrorKind::NoChildrenForEphemerals);
        zk.create("/q", "").container().await.unwrap();
        for number in 0..3 {
            let created = zk.create("/q/n-", "").sequential().await.unwrap();
            assert_eq!(created.path, format!("/q/n-{number:010}"));
        }
        let created = zk.create("/q/", "").ephemeral().sequential().await.unwrap();
        assert_eq!(created.path, "/q/0000000003");
        let ttl = Duration::from_secs(60);
        zk.create("/t", "").ttl(ttl).await.unwrap();
        let created = zk.create("/q/t", "").ttl(ttl).sequential().await.unwrap();
        assert_eq!(created.name(), "t0000000004");
        assert_eq!(kind(zk.create("/t", "").await), ErrorKind::NodeExists);
    }
}

#[tokio::test]
async fn parents_are_created_as_requested_even_the_chroot() {
    let server = TestServer::start();
    let proxy = TestProxy::start(server.address());
    let zk = connect(&format!("{}/not/there/yet", proxy.connect_string())).await;
    assert_eq!(kind(zk.create("/a", "").await), ErrorKind::NoNode);
    zk.create("/a/b/c", "1").parents().await.unwrap();
    zk.create("/a/b/d/e", "2").container_parents().await.unwrap();
    let root = connect(&server.connect_string()).await;
    assert_eq!(root.get("/not/there/yet/a/b/c").await.unwrap().data, "1");
    assert_eq!(proxy.traffic().requests(OpCode::CreateContainer), 1);
    zk.ensure("/x/y", Lifetime::Persistent).await.unwrap();
    zk.ensure("/x/y", Lifetime::Persistent).await.unwrap();
    assert_eq!(children(&zk, "/x").await, ["y"]);
}

#[tokio::test]
async fn a_subtree_is_deleted_with_all_that_is_in_it() {
    for (_server, zk) in roots().await {
        for name in 0..300 {
            zk.create(&format!("/tree/{}/{name}", name % 7), "").parents().await.unwrap();
        }
        assert_eq!(zk.count_descendants("/tree").await.unwrap(), 307);
        assert_eq!(kind(zk.delete("/tree").await), ErrorKind::NotEmpty);
        zk.delete("/tree").recursive().await.unwrap();
        assert_eq!(zk.exists("/tree").await.unwrap(), None);
        zk.delete("/tree").recursive().await.unwrap();
    }
}

#[tokio::test]
async fn a_recursive_deletion_rejects_unsupported_options() {
    let server = TestServer::start();
    let zk = connect(&server.connect_string()).await;
    zk.create("/a", "").await.unwrap();
    for call in [zk.delete("/").recursive(), zk.delete("/a").version(3).recursive()] {
        assert!(matches!(kind(call.await), ErrorKind::InvalidArgument(_)));
    }
    assert!(zk.exists("/a").await.unwrap().is_some());
}

#[tokio::test]
async fn several_reads_take_one_request() {
    for (_server, zk) in roots().await {
        zk.create("/a", "x").await.unwrap();
        zk.create("/a/b", "").await.unwrap();
        let reads = [Read::get("/a"), Read::children("/a"), Read::get("/missing")];
        let results = zk.read_many(reads).await.unwrap();
        assert!(matches!(&results[0], Ok(ReadResult::Node(node)) if node.data == "x"));
        assert_eq!(results[1], Ok(ReadResult::Children(vec!["b".to_owned()])));
        let missing = results[2].as_ref().unwrap_err();
        assert_eq!((missing.kind(), missing.path()), (&ErrorKind::NoNode, Some("/missing")));
        assert!(zk.read_many([]).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_session_lists_its_ephemerals() {
    for (_server, zk) in roots().await {
        for path in ["/locks", "/locksmith"] {
            zk.create(path, "").await.unwrap();
            zk.create(&format!("{path}/mine"), "").ephemeral().await.unwrap();
        }
        assert_eq!(zk.ephemerals("/locks").await.unwrap(), ["/locks/mine"]);
        let mut all = zk.ephemerals("/").await.unwrap();
        all.sort();
        assert_eq!(all, ["/locks/mine", "/locksmith/mine"]);
    }
}

#[tokio::test]
async fn a_chroot_hides_siblings_with_the_same_prefix() {
    let server = TestServer::start();
    let root = connect(&server.connect_string()).await;
    root.create("/app", "").await.unwrap();
    root.create("/application", "").ephemeral().await.unwrap();
    let zk = root.namespace("/app").unwrap();
    assert_eq!(zk.chroot(), "/app");
    assert!(zk.ephemerals("/").await.unwrap().is_empty());
    zk.create("/lication", "").ephemeral().await.unwrap();
    assert_eq!(zk.ephemerals("/").await.unwrap(), ["/lication"]);
    let inner = zk.namespace("/lication").unwrap();
    assert_eq!(inner.exists("/").await.unwrap().unwrap().ephemeral_owner, zk.session().id().0);
}

#[tokio::test]
async fn sync_config_and_identity_are_answered() {
    for (_server, zk) in roots().await {
        zk.sync("/").await.unwrap();
        zk.sync("/missing").await.unwrap();
        let config = zk.config().await.unwrap();
        assert!(config.data.is_empty() || config.data.starts_with(b"server."), "{config:?}");
        let ids = zk.who_am_i().await.unwrap();
        assert!(ids.iter().any(|id| id.scheme == "ip" && id.id == "127.0.0.1"), "{ids:?}");
    }
}

#[tokio::test]
async fn a_standalone_server_refuses_a_reconfiguration() {
    for (_server, zk) in roots().await {
        let empty = kind(zk.reconfig().await);
        assert!(matches!(empty, ErrorKind::InvalidArgument(_)), "{empty:?}");
        let refused = zk.reconfig().join("server.9=127.0.0.1:1:2;3").await.unwrap_err();
        assert!(
            matches!(refused.kind(), ErrorKind::Reconfig(_) | ErrorKind::Unimplemented),
            "{refused:?}"
        );
        assert_eq!(refused.outcome(), Outcome::NotApplied);
    }
}

#[tokio::test]
async fn large_data_is_read_completely() {
    let server = TestServer::start();
    let zk = connect(&server.connect_string()).await;
    for bytes in [0, 1, 64 << 10, 65 << 10, 900_000] {
        let data: Bytes = (0..bytes).map(|at| (at % 251) as u8).collect();
        zk.create("/big", data.clone()).await.unwrap();
        assert_eq!(zk.get("/big").await.unwrap().data, data);
        zk.delete("/big").await.unwrap();
    }
}

#[tokio::test]
async fn a_request_that_servers_would_reject_is_rejected_locally() {
    let World { zk, proxy, other: _other, server: _server } = World::start().await;
    zk.create("/a", "").await.unwrap();
    let error = zk.set("/a", vec![0; 1 << 20]).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { limit: 1_048_575, .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    let ErrorKind::TooLarge { bytes, limit } = *error.kind() else { unreachable!() };
    // The largest request that fits is accepted by the server too.
    zk.set("/a", vec![0; (1 << 20) - (bytes - limit)]).await.unwrap();
    assert_eq!(proxy.traffic().connections_accepted(), 1, "the connection is kept");
}

#[tokio::test]
async fn a_reply_that_is_too_large_fails_its_call_alone() {
    let World { zk, proxy, server, other: _other } =
        World::start_with(options().reply_bytes_max(100_000)).await;
    zk.create("/big", vec![7; 300_000]).await.unwrap();
    zk.create("/small", "s").await.unwrap();
    let small = zk.get("/small").send();
    let big = zk.get("/big").watch().send();
    let after = zk.get("/small").send();
    assert_eq!(small.await.unwrap().data, "s");
    assert!(matches!(kind(big.await), ErrorKind::TooLarge { limit: 100_000, .. }));
    assert_eq!(after.await.unwrap().data, "s");
    assert_eq!(proxy.traffic().connections_accepted(), 1, "the connection is kept");
    crate::world::eventually("no watch is left", || server.watch_count() == 0).await;
}

#[tokio::test]
async fn bad_arguments_are_rejected_before_anything_is_sent() {
    let World { zk, proxy, other: _other, server: _server } = World::start().await;
    let below = zk.namespace("/zookeeper").unwrap();
    let before = proxy.traffic().requests_in_all();
    for path in ["", "a", "/a/", "//", "/a//b", "/a/../b", "/.", "/nul\0"] {
        for zk in [&zk, &below] {
            let kinds = [
                kind(zk.get(path).await),
                kind(zk.create(path, "").protected().await),
                kind(zk.create(path, "").parents().await),
                kind(zk.delete(path).recursive().await),
                kind(zk.transaction([Op::delete(path)]).await),
                kind(zk.read_many([Read::get(path)]).await),
                kind(zk.ensure(path, Lifetime::Persistent).await),
            ];
            for (at, kind) in kinds.iter().enumerate() {
                // With a prefix, an empty name is allowed.
                let is_name = at == 1 && path == "/a/";
                assert!(is_name || matches!(kind, ErrorKind::InvalidPath(_)), "{path:?} {kind:?}");
            }
        }
        assert!(zk.namespace(path).is_err(), "{path:?}");
    }
    let sequential_container = zk.create("/a", "").container().sequential().await;
    let no_ttl = zk.create("/a", "").ttl(Duration::ZERO).await;
    for error in [kind(sequential_container), kind(no_ttl)] {
        assert!(matches!(error, ErrorKind::InvalidArgument(_)), "{error:?}");
    }
    assert_eq!(proxy.traffic().requests_in_all(), before);
}

#[tokio::test]
async fn acls_are_read_and_replaced() {
    for (_server, zk) in roots().await {
        zk.create("/a", "").acl([Acl::world(Perms::READ.union(Perms::ADMIN))]).await.unwrap();
        let (acl, stat) = zk.acl("/a").await.unwrap();
        assert_eq!((acl, stat.aversion), (vec![Acl::world(Perms(17))], 0));
        assert_eq!(kind(zk.set("/a", "x").await), ErrorKind::NoAuth);
        let all = [Acl::world(Perms::ALL)];
        assert_eq!(kind(zk.set_acl("/a", all.clone()).version(3).await), ErrorKind::BadVersion);
        let stat = zk.set_acl("/a", all).version(0).await.unwrap();
        assert_eq!(stat.aversion, 1);
        zk.set("/a", "x").await.unwrap();
        assert_eq!(kind(zk.set_acl("/a", []).await), ErrorKind::InvalidAcl);
    }
}

#[tokio::test]
async fn invalid_options_are_rejected() {
    let bad = [
        options().in_flight_max(0),
        options().session_timeout(Duration::ZERO),
        options().session_timeout(Duration::from_secs(u64::MAX)),
    ];
    for options in bad {
        let error = options.connect("127.0.0.1:1").await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::InvalidArgument(_)), "{error}");
    }
    for servers in ["", "host:port", "a,,b", "zk://a", "a/chroot/"] {
        let error = options().connect(servers).await.unwrap_err();
        assert!(error.to_string().starts_with("connect string: "), "{error}");
    }
}
