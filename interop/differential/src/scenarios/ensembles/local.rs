//! Sessions that only one server knows, until an ephemeral makes them known to all. Without local sessions,
//! the same scripts show how they differ from others.

use herdsman_proto::OpCode;

use super::super::{Client, Scenario, check, create, create_with, delete, open_acl, raw};
use super::{PAIRS, ROLES, opens, takes};
use crate::action::{Action, Hello, Xids};
use crate::call::Call;

pub(super) const UPGRADES: Scenario = Scenario {
    name: "local-upgrades",
    about: "what makes a local session global: ephemerals, alone, in a multi, in a burst, failed ones",
    slots: 2,
    actions: upgrades,
};

fn upgrades(root: &str) -> Vec<Action> {
    let (one, witness) = (Client(0), Client(1));
    let path = |name: &str| format!("{root}/{name}");
    let mut actions = vec![witness.create(root), witness.add_watch(root, 1), one.close()];
    let multi = |parts: &[Call]| Call::multi(OpCode::Multi, parts);
    let open = open_acl();
    let requests: [Vec<Call>; 13] = [
        vec![create(&path("e"), 1)],
        vec![create_with(OpCode::Create, &path("e"), 1, Some(&open), None)],
        vec![create(&path("e-"), 3)],
        vec![create(&path("nothing/e"), 1)],
        vec![create(&path("p"), 0)],
        vec![create_with(OpCode::CreateContainer, &path("c"), 4, Some(&open), None)],
        vec![create_with(OpCode::CreateTtl, &path("t"), 5, Some(&open), Some(3_600_000))],
        vec![create_with(OpCode::Create2, &path("e"), 1, Some(&[]), None)],
        vec![multi(&[check(root, -1), create(&path("e"), 1)])],
        vec![multi(&[create(&path("e"), 1), check(root, 77)])],
        vec![multi(&[create(&path("p"), 0), delete(&path("p"))])],
        vec![
            create(&path("p"), 0),
            create(&path("e"), 1),
            create(&path("f"), 1),
            delete(&path("p")),
        ],
        vec![
            Call::read(OpCode::GetData, raw(root), true),
            create(&path("e"), 1),
            Call::read(OpCode::GetData, raw(&path("e")), true),
            delete(&path("e")),
            Call::path_only(OpCode::GetEphemerals, None),
        ],
    ];
    for server in ROLES {
        for calls in &requests {
            actions.extend([
                opens(0, server),
                one.read(OpCode::Exists, root),
                one.set_data(root, "x"),
                one.burst(calls.clone()),
                one.call(Call::path_only(OpCode::GetEphemerals, None)),
                one.call(create(&path("later"), 1)),
                witness.read(OpCode::GetChildren2, root),
                one.hello(Hello { xids: Xids::Restart, ..Hello::again() }),
                one.call(Call::path_only(OpCode::GetEphemerals, None)),
                one.close(),
                witness.read(OpCode::GetChildren2, root),
            ]);
            let left = ["p", "c", "t"].map(|name| witness.delete(&path(name)));
            actions.extend(left);
        }
    }
    actions
}

pub(super) const MOVES: Scenario = Scenario {
    name: "local-moves",
    about: "a local session does not move, and stays where it was; an upgraded one moves",
    slots: 3,
    actions: moves,
};

fn moves(root: &str) -> Vec<Action> {
    let (one, two, witness) = (Client(0), Client(1), Client(2));
    let path = format!("{root}/e");
    let mut actions = vec![witness.create(root), one.close(), two.close()];
    for (from, to) in PAIRS {
        for xids in [Xids::Continue, Xids::Restart] {
            let hello = |server| one.hello(Hello { xids, ..Hello::at(server) });
            actions.extend([
                opens(0, from),
                one.watch(OpCode::GetData, root),
                // Before the upgrade: there and back.
                hello(to),
                one.set_data(root, "moved?"),
                hello(from),
                one.set_data(root, "back"),
                // A claim at another server while the first connection is open.
                takes(1, 0, to),
                two.set_data(root, "taken?"),
                one.set_data(root, "still here?"),
                hello(from),
                one.call(create(&path, 1)),
                // After the upgrade.
                hello(to),
                one.set_data(&path, "moved"),
                one.call(Call::path_only(OpCode::GetEphemerals, None)),
                witness.read(OpCode::GetData, &path),
                takes(1, 0, from),
                two.set_data(&path, "taken"),
                one.read(OpCode::GetData, &path),
                one.set_data(&path, "old connection"),
                hello(to),
                two.set_data(&path, "old connection"),
                one.close(),
                witness.read(OpCode::Exists, &path),
                one.moves(from),
                two.moves(to),
                // Ends the session through whichever of the two still has it.
                two.close(),
            ]);
        }
    }
    actions
}
