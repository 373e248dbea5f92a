//! The same requests through every role.

use herdsman_proto::OpCode;

use super::super::{Client, Scenario, check, create, create_with, delete, open_acl, raw};
use super::ROLES;
use crate::action::Action;
use crate::call::{Call, Create};

pub(super) const CREATES: Scenario = Scenario {
    name: "role-creates",
    about: "znodes of every kind made through every role, seen through every other",
    slots: 4,
    actions: creates,
};

fn creates(root: &str) -> Vec<Action> {
    let clients = ROLES.map(Client);
    let open = open_acl();
    let mut actions = vec![clients[0].create(root)];
    for (number, writer) in clients.iter().enumerate() {
        let path = |name: &str| format!("{root}/{name}{number}");
        let make = |op, name: &str, flags, ttl| {
            writer.call(create_with(op, &path(name), flags, Some(&open), ttl))
        };
        actions.extend([
            make(OpCode::Create, "plain", 0, None),
            make(OpCode::Create2, "plain2", 0, None),
            make(OpCode::Create2, "ephemeral", 1, None),
            make(OpCode::Create2, "sequence", 2, None),
            make(OpCode::Create, "both", 3, None),
            make(OpCode::CreateContainer, "container", 4, None),
            make(OpCode::CreateTtl, "ttl", 5, Some(3_600_000)),
            make(OpCode::CreateTtl, "ttl-sequence", 6, Some(3_600_000)),
            make(OpCode::CreateTtl, "ttl-wrong", 5, Some(0)),
            make(OpCode::Create2, "flags", 9, None),
            make(OpCode::Create2, "ephemeral", 1, None),
            writer.create(&format!("{}/child", path("ephemeral"))),
            writer.create(&format!("{}/child", path("container"))),
            writer.create(&format!("{root}/nothing/child")),
        ]);
        for reader in &clients {
            actions.push(reader.read(OpCode::GetChildren2, root));
            actions.extend(
                ["plain", "ephemeral", "container", "ttl"]
                    .map(|name| reader.read(OpCode::GetData, &path(name))),
            );
            actions.push(reader.call(Call::path_only(OpCode::GetEphemerals, raw(root))));
            actions.push(reader.call(Call::path_only(OpCode::GetAllChildrenNumber, raw(root))));
        }
    }
    actions
}

pub(super) const MULTIS: Scenario = Scenario {
    name: "role-multis",
    about: "multis with checks, and errors at every place, through every role",
    slots: 4,
    actions: multis,
};

fn multis(root: &str) -> Vec<Action> {
    let clients = ROLES.map(Client);
    let mut actions = vec![clients[0].create(root), clients[3].add_watch(root, 1)];
    for (number, writer) in clients.iter().enumerate() {
        let path = |name: &str| format!("{root}/{name}{number}");
        let multi = |parts: &[Call]| Call::multi(OpCode::Multi, parts);
        let good = || {
            vec![
                check(root, -1),
                create(&path("a"), 0),
                Call::set_data(raw(&path("a")), Some(b"x"), 0),
                check(&path("a"), 1),
                create(&path("e"), 1),
                create(&path("s-"), 2),
                delete(&path("a")),
            ]
        };
        let wrong: [&dyn Fn() -> Call; 5] = [
            &|| check(root, 77),
            &|| check(&path("nothing"), -1),
            &|| create(root, 0),
            &|| delete(root),
            &|| Call::set_data(raw("no path"), None, -1),
        ];
        for wrong in wrong {
            for place in 0..=good().len() {
                let mut parts = good();
                parts.insert(place, wrong());
                actions.push(writer.call(multi(&parts)));
            }
        }
        actions.extend([
            writer.call(multi(&good())),
            writer.call(multi(&[])),
            writer.call(multi(&[check(root, -1)])),
            writer.burst(vec![
                multi(&[create(&path("b"), 0), check(&path("nothing"), -1)]),
                create(&path("b"), 0),
                multi(&[delete(&path("b")), create(&path("b"), 1)]),
                Call::read(OpCode::GetData, raw(&path("b")), true),
                multi(&[delete(&path("b")), delete(&path("b"))]),
                multi(&[delete(&path("b")), check(&path("e"), 0)]),
                create(&path("s-"), 3),
            ]),
        ]);
        actions.extend(clients.iter().map(|client| client.read(OpCode::GetChildren2, root)));
    }
    actions
}

pub(super) const BURSTS: Scenario = Scenario {
    name: "role-bursts",
    about: "many requests at once through every role: replies and events come in order",
    slots: 4,
    actions: bursts,
};

