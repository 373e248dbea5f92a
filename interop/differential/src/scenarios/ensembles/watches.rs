//! Watches across servers: set again after a move, removed, notified of changes at other servers.

use herdsman_proto::OpCode;

use super::super::{Client, Scenario, create, delete, raw};
use super::ROLES;
use crate::action::{Action, Hello, Xids};
use crate::call::Call;
use crate::roles::{FOLLOWER, LEADER, OBSERVER, OTHER_FOLLOWER};

pub(super) const AGAIN: Scenario = Scenario {
    name: "move-watches",
    about: "setWatches and setWatches2 at another server report missed changes",
    slots: 2,
    actions: again,
};

fn again(root: &str) -> Vec<Action> {
    let (other, mover) = (Client(0), Client(1));
    let path = |name: &str| format!("{root}/{name}");
    let list = |names: &[&str]| names.iter().map(|n| path(n).into_bytes()).collect();
    let mut actions = vec![other.create(root)];
    actions.extend(["same", "changed", "deleted", "parent"].map(|name| other.create(&path(name))));
    let reads = [("same", true), ("changed", true), ("deleted", true), ("new", false)];
    actions.extend(reads.map(|(name, is_there)| {
        let op = if is_there { OpCode::GetData } else { OpCode::Exists };
        mover.watch(op, &path(name))
    }));
    actions.extend([
        mover.watch(OpCode::GetChildren, &path("parent")),
        mover.drops(),
        other.set_data(&path("changed"), "x"),
        other.delete(&path("deleted")),
        other.create(&path("parent/child")),
        other.create(&path("new")),
    ]);
    let offsets = [(7, false), (0, false), (100, false), (7, true), (9, true), (0, true)];
    for server in ROLES {
        for (offset, is_set_watches_2) in offsets {
            let mut lists: Vec<Vec<Vec<u8>>> = vec![
                list(&["same", "changed", "deleted"]),
                list(&["same", "new", "later"]),
                list(&["same", "parent", "deleted"]),
            ];
            if is_set_watches_2 {
                lists.push(list(&["same", "deleted"]));
                lists.push(list(&["parent"]));
            }
            let xids = if is_set_watches_2 { Xids::Continue } else { Xids::Restart };
            actions.extend([
                mover.hello(Hello { xids, ..Hello::at(server) }),
                mover.call(Call::set_watches(offset, &lists)),
                other.set_data(&path("same"), "y"),
                other.create(&path("later")),
                other.create(&path("parent/other")),
                other.delete(&path("parent/other")),
                other.delete(&path("later")),
                mover.set_data(&path("same"), "z"),
                mover.drops(),
            ]);
        }
    }
    actions
}

pub(super) const REMOVAL: Scenario = Scenario {
    name: "move-removal",
    about: "checkWatches and removeWatches after a move, before and after watches are set again",
    slots: 2,
    actions: removal,
};

fn removal(root: &str) -> Vec<Action> {
    let (other, mover) = (Client(0), Client(1));
    let list = || vec![root.as_bytes().to_vec()];
    let mut actions = vec![other.create(root)];
    let check = |kind| mover.call(Call::numbered(OpCode::CheckWatches, raw(root), kind));
    let remove = |kind| mover.call(Call::numbered(OpCode::RemoveWatches, raw(root), kind));
    for server in [OTHER_FOLLOWER, LEADER, OBSERVER, FOLLOWER] {
        for kind in 1..=5 {
            actions.extend([
                mover.watch(OpCode::GetData, root),
                mover.watch(OpCode::GetChildren, root),
                mover.add_watch(root, 0),
                mover.add_watch(root, 1),
                mover.moves(server),
                check(kind),
                remove(kind),
                other.set_data(root, "no watcher"),
                mover.call(Call::set_watches(1000, &[list(), Vec::new(), list(), list(), list()])),
                check(kind),
                remove(kind),
                check(kind),
                other.set_data(root, "some watchers"),
                other.create(&format!("{root}/x")),
                other.delete(&format!("{root}/x")),
                remove(3),
            ]);
        }
    }
    actions
}

pub(super) const ACROSS: Scenario = Scenario {
    name: "watch-across",
    about: "every server notifies its clients of changes through any other, in order",
    slots: 4,
    actions: across,
};

fn across(root: &str) -> Vec<Action> {
    let clients = ROLES.map(Client);
    let (a, b) = (format!("{root}/a"), format!("{root}/a/b"));
    let mut actions = vec![clients[0].create(root)];
    actions.extend([clients[1].add_watch(root, 1), clients[2].add_watch(&a, 0)]);
    for writer in &clients {
        for client in &clients {
            actions.extend([
                client.watch(OpCode::Exists, &a),
                client.watch(OpCode::GetChildren, root),
            ]);
        }
        actions.push(writer.create(&a));
        for client in &clients {
            actions.extend([
                client.watch(OpCode::GetData, &a),
                client.watch(OpCode::GetChildren2, &a),
            ]);
        }
        actions.push(writer.burst(vec![
            Call::set_data(raw(&a), Some(b"1"), 0),
            create(&b, 0),
            Call::read(OpCode::GetData, raw(&b), true),
            Call::set_data(raw(&b), Some(b"2"), 0),
            Call::multi(OpCode::Multi, &[delete(&b), create(&b, 0), delete(&b), delete(&a)]),
            Call::read(OpCode::Exists, raw(&a), true),
            create(&a, 0),
            delete(&a),
        ]));
    }
    actions
}
