//! Servers without a quorum: used for reads where allowed, and left as soon as possible.

use herdsman_client::ConnectionEvent::{Connected, ReadOnly, Suspended};
use herdsman_client::{ConnectionState, ErrorKind, Outcome, ReadOnlyServers};
use herdsman_server::ServesAs;
use herdsman_testing::TestEnsemble;

use crate::world::{kind, next, options, within};

#[tokio::test]
async fn a_server_without_a_quorum_serves_reads_until_there_is_one() {
    let mut ensemble = TestEnsemble::start_with("", |_, config| config.read_only_mode = true);
    let leader = ensemble.await_leader();
    let left = ensemble.follower();
    let addresses: Vec<_> = ensemble.ids().map(|id| ensemble.address(id).to_string()).collect();
    let writer = within(options().connect(&addresses[left - 1])).await.unwrap();
    writer.create("/a", "x").await.unwrap();
    drop(writer);
    for id in ensemble.ids().filter(|id| *id != left) {
        ensemble.stop(id);
    }
    ensemble.await_role(left, ServesAs::ReadOnly);

    let zk = options().read_only_servers(ReadOnlyServers::Accepted);
    let zk = zk.start(&addresses.join(",")).unwrap();
    let mut events = zk.events();
    assert_eq!(next(&mut events).await, ReadOnly);
    assert_eq!(zk.state(), ConnectionState::ReadOnly);
    assert!(zk.state().is_connected());
    assert_eq!(within(zk.get("/a").send()).await.unwrap().data, "x");
    let error = within(zk.set("/a", "y").send()).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::ReadOnly, Outcome::NotApplied));

    let refused = options().connect_timeout(std::time::Duration::from_millis(300));
    let refused = within(refused.connect(&addresses.join(","))).await;
    assert!(matches!(kind(refused), ErrorKind::ConnectFailed(_)));

    ensemble.start_again(leader);
    assert_eq!(next(&mut events).await, Suspended);
    let session = zk.session();
    within(session.wait_for(|state| state == ConnectionState::Connected)).await;
    within(async {
        while let Err(error) = zk.set("/a", "y").await {
            assert!(error.is_retriable() || *error.kind() == ErrorKind::ReadOnly, "{error}");
        }
    })
    .await;
    loop {
        // It may connect to the read-only server once more on its way.
        match next(&mut events).await {
            Connected { session } => {
                assert_eq!(session, zk.session().id());
                break;
            }
            ReadOnly | Suspended => {}
            other => panic!("{other:?}"),
        }
    }
}
