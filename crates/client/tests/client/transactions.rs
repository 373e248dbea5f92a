//! Transactions, and writes that are fenced by the node of a lock.

use herdsman_client::{Client, ErrorKind, Lifetime, Op, OpResult, Outcome};
use herdsman_testing::TestServer;

use crate::world::{children, connect, kind};

async fn clients(server: &TestServer) -> [Client; 2] {
    let root = connect(&server.connect_string()).await;
    root.create("/app", "").await.unwrap();
    let below = root.namespace("/app").unwrap();
    [root, below]
}

#[tokio::test]
async fn all_writes_are_applied_in_order() {
    let server = TestServer::start();
    for zk in clients(&server).await {
        let results = zk
            .transaction([
                Op::create("/a", "1"),
                Op::create("/a/n-", "").sequential(),
                Op::create("/a/e", "").ephemeral(),
                Op::create("/a/c", "").lifetime(Lifetime::Container),
                Op::set("/a", "2").version(0),
                Op::check("/a").version(1),
                Op::delete("/a/c"),
            ])
            .await
            .unwrap();
        let paths: Vec<_> = results
            .iter()
            .filter_map(|result| match result {
                OpResult::Created(created) => Some(created.path.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(paths, ["/a", "/a/n-0000000000", "/a/e", "/a/c"]);
        assert!(matches!(&results[4], OpResult::Set(stat) if stat.version == 1));
        assert_eq!(results[5..], [OpResult::Checked, OpResult::Deleted]);
        assert_eq!(children(&zk, "/a").await, ["e", "n-0000000000"]);
    }
}

#[tokio::test]
async fn no_write_is_applied_when_one_fails_and_the_error_names_it() {
    let server = TestServer::start();
    for zk in clients(&server).await {
        let ops = [Op::create("/x", ""), Op::create("/x/y", ""), Op::set("/nowhere", "")];
        let error = zk.transaction(ops).await.unwrap_err();
        assert_eq!((error.kind(), error.failed_op()), (&ErrorKind::NoNode, Some(2)));
        assert_eq!((error.path(), error.outcome()), (Some("/nowhere"), Outcome::NotApplied));
        assert_eq!(zk.exists("/x").await.unwrap(), None);
        let error = zk.transaction([Op::check("/nowhere"), Op::create("/x", "")]).await;
        assert_eq!(error.unwrap_err().failed_op(), Some(0));
        let error = zk.transaction([Op::create("/x", ""), Op::create("y", "")]).await.unwrap_err();
        assert_eq!((error.path(), error.failed_op()), (Some("y"), Some(1)));
        assert!(zk.transaction([]).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_deposed_holder_cannot_write() {
    let server = TestServer::start();
    for zk in clients(&server).await {
        let lock = zk.create("/lock-", "").ephemeral().sequential().await.unwrap();
        let fenced = zk.fenced_by(&lock.path);
        assert_eq!(fenced.create("/data", "1").await.unwrap().path, "/data");
        assert_eq!(fenced.set("/data", "2").await.unwrap().version, 1);
        let error = fenced.transaction([Op::check("/data"), Op::delete("/none")]).await;
        assert_eq!(error.unwrap_err().failed_op(), Some(1), "counted without the guard");
        fenced.client().delete(&lock.path).await.unwrap();
        let error = fenced.set("/data", "3").await.unwrap_err();
        assert_eq!((error.kind(), error.failed_op()), (&ErrorKind::Deposed, None));
        assert_eq!(error.outcome(), Outcome::NotApplied);
        assert_eq!(kind(fenced.delete("/data").await), ErrorKind::Deposed);
        assert_eq!(zk.get("/data").await.unwrap().data, "2");
    }
}

#[tokio::test]
async fn an_unreadable_guard_does_not_mean_deposed() {
    let server = TestServer::start();
    let zk = connect(&server.connect_string()).await;
    let fenced = zk.fenced_by("no path");
    assert!(matches!(kind(fenced.create("/a", "").await), ErrorKind::InvalidPath(_)));
    zk.create("/generation", "").await.unwrap();
    let fenced = zk.fenced_by("/generation").at_version(0);
    fenced.create("/a", "").await.unwrap();
    zk.set("/generation", "").await.unwrap();
    assert_eq!(kind(fenced.delete("/a").await), ErrorKind::Deposed);
}
