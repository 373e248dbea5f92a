//! The next connection of a session is at another server.

use herdsman_proto::OpCode;

use super::super::{Client, Scenario, check, create, create_with, delete, raw};
use super::{PAIRS, ROLES, opens, takes};
use crate::action::{Action, Hello, Secret, Seen, Target, Xids};
use crate::call::Call;
use crate::roles::{FOLLOWER, LEADER, OBSERVER, OTHER_FOLLOWER};

pub(super) const EPHEMERALS: Scenario = Scenario {
    name: "move-ephemerals",
    about: "a session takes its ephemerals along from server to server, and they go with it",
    slots: 4,
    actions: ephemerals,
};

fn ephemerals(root: &str) -> Vec<Action> {
    let (other, mover, third) = (Client(0), Client(1), Client(2));
    let path = |name: usize| format!("{root}/e{name}");
    let mut actions = vec![
        other.create(root),
        third.add_watch(root, 1),
        other.watch(OpCode::GetChildren, root),
        mover.call(create(&path(0), 1)),
    ];
    for (name, server) in [OTHER_FOLLOWER, LEADER, OBSERVER, FOLLOWER].into_iter().enumerate() {
        let xids = if name % 2 == 0 { Xids::Restart } else { Xids::Continue };
        actions.extend([
            mover.hello(Hello { xids, ..Hello::at(server) }),
            mover.call(Call::path_only(OpCode::GetEphemerals, None)),
            mover.call(create(&path(name + 1), 1)),
            mover.call(create(&format!("{root}/s-"), 3)),
            mover.set_data(&path(0), "moved"),
            mover.call(Call::path_only(OpCode::GetEphemerals, raw(root))),
            mover.call(Call::who_am_i()),
            other.read(OpCode::GetData, &path(0)),
            third.read(OpCode::GetChildren2, root),
            other.delete(&path(name + 1)),
        ]);
    }
    actions.extend([
        other.watch(OpCode::Exists, &path(0)),
        mover.close(),
        third.read(OpCode::GetChildren2, root),
        mover.moves(LEADER),
        mover.moves(FOLLOWER),
    ]);
    actions
}

pub(super) const OLD_CONNECTION: Scenario = Scenario {
    name: "move-old-connection",
    about: "what the old connection of a session may still do after the session has moved",
    slots: 3,
    actions: old_connection,
};

/// Not here: closeSession, which Herdsman accepts only from the server that has the session
/// (docs/compatibility.md).
fn old_connection(root: &str) -> Vec<Action> {
    let (old, new, witness) = (Client(0), Client(1), Client(2));
    let path = format!("{root}/x");
    let mut actions = vec![witness.create(root), old.close(), new.close()];
    let calls: [&dyn Fn() -> Call; 18] = [
        &|| create(&path, 0),
        &|| create(&path, 1),
        &|| create_with(OpCode::CreateContainer, &path, 4, Some(&super::super::open_acl()), None),
        &|| Call::set_data(raw(root), Some(b"x"), -1),
        &|| Call::set_acl(raw(root), Some(&super::super::open_acl()), -1),
        &|| delete(&path),
        &|| Call::multi(OpCode::Multi, &[create(&path, 0), check(root, -1)]),
        &|| Call::multi(OpCode::Multi, &[check(&path, -1), create(&path, 0)]),
        &|| Call::multi(OpCode::Multi, &[]),
        &|| Call::multi(OpCode::MultiRead, &[Call::read(OpCode::GetData, raw(root), true)]),
        &|| Call::path_only(OpCode::Sync, raw(root)),
        &|| Call::read(OpCode::GetData, raw(root), true),
        &|| Call::read(OpCode::Exists, raw(&path), true),
        &|| Call::numbered(OpCode::AddWatch, raw(root), 1),
        &|| Call::numbered(OpCode::CheckWatches, raw(root), 3),
        &|| Call::auth(Some(b"digest"), Some(b"u0:p0")),
        &|| Call::path_only(OpCode::GetEphemerals, None),
        &|| Call::set_watches(0, &[vec![path.clone().into_bytes()], vec![], vec![]]),
    ];
    for (from, to) in PAIRS {
        for call in calls {
            actions.extend([
                opens(0, from),
                takes(1, 0, to),
                old.call(call()),
                new.read(OpCode::GetChildren2, root),
                new.call(create(&path, 1)),
                old.read(OpCode::GetData, root),
                old.call(create(&path, 0)),
                new.close(),
                witness.call(delete(&path)),
                // Ended, whatever the old connection was answered.
                old.moves(from),
            ]);
        }
    }
    actions
}

pub(super) const CLAIMS: Scenario = Scenario {
    name: "move-claims",
    about: "wrong claims to a session at another server leave it, and its connection, alone",
    slots: 3,
    actions: claims,
};

fn claims(root: &str) -> Vec<Action> {
    let (claimer, owner, witness) = (Client(0), Client(1), Client(2));
    let mut actions = vec![
        witness.create(root),
        owner.call(create(&format!("{root}/e"), 1)),
        owner.watch(OpCode::GetData, root),
        claimer.close(),
    ];
    for server in ROLES {
        for password in [Secret::Wrong, Secret::Short, Secret::Empty, Secret::Null, Secret::Right] {
            let target = Target::Of(1);
            let hello = Hello { target, password, ..Hello::at(server) };
            actions.extend([
                claimer.hello(hello.clone()),
                claimer.hello(Hello { seen: Seen::Ahead, ..hello.clone() }),
                claimer.hello(Hello { target: Target::Unknown, ..hello }),
                claimer.read(OpCode::Exists, root),
                owner.set_data(root, "mine"),
                owner.watch(OpCode::GetData, root),
                owner.hello(Hello::at(FOLLOWER)),
                owner.set_data(&format!("{root}/e"), "mine again"),
            ]);
        }
    }
    actions
}

