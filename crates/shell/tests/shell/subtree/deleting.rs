//! `deleteall` while other clients delete, too.

use std::time::Duration;

use herdsman_proto::OpCode;
use herdsman_testing::proxy::{Fault, ObservedFrame, TestProxy};

use crate::world::{World, shell};

/// A transaction in which a znode is missing used to be replaced by a deletion for each of its znodes: two `deleteall`
/// at once made a txn for every znode.
#[test]
fn znodes_that_others_delete_do_not_cost_a_txn_for_each() {
    // What another client deletes while the transaction is in flight, the expected count, and the number of writes.
    for (others, count, writes) in [
        ("delete /t/3\ndelete /t/5\n", 49, 2),
        ("deleteall -y /t\n", 0, 1),
        ("delete /t/3\ndelete /t/5\ncreate /t/3\n", 50, 2),
    ] {
        let world = World::start();
        let create: String = (0..50).map(|at| format!("create /t/{at}\n")).collect();
        world.pipe_ok(&format!("create /t\n{create}"));
        let proxy = TestProxy::start(world.server.address());
        let held = proxy.once(OpCode::Multi, Fault::HoldRequest);
        let servers = proxy.connect_string();
        let ran = std::thread::scope(|scope| {
            let words = ["-s", &servers, "--json", "deleteall", "-y", "/t"];
            let deleting = scope.spawn(move || shell(&words, ""));
            assert!(held.wait_fired(Duration::from_secs(30)), "{others}");
            world.pipe_ok(others);
            held.release();
            deleting.join().unwrap()
        });
        let said = ran.ok();
        assert!(said.contains(&format!("\"count\":{count}")), "{others}: {said}");
        assert_eq!(world.run(&["ls", "/"]).ok(), "[zookeeper]\n", "{others}");
        let mut sent = proxy.log();
        sent.retain(|seen| match seen.what {
            ObservedFrame::Request { op, .. } => matches!(op, OpCode::Multi | OpCode::Delete),
            _ => false,
        });
        assert_eq!(sent.len(), writes, "{others}: {sent:?}");
    }
}
