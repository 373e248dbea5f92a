//! Taking snapshots through the port.

use super::{SUPER, get, get_as, open, post_as, settings, tree_of, with_client, with_super};
use herdsman_admin::{Admin, AdminSettings};
use herdsman_client::{Acl, Client, Lifetime, Perms};
use herdsman_testing::TestServer;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn a_snapshot_needs_all_permissions_on_the_root() {
    let server = TestServer::start_with(with_super);
    let admin = open(server.handle());
    let status = |authorization| {
        let answer = get_as(&admin, "/commands/snapshot?streaming=false", authorization);
        (answer.status, answer.error())
    };
    let missing = get(&admin, "/commands/snapshot");
    assert_eq!(
        (missing.status, missing.error()),
        (401, "Auth info is missing for the command".to_owned())
    );
    assert_eq!(status("kerberos x"), (401, "Not authenticated".to_owned()));
    assert_eq!(status("digest a b"), (401, "Not authenticated".to_owned()));
    // The root is open to everyone at first, so any credentials will do.
    assert_eq!(status("digest x:y"), (200, String::new()));
    assert_eq!(status("ip"), (200, String::new()));
    with_client(&server, async |client| {
        client.set_acl("/", vec![Acl::world(Perms::READ)]).await.unwrap();
    });
    // A subset of the permissions is not enough (CVE-2025-58457).
    assert_eq!(status("digest x:y"), (403, "Not authorized".to_owned()));
    assert_eq!(status("ip"), (403, "Not authorized".to_owned()));
    assert_eq!(status(SUPER), (200, String::new()));
    assert_eq!(status("Basic c3VwZXI6dGVzdA=="), (200, String::new()));
}

#[test]
fn a_snapshot_can_be_disabled_and_is_rate_limited() {
    let server = TestServer::start();
    let off = AdminSettings { snapshots: false, restores: false, ..settings() };
    let admin = Admin::start(server.handle(), off).unwrap();
    assert_eq!(get_as(&admin, "/commands/snapshot", "ip").status, 503);
    assert_eq!(post_as(&admin, "/commands/restore", "ip", b"x").status, 503);
    let rationed = AdminSettings { rate_limit: Duration::from_secs(3600), ..settings() };
    let admin = Admin::start(server.handle(), rationed).unwrap();
    assert_eq!(get_as(&admin, "/commands/snapshot", "ip").status, 200);
    let second = get_as(&admin, "/commands/snapshot", "ip");
    assert_eq!(second.status, 429);
    assert!(second.error().contains("admin.rateLimiterIntervalInMS"), "{}", second.error());
    assert_eq!(second.header("retry-after"), Some("3600"));
}

#[test]
fn a_snapshot_in_the_data_directory_is_the_newest_there() {
    let server = TestServer::start();
    let admin = open(server.handle());
    with_client(&server, async |client| {
        client.create("/a", "x").await.unwrap();
    });
    let zxid = tree_of(&server.handle()).1;
    let answer = get_as(&admin, "/commands/snapshot?streaming=false", "ip");
    assert_eq!((answer.status, answer.header("last_zxid")), (200, Some(&*zxid.to_string())));
    let file = server.version_dir().join(format!("snapshot.{:x}", zxid.0));
    let bytes = std::fs::metadata(file).unwrap().len();
    assert_eq!(answer.header("snapshot_size"), Some(&*bytes.to_string()));
    assert_eq!(get(&admin, "/commands/last_snapshot").json()["zxid"], format!("{:x}", zxid.0));
}

#[test]
fn a_stream_has_the_headers_of_a_snapshot() {
    let server = TestServer::start();
    let admin = open(server.handle());
    with_client(&server, async |client| {
        client.create("/a", vec![7; 300_000]).await.unwrap();
        client.create("/a/e", "x").lifetime(Lifetime::Ephemeral).await.unwrap();
    });
    let answer = get_as(&admin, "/commands/snapshot", "ip");
    let bytes = answer.body.len().to_string();
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    assert_eq!(answer.header("snapshot_size"), Some(&*bytes));
    assert_eq!(answer.header("last_zxid"), Some(&*tree_of(&server.handle()).1.to_string()));
    assert!(answer.body.starts_with(b"ZKSN") && answer.body.ends_with(b"\0\0\0\x01/"));
    // The copy was deleted: the next one finds the directory empty.
    assert_eq!(get_as(&admin, "/commands/snapshot", "ip").body, answer.body);
}

/// Writers create, change and delete znodes all the time; the copy must still be of one moment.
#[test]
fn a_copy_of_a_busy_server_is_exact() {
    let server = TestServer::start();
    let admin = open(server.handle());
    with_client(&server, async |client| {
        for parent in 0..40 {
            client.create(&format!("/p{parent}"), "0").await.unwrap();
            for child in 0..100 {
                client.create(&format!("/p{parent}/c{child}"), "0").await.unwrap();
            }
        }
    });
    let restored = TestServer::start();
    let other = open(restored.handle());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Also on failure: the scope waits for the writers.
        let _stopped = StopAtEnd(&stop);
        for writer in 0..3 {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || {
                with_client(server, async |client| churn(&client, writer, stop).await);
            });
        }
        // Not before the writers have started.
        while tree_of(&server.handle()).1.0 < 4300 {
            std::thread::yield_now();
        }
        let begun_at = tree_of(&server.handle()).1;
        for _ in 0..5 {
            let before = tree_of(&server.handle()).1;
            let copy = get_as(&admin, "/commands/snapshot", "ip");
            assert_eq!(copy.status, 200, "{}", String::from_utf8_lossy(&copy.body));
            let zxid = copy.header("last_zxid").unwrap().trim_start_matches("0x").to_owned();
            let zxid = i64::from_str_radix(&zxid, 16).unwrap();
            assert!(zxid >= before.0, "an old copy");
            // Restoring the copy verifies its digest.
            let answer = post_as(&other, "/commands/restore", "ip", &copy.body);
            assert_eq!(answer.status, 200, "{}", answer.error());
            assert_eq!(answer.json()["last_zxid"], zxid);
        }
        assert!(tree_of(&server.handle()).1 > begun_at, "nothing was written");
    });
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn churn(client: &Client, writer: usize, stop: &AtomicBool) {
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let parent = format!("/p{}", (round * 7 + writer) % 40);
        let path = format!("{parent}/c{}", round % 100);
        let own = format!("{parent}/w{writer}");
        _ = client.set(&path, format!("{writer} {round}")).await;
        _ = client.create(&own, "").await;
        _ = client.create(&format!("{own}/below"), "").await;
        _ = client.set_acl(&path, vec![Acl::world(Perms(1 + (round % 31) as i32))]).await;
        _ = client.set_acl(&path, vec![Acl::world(Perms::ALL)]).await;
        if round % 3 == 0 {
            _ = client.delete(&format!("{own}/below")).await;
            _ = client.delete(&own).await;
        }
    }
}