fn bursts(root: &str) -> Vec<Action> {
    let clients = ROLES.map(Client);
    let mut actions = vec![clients[0].create(root)];
    for (number, writer) in clients.iter().enumerate() {
        let folder = format!("{root}/f{number}");
        actions.push(writer.create(&folder));
        for client in &clients {
            actions.push(client.add_watch(&folder, 1));
        }
        for round in 0..4 {
            let mut calls = Vec::new();
            for index in 0..60 {
                let path = format!("{folder}/n{}", index % 7);
                calls.push(match (index + round) % 6 {
                    0 => create(&path, round % 2),
                    1 => Call::read(OpCode::GetData, raw(&path), true),
                    2 => Call::set_data(raw(&path), Some(b"x"), -1),
                    3 => Call::read(OpCode::GetChildren2, raw(&folder), index % 2 == 0),
                    4 => delete(&path),
                    _ if index % 12 == 5 => Call::path_only(OpCode::Sync, raw(&folder)),
                    _ => create(&format!("{folder}/s-"), 2),
                });
            }
            actions.push(writer.burst(calls));
        }
        actions.extend(clients.iter().map(|client| client.read(OpCode::GetChildren2, &folder)));
    }
    actions
}

pub(super) const QUOTAS: Scenario = Scenario {
    name: "role-quotas",
    about: "a hard limit holds through every role, and every server counts alike",
    slots: 4,
    actions: quotas,
};

fn quotas(root: &str) -> Vec<Action> {
    let clients = ROLES.map(Client);
    let one = &clients[0];
    let quota = format!("/zookeeper/quota{root}");
    let stats = format!("{quota}/zookeeper_stats");
    let put = |path: &str, data: &str| {
        Call::create(&Create {
            op: OpCode::Create2,
            path: raw(path),
            data: Some(data.as_bytes()),
            acl: Some(&open_acl()),
            flags: 0,
            ttl_ms: None,
        })
    };
    let limits = "count=-1,bytes=-1=;byteHardLimit=70;countHardLimit=6";
    let mut actions = vec![
        one.create(root),
        one.create(&quota),
        one.call(put(&format!("{quota}/zookeeper_limits"), limits)),
        one.call(put(&stats, "count=0,bytes=0")),
    ];
    for (number, writer) in clients.iter().enumerate() {
        let path = |name: &str| format!("{root}/{name}{number}");
        let requests = [
            put(&path("a"), "1234567890"),
            put(&path("b"), "12345678901234567890"),
            put(&path("c"), "12345678901234567890123456789012345678901234567890"),
            Call::set_data(raw(&path("a")), Some(&[b'x'; 60]), -1),
            Call::set_data(raw(&path("a")), Some(b"short"), -1),
            Call::multi(OpCode::Multi, &[put(&path("d"), "1"), put(&path("e"), "1")]),
            put(&path("f"), ""),
            put(&path("g"), ""),
            delete(&path("b")),
            put(&path("h"), ""),
        ];
        for request in requests {
            actions.push(writer.call(request));
            actions.extend(clients.iter().map(|client| client.read(OpCode::GetData, &stats)));
        }
        actions.extend(["a", "d", "e", "f", "g", "h"].map(|name| one.delete(&path(name))));
    }
    actions.extend([
        one.delete(&format!("{quota}/zookeeper_limits")),
        one.delete(&stats),
        one.delete(&quota),
    ]);
    actions
}

pub(super) const SYNCS: Scenario = Scenario {
    name: "role-syncs",
    about: "sync of every kind of path through every role, also behind writes",
    slots: 4,
    actions: syncs,
};

fn syncs(root: &str) -> Vec<Action> {
    let clients = ROLES.map(Client);
    let mut actions = vec![clients[0].create(root)];
    let missing = format!("{root}/missing");
    let sync = |path: &str| Call::path_only(OpCode::Sync, raw(path));
    for client in &clients {
        for path in [root, &missing, "/", "", "relative", "/zookeeper/config", "//", "/a/"] {
            actions.push(client.call(sync(path)));
        }
        actions.extend([
            client.call(Call::raw(OpCode::Sync.code(), Vec::new(), "sync without a path")),
            client.moves(client.0),
            client.burst(vec![
                sync(root),
                Call::set_data(raw(root), Some(b"1"), -1),
                sync(root),
                sync(root),
                Call::read(OpCode::GetData, raw(root), true),
                Call::set_data(raw(root), Some(b"2"), -1),
                Call::read(OpCode::GetData, raw(root), false),
                sync(&missing),
            ]),
        ]);
    }
    actions
}
