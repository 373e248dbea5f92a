//! Creates of every kind, sequence numbers, ephemerals.

use herdsman_proto::OpCode;

use super::{Client, Scenario, create, create_with, delete, open_acl, raw};
use crate::action::{Action, Hello};
use crate::call::{Call, Create};

pub(super) const MODES: Scenario = Scenario {
    name: "create-modes",
    about: "every create op with every flag and time to live",
    slots: 1,
    actions: modes,
};

fn modes(root: &str) -> Vec<Action> {
    let one = Client(0);
    let open = open_acl();
    let mut actions = vec![one.create(root)];
    let mut number = 0;
    let mut try_create = |op, flags, ttl| {
        number += 1;
        let path = format!("{root}/n{number}-");
        actions.push(one.call(create_with(op, &path, flags, Some(&open), ttl)));
        actions.push(one.read(OpCode::GetData, &path));
        actions.push(one.create(&format!("{path}/child")));
    };
    let flags = [0, 1, 2, 3, 4, 5, 6, 7, 8, -1, i32::MAX, i32::MIN];
    for flags in flags {
        for op in [OpCode::Create, OpCode::Create2, OpCode::CreateContainer] {
            try_create(op, flags, None);
        }
        for ttl in [0, 1, 3_600_000, (1 << 40) - 1, 1 << 40, i64::MAX] {
            try_create(OpCode::CreateTtl, flags, Some(ttl));
        }
    }
    // Negative times to live only where they are refused: see the generator's notes.
    for ttl in [-1, -2, i64::MIN] {
        try_create(OpCode::CreateTtl, 5, Some(ttl));
        try_create(OpCode::CreateTtl, 6, Some(ttl));
    }
    actions.push(one.read(OpCode::GetChildren2, root));
    actions
}

pub(super) const SEQUENCE: Scenario = Scenario {
    name: "create-sequence",
    about: "sequence numbers follow the parent's creations; data, null and empty",
    slots: 1,
    actions: sequence,
};

fn sequence(root: &str) -> Vec<Action> {
    let one = Client(0);
    let seq = |stem: &str| one.call(create(&format!("{root}/{stem}"), 2));
    let mut actions = vec![one.create(root)];
    for _ in 0..3 {
        actions.extend([
            seq("a-"),
            seq(""),
            one.create(&format!("{root}/plain")),
            one.delete(&format!("{root}/plain")),
            one.delete(&format!("{root}/plain")),
            one.call(create(&format!("{root}/e-"), 3)),
            one.read(OpCode::GetChildren2, root),
        ]);
    }
    // Names that only the number makes valid, or that it does not.
    actions.extend(["a/", ".", "..", "x/../", "\u{1}", "/", "//"].map(seq));
    for data in [None, Some(b"".as_slice()), Some(b"x".as_slice())] {
        actions.extend([
            one.call(Call::create(&Create {
                op: OpCode::Create,
                path: raw(&format!("{root}/data")),
                data,
                acl: Some(&open_acl()),
                flags: 0,
                ttl_ms: None,
            })),
            one.read(OpCode::GetData, &format!("{root}/data")),
            one.call(Call::set_data(raw(&format!("{root}/data")), data, -1)),
            one.read(OpCode::GetData, &format!("{root}/data")),
            one.call(Call::set_data(raw(&format!("{root}/data")), None, 1)),
            one.call(Call::set_data(raw(&format!("{root}/data")), None, -2)),
            one.delete(&format!("{root}/data")),
        ]);
    }
    actions
}

pub(super) const EPHEMERALS: Scenario = Scenario {
    name: "ephemerals",
    about: "ephemerals belong to a session, outlive a connection, go with the session",
    slots: 3,
    actions: ephemerals,
};

fn ephemerals(root: &str) -> Vec<Action> {
    let (one, two, three) = (Client(0), Client(1), Client(2));
    let path = |name: &str| format!("{root}/{name}");
    let list = |client: &Client, prefix: Option<&str>| {
        let prefix = prefix.map(str::as_bytes);
        client.call(Call::path_only(OpCode::GetEphemerals, prefix))
    };
    vec![
        one.create(root),
        three.add_watch(root, 1),
        three.watch(OpCode::GetChildren, root),
        one.call(create(&path("e1"), 1)),
        one.call(create(&path("e2"), 1)),
        one.call(create(&path("e-"), 3)),
        two.call(create(&path("other"), 1)),
        one.create(&path("e1/child")),
        list(&one, None),
        list(&one, Some("/")),
        list(&one, Some(" ")),
        list(&one, Some(&path("e1"))),
        list(&one, Some("nonsense")),
        list(&two, Some(root)),
        list(&three, None),
        two.set_data(&path("e1"), "by another"),
        two.delete(&path("e2")),
        Action::Drop { slot: 0 },
        two.read(OpCode::GetData, &path("e1")),
        Action::Hello { slot: 0, hello: Hello::again() },
        list(&one, None),
        three.watch(OpCode::GetChildren, root),
        three.watch(OpCode::GetData, &path("e1")),
        one.close(),
        two.read(OpCode::GetChildren2, root),
        // The end of a session behind its own writes, in one burst.
        two.burst(vec![
            create(&path("last"), 1),
            delete(&path("other")),
            create(&path("other"), 1),
            Call::close_session(),
        ]),
        three.read(OpCode::GetChildren2, root),
        three.call(Call::path_only(OpCode::GetAllChildrenNumber, raw(root))),
        three.call(Call::path_only(OpCode::GetAllChildrenNumber, raw("/"))),
    ]
}
