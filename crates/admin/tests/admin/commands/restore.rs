//! Restoring snapshots through the port.

use std::sync::Arc;
use std::time::Duration;

use super::{
    SUPER, get_as, open, post_as, settings, tree_of, with_client, with_client_of, with_super,
};
use herdsman_admin::{Admin, AdminSettings};
use herdsman_client::{Client, Lifetime};
use herdsman_config::Config;
use herdsman_config::SystemProperties;
use herdsman_server::Server;
use herdsman_store::{Disk, MemoryDisk};
use herdsman_testing::{TestEnsemble, TestServer};

/// A snapshot of a server with some znodes, and the digest of its tree.
fn snapshot() -> (Vec<u8>, i64) {
    let server = TestServer::start();
    let admin = open(server.handle());
    with_client(&server, async |client| {
        client.create("/kept", "from the snapshot").await.unwrap();
        client.create("/kept/child", "x").await.unwrap();
        client.create("/kept/e", "").lifetime(Lifetime::Ephemeral).await.unwrap();
    });
    (get_as(&admin, "/commands/snapshot", "ip").body, tree_of(&server.handle()).0)
}

#[test]
fn a_snapshot_replaces_everything_permanently() {
    let (bytes, digest) = snapshot();
    let mut server = TestServer::start_with(with_super);
    let admin = open(server.handle());
    let before = with_client(&server, async |client| {
        for i in 0..50 {
            client.create(&format!("/old{i}"), "old").await.unwrap();
        }
        client.session().id()
    });
    let zxid_before = tree_of(&server.handle()).1;
    let answer = post_as(&admin, "/commands/restore", SUPER, &bytes);
    assert_eq!(answer.status, 200, "{}", answer.error());
    assert_eq!(answer.json()["last_zxid"], 5);
    let (digest_after, zxid_after, _) = tree_of(&server.handle());
    assert_eq!(digest_after, digest);
    assert!(zxid_after > zxid_before, "zxids never go back: {zxid_after} after {zxid_before}");
    assert!(!server.has_session(before));
    let check = async |client: Client| {
        assert_eq!(&*client.get("/kept").await.unwrap().data, b"from the snapshot");
        assert!(client.exists("/old1").await.unwrap().is_none());
    };
    with_client(&server, async |client| {
        check(client.clone()).await;
        client.create("/new", "after").await.unwrap();
    });
    drop(admin);
    server.kill();
    server.start_again();
    with_client(&server, async |client| {
        check(client.clone()).await;
        assert_eq!(&*client.get("/new").await.unwrap().data, b"after");
    });
}

#[test]
fn a_connected_client_reconnects_to_the_restored_tree() {
    let (bytes, _) = snapshot();
    let server = TestServer::start();
    let admin = open(server.handle());
    with_client(&server, async |client| {
        for i in 0..20 {
            client.create(&format!("/old{i}"), "").await.unwrap();
        }
        let first = client.session().id();
        let answer = post_as(&admin, "/commands/restore", "ip", &bytes);
        assert_eq!(answer.status, 200, "{}", answer.error());
        // The session has ended, and the client opens another one. The server accepts it because its zxid
        // is not lower than what the client has seen.
        let found = loop {
            match client.get("/kept").await {
                Ok(found) => break found,
                Err(error) => assert!(client.is_managed(), "{error}"),
            }
        };
        assert_eq!(&*found.data, b"from the snapshot");
        assert_ne!(client.session().id(), first);
    });
}

#[test]
fn an_incomplete_snapshot_changes_nothing() {
    let (bytes, _) = snapshot();
    let server = TestServer::start();
    let admin = open(server.handle());
    with_client(&server, async |client| {
        client.create("/mine", "").await.unwrap();
    });
    let before = tree_of(&server.handle());
    let check = |body: &[u8], problem: &str| {
        let answer = post_as(&admin, "/commands/restore", "ip", body);
        assert_eq!(answer.status, 400, "{problem}: {}", answer.text());
        assert!(answer.error().contains(problem), "{problem}: {}", answer.error());
        assert_eq!(tree_of(&server.handle()), before);
    };
    check(b"", "the body is empty");
    check(b"garbage that is long enough to be anything", "not a snapshot (bad magic)");
    check(&bytes[..bytes.len() / 2], "it ends too early");
    check(&bytes[..bytes.len() - 1], "trailer");
    check(&[&bytes[..], b"x"].concat(), "trailer");
    for at in [20, bytes.len() / 2, bytes.len() - 40] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let answer = post_as(&admin, "/commands/restore", "ip", &damaged);
        assert_eq!((answer.status, tree_of(&server.handle())), (400, before), "byte {at}");
    }
    assert_eq!(post_as(&admin, "/commands/restore", "kerberos x", &bytes).status, 401);
    assert_eq!(get_as(&admin, "/commands/restore", "ip").status, 405);
    assert_eq!(tree_of(&server.handle()), before);
    let leftovers =
        std::fs::read_dir(server.data_dir().join("herdsman-copies/in")).unwrap().count();
    assert_eq!(leftovers, 0);
}

