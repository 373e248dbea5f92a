//! The service's own znodes, quotas and four-letter words.

use herdsman_proto::OpCode;

use super::{Client, Scenario, create_with, open_acl, raw};
use crate::action::Action;
use crate::call::{Call, Create};

pub(super) const OWN_ZNODES: Scenario = Scenario {
    name: "own-znodes",
    about: "reads of the root and /zookeeper, and writes that must not succeed",
    slots: 1,
    actions: own_znodes,
};

fn own_znodes(root: &str) -> Vec<Action> {
    let one = Client(0);
    let open = open_acl();
    let mut actions = vec![one.create(root)];
    for path in ["/", "", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
        let reads = [OpCode::Exists, OpCode::GetData, OpCode::GetChildren, OpCode::GetChildren2];
        actions.extend(reads.map(|op| one.read(op, path)));
        actions.extend([
            one.call(Call::path_only(OpCode::GetAcl, raw(path))),
            one.call(Call::path_only(OpCode::GetAllChildrenNumber, raw(path))),
            one.call(Call::path_only(OpCode::Sync, raw(path))),
            one.create(path),
            one.delete(path),
            one.call(Call::set_data(raw(path), Some(b"x"), 123_456)),
            one.call(Call::set_acl(raw(path), Some(&open), 123_456)),
            one.call(Call::multi(OpCode::Multi, &[super::check(path, -1)])),
            one.call(Call::multi(OpCode::Multi, &[super::delete(path)])),
        ]);
    }
    actions.extend([
        one.create("/zookeeper/config/x"),
        one.delete("/zookeeper/config/x"),
        one.call(Call::reconfig(Some(b"server.2=h:1:2;3"), None, None)),
        one.call(Call::reconfig(None, None, None)),
        one.call(create_with(OpCode::Create, &root[1..], 0, Some(&open), None)),
    ]);
    actions
}

pub(super) const QUOTAS: Scenario = Scenario {
    name: "quotas",
    about: "limits and statistics nodes; hard limits where both servers enforce them",
    slots: 2,
    actions: quotas,
};

fn quotas(root: &str) -> Vec<Action> {
    let (one, two) = (Client(0), Client(1));
    let quota = format!("/zookeeper/quota{root}");
    let limits = format!("{quota}/zookeeper_limits");
    let stats = format!("{quota}/zookeeper_stats");
    let node = |name: usize| format!("{root}/n{name}");
    let put = |path: &str, data: &str| {
        one.call(Call::create(&Create {
            op: OpCode::Create2,
            path: raw(path),
            data: Some(data.as_bytes()),
            acl: Some(&open_acl()),
            flags: 0,
            ttl_ms: None,
        }))
    };
    let mut actions = vec![
        one.create(root),
        put(&node(0), "12345"),
        one.create(&quota),
        two.watch(OpCode::Exists, &stats),
        put(&limits, "count=3,bytes=20"),
        put(&stats, "count=0,bytes=0"),
        two.watch(OpCode::GetData, &stats),
    ];
    let mut name = 0;
    let texts = [
        "count=3,bytes=20",
        "count=-1,bytes=-1=;byteHardLimit=40;countHardLimit=-1",
        "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=6",
        "count=1,bytes=1=;byteHardLimit=60;countHardLimit=8",
    ];
    for text in texts {
        actions.extend([one.set_data(&limits, text), one.read(OpCode::GetData, &limits)]);
        for _ in 0..3 {
            name += 1;
            actions.extend([
                put(&node(name), "1234567890"),
                two.read(OpCode::GetData, &stats),
                one.set_data(&node(name), "123456789012345"),
                one.set_data(&node(0), ""),
                two.read(OpCode::GetData, &stats),
                one.call(Call::multi(
                    OpCode::Multi,
                    &[
                        Call::set_data(raw(&node(0)), Some(b"123"), -1),
                        super::create(&node(name + 100), 0),
                    ],
                )),
                two.read(OpCode::GetData, &stats),
                one.delete(&node(name)),
                two.read(OpCode::GetData, &stats),
                put(&node(name), "1"),
            ]);
        }
    }
    actions.extend([
        one.set_data(root, "on the node itself"),
        two.read(OpCode::GetData, &stats),
        one.delete(&limits),
        put(&node(50), "x"),
        two.read(OpCode::GetData, &stats),
        one.delete(&stats),
        one.delete(&quota),
        one.read(OpCode::GetChildren2, "/zookeeper/quota"),
    ]);
    actions
}

pub(super) const WORDS: Scenario = Scenario {
    name: "words",
    about: "four-letter words, as far as their answers follow from the script",
    slots: 3,
    actions: words,
};

fn words(root: &str) -> Vec<Action> {
    let (one, two) = (Client(0), Client(1));
    let mut actions = vec![
        one.create(root),
        one.watch(OpCode::GetData, root),
        one.watch(OpCode::GetChildren, root),
        two.watch(OpCode::Exists, &format!("{root}/x")),
        two.add_watch(root, 1),
        two.call(super::create(&format!("{root}/e"), 1)),
    ];
    let words = [
        "ruok", "isro", "conf", "srvr", "stat", "cons", "dump", "wchs", "wchc", "wchp", "dirs",
        "mntr", "envi", "gtmk", "crst", "srst", "hash",
    ];
    actions.extend(words.map(Action::word));
    actions.push(two.close());
    actions.extend(["wchs", "dump", "cons", "srvr"].map(Action::word));
    actions
}