pub(super) const EXPIRED: Scenario = Scenario {
    name: "move-expired",
    about: "a session that expires while it has no connection is expired at every server",
    slots: 3,
    actions: expired,
};

fn expired(root: &str) -> Vec<Action> {
    let (witness, sleeper, other) = (Client(0), Client(1), Client(2));
    let path = format!("{root}/e");
    let short = Hello { timeout_ms: 4000, server: Some(FOLLOWER), ..Hello::new_session() };
    let mut actions = vec![
        witness.create(root),
        sleeper.close(),
        sleeper.hello(short),
        sleeper.call(create(&path, 1)),
        // It moves and is alive there.
        sleeper.hello(Hello { timeout_ms: 4000, ..Hello::at(OTHER_FOLLOWER) }),
        sleeper.set_data(&path, "x"),
        witness.watch(OpCode::Exists, &path),
        sleeper.drops(),
        Action::Await { slot: 0 },
    ];
    for server in ROLES {
        actions.extend([sleeper.moves(server), other.read(OpCode::GetChildren2, root)]);
    }
    actions
}

pub(super) const AT_ONCE: Scenario = Scenario {
    name: "move-at-once",
    about: "a client that moves with all it has seen reads its own writes at the next server",
    slots: 2,
    actions: at_once,
};

fn at_once(root: &str) -> Vec<Action> {
    let (witness, mover) = (Client(0), Client(1));
    let mut actions = vec![witness.create(root), witness.add_watch(root, 1)];
    let mut number = 0;
    for xids in [Xids::Continue, Xids::Restart] {
        for (from, to) in PAIRS {
            let hello = |server| mover.hello(Hello { xids, ..Hello::at(server) });
            let path = |name: &str| format!("{root}/{name}-{number}");
            actions.push(Action::Chain(vec![
                hello(from),
                mover.call(create(&path("a"), 0)),
                mover.drops(),
                hello(to),
                mover.watch(OpCode::GetData, &path("a")),
                mover.burst(vec![
                    Call::set_data(raw(&path("a")), Some(b"1"), 0),
                    create(&path("e"), 1),
                    Call::read(OpCode::GetData, raw(&path("a")), false),
                    delete(&path("a")),
                    Call::path_only(OpCode::GetEphemerals, raw(root)),
                ]),
                mover.drops(),
                hello(from),
                mover.read(OpCode::Exists, &path("a")),
                mover.call(delete(&path("e"))),
                mover.read(OpCode::GetChildren2, root),
            ]));
            number += 1;
        }
    }
    actions
}

pub(super) const CREDENTIALS: Scenario = Scenario {
    name: "move-credentials",
    about: "identities stay with a connection; the next server wants them again, and checks by them",
    slots: 2,
    actions: credentials,
};

fn credentials(root: &str) -> Vec<Action> {
    let (other, mover) = (Client(0), Client(1));
    let mine = super::super::acls::only_auth();
    let mut actions = vec![other.create(root)];
    for (name, server) in ROLES.into_iter().enumerate() {
        let locked = format!("{root}/locked{name}");
        let make = |op| create_with(op, &locked, 0, Some(&mine), None);
        let acl = || Call::path_only(OpCode::GetAcl, raw(&locked));
        actions.extend([
            mover.moves(server),
            mover.call(make(OpCode::Create)),
            mover.auth("u0:p0"),
            mover.call(make(OpCode::Create2)),
            mover.call(acl()),
            mover.read(OpCode::GetData, &locked),
        ]);
        for next in ROLES {
            actions.extend([
                mover.moves(next),
                mover.call(Call::who_am_i()),
                mover.watch(OpCode::GetData, &locked),
                mover.watch(OpCode::Exists, &locked),
                mover.set_data(&locked, "no"),
                mover.call(acl()),
                mover.call(Call::set_acl(raw(&locked), Some(&mine), -1)),
                mover.create(&format!("{locked}/child")),
                mover.call(Call::multi(OpCode::Multi, &[check(&locked, -1)])),
                mover.auth("u0:p0"),
                mover.call(Call::who_am_i()),
                mover.burst(vec![
                    Call::read(OpCode::GetData, raw(&locked), true),
                    Call::set_data(raw(&locked), Some(b"yes"), -1),
                    create(&format!("{locked}/child"), 0),
                    delete(&format!("{locked}/child")),
                ]),
                mover.call(Call::set_acl(raw(&locked), Some(&mine), -1)),
                other.read(OpCode::GetData, &locked),
                other.delete(&locked),
            ]);
        }
        actions.extend([
            mover.moves(server),
            mover.auth("super:secret"),
            mover.call(Call::set_acl(raw(&locked), Some(&super::super::open_acl()), -1)),
            other.set_data(&locked, "open"),
        ]);
    }
    // Rejected credentials close the connection at every server; the session stays.
    for server in ROLES {
        actions.extend([
            mover.moves(server),
            mover.call(Call::auth(Some(b"digest"), Some(b"nocolon"))),
            mover.moves(LEADER),
            mover.read(OpCode::Exists, root),
        ]);
    }
    actions
}