/// Rejected requests used to count, and without an idle timeout each body was late.
#[test]
fn a_rejected_restore_does_not_use_up_the_limit() {
    let (bytes, _) = snapshot();
    let server = TestServer::start();
    let (rate_limit, idle_timeout) = (Duration::from_secs(3600), Duration::ZERO);
    let rationed = AdminSettings { rate_limit, idle_timeout, ..settings() };
    let admin = Admin::start(server.handle(), rationed).unwrap();
    let restore = |body: &[u8]| post_as(&admin, "/commands/restore", "ip", body);
    for _ in 0..2 {
        assert_eq!(restore(b"garbage that is long enough to be anything").status, 400);
    }
    assert_eq!(restore(&bytes).status, 200);
    let next = restore(&bytes);
    assert_eq!((next.status, next.header("retry-after")), (429, Some("3600")));
    assert!(next.error().contains("at most one restore every 3600 s"), "{}", next.error());
}

#[test]
fn compressed_snapshots_are_accepted() {
    use std::io::Write;
    let (bytes, digest) = snapshot();
    let server = TestServer::start();
    let admin = open(server.handle());
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(&bytes).unwrap();
    let answer = post_as(&admin, "/commands/restore", "ip", &packer.finish().unwrap());
    assert_eq!(answer.status, 200, "{}", answer.error());
    assert_eq!(tree_of(&server.handle()).0, digest);
}

#[test]
fn a_member_of_an_ensemble_is_not_restored() {
    let (bytes, _) = snapshot();
    let ensemble = TestEnsemble::start();
    let leader = ensemble.await_leader();
    let admin = open(ensemble.handle(leader));
    let before = tree_of(&ensemble.handle(leader));
    let answer = post_as(&admin, "/commands/restore", "ip", &bytes);
    assert_eq!(answer.status, 409);
    assert!(answer.error().contains("herdsman restore FILE --data-dir"), "{}", answer.error());
    assert_eq!(tree_of(&ensemble.handle(leader)), before);
}

fn config() -> Config {
    let loaded = Config::standalone_default(&SystemProperties::default()).unwrap();
    let mut config = loaded.config;
    config.listen.client =
        Some(herdsman_config::Endpoint { host: Some("127.0.0.1".to_owned()), port: 0 });
    config.storage.data_dir = "/data".into();
    config.storage.log_dir = "/data".into();
    config.storage.preallocate_bytes = 0;
    config.storage.purge = None;
    config
}

/// A power failure after any change of the disk: after a restart the server has either the old tree or the
/// new one, complete, and accepts writes.
#[test]
fn a_crash_leaves_the_state_before_or_after() {
    let (bytes, restored) = snapshot();
    let mut outcomes = [0, 0];
    for cut in 1.. {
        let memory = MemoryDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(memory.clone());
        let server = Server::start_on(config(), &disk).unwrap();
        let address = server.address().unwrap().to_string();
        with_client_of(&address, async |client| {
            client.create("/old", "old").await.unwrap();
        });
        let before = tree_of(&server.handle().unwrap()).0;
        let admin = open(server.handle().unwrap());
        memory.cut_power_after(cut);
        let answer = post_as(&admin, "/commands/restore", "ip", &bytes);
        drop(admin);
        server.kill();
        memory.crash(|_| false);
        let server = Server::start_on(config(), &disk).unwrap();
        let after = tree_of(&server.handle().unwrap()).0;
        let is_new = after == restored;
        assert!(is_new || after == before, "power cut after {cut} changes");
        outcomes[usize::from(is_new)] += 1;
        if answer.status == 200 {
            assert!(is_new, "what was acknowledged is lost, power cut after {cut} changes");
            break;
        }
    }
    assert!(outcomes[0] > 3 && outcomes[1] > 1, "both states were seen: {outcomes:?}");
}
