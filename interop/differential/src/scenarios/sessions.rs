//! Handshakes.

use herdsman_proto::OpCode;

use super::{Client, Scenario, create, raw};
use crate::action::{Action, Hello, Secret, Seen, Target};
use crate::call::Call;

fn hello(hello: Hello) -> Action {
    Action::Hello { slot: 0, hello }
}

pub(super) const TIMEOUTS: Scenario = Scenario {
    name: "timeouts",
    about: "the negotiated timeout, for new and for re-attached sessions",
    slots: 1,
    actions: timeouts,
};

fn timeouts(_root: &str) -> Vec<Action> {
    let one = Client(0);
    let mut actions = Vec::new();
    for timeout_ms in
        [0, 1, -1, 3999, 4000, 4001, 10_000, 39_999, 40_000, 40_001, i32::MAX, i32::MIN]
    {
        actions.extend([
            one.close(),
            hello(Hello { timeout_ms, ..Hello::new_session() }),
            hello(Hello { timeout_ms: timeout_ms.wrapping_add(1), ..Hello::again() }),
        ]);
    }
    actions
}

pub(super) const CLAIMS: Scenario = Scenario {
    name: "session-claims",
    about: "right and wrong claims to a session, with and without the read-only byte",
    slots: 1,
    actions: claims,
};

fn claims(root: &str) -> Vec<Action> {
    let one = Client(0);
    let mut actions = vec![one.create(root)];
    let secrets = [Secret::Right, Secret::Wrong, Secret::Short, Secret::Empty, Secret::Null];
    for target in [Target::Own, Target::Unknown] {
        for password in secrets {
            for read_only in [None, Some(0), Some(1), Some(7)] {
                actions.extend([
                    hello(Hello { target, password, read_only, ..Hello::again() }),
                    hello(Hello::again()),
                ]);
            }
        }
    }
    for seen in [Seen::Zero, Seen::Newest, Seen::Ahead, Seen::Negative] {
        actions.extend([hello(Hello { seen, ..Hello::again() }), hello(Hello::again())]);
    }
    // A session that was closed belongs to no client.
    let ended = Hello { target: Target::Own, ..Hello::again() };
    actions.extend([one.close(), hello(ended)]);
    for password in secrets {
        for (protocol, trailing) in [(0, 0), (1, 0), (-1, 5), (0, 9)] {
            actions.extend([
                hello(Hello { password, protocol, trailing, ..Hello::new_session() }),
                one.close(),
            ]);
        }
    }
    actions.push(hello(Hello { seen: Seen::Ahead, ..Hello::new_session() }));
    actions
}

pub(super) const MOVED: Scenario = Scenario {
    name: "session-moved",
    about: "a second connection for a session closes the first and keeps only the ephemerals",
    slots: 2,
    actions: moved,
};

fn moved(root: &str) -> Vec<Action> {
    let (one, two) = (Client(0), Client(1));
    let path = format!("{root}/e");
    vec![
        one.create(root),
        one.call(create(&path, 1)),
        one.watch(OpCode::GetData, root),
        one.add_watch(root, 1),
        hello(Hello::again()),
        // Watches were removed with the connection.
        two.set_data(root, "x"),
        one.call(Call::numbered(OpCode::CheckWatches, raw(root), 3)),
        one.call(Call::path_only(OpCode::GetEphemerals, None)),
        hello(Hello::again()),
        hello(Hello { password: Secret::Wrong, ..Hello::again() }),
        hello(Hello::again()),
        two.read(OpCode::Exists, &path),
        one.close(),
        two.read(OpCode::Exists, &path),
        // Apache answers requests after the end in a burst with -112 or not at all, at random.
        two.burst(vec![create(&path, 1), Call::close_session()]),
    ]
}
