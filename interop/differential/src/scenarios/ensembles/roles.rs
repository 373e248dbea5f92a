//! What each role reports about itself: handshakes, the membership, four-letter words.

use herdsman_proto::OpCode;

use super::super::{Client, Scenario, create, raw};
use super::ROLES;
use crate::action::{Action, Hello, Secret, Seen};
use crate::call::Call;

pub(super) const HANDSHAKES: Scenario = Scenario {
    name: "role-handshakes",
    about: "timeouts, the read-only byte, versions and passwords of new sessions at every role",
    slots: 1,
    actions: handshakes,
};

fn handshakes(_root: &str) -> Vec<Action> {
    let one = Client(0);
    let mut actions = vec![one.close()];
    for server in ROLES {
        let new = || Hello { server: Some(server), ..Hello::new_session() };
        let mut hellos = Vec::new();
        for read_only in [None, Some(0), Some(1), Some(7)] {
            hellos.push(Hello { read_only, ..new() });
        }
        for timeout_ms in [0, -1, 3999, 4001, 40_001, i32::MAX, i32::MIN] {
            hellos.push(Hello { timeout_ms, ..new() });
        }
        for password in [Secret::Right, Secret::Wrong, Secret::Short, Secret::Null] {
            hellos.push(Hello { password, ..new() });
        }
        for seen in [Seen::Newest, Seen::Ahead, Seen::Negative] {
            hellos.push(Hello { seen, ..new() });
        }
        for (protocol, trailing) in [(1, 0), (-1, 5), (0, 9)] {
            hellos.push(Hello { protocol, trailing, ..new() });
        }
        for hello in hellos {
            let again = Hello { read_only: hello.read_only, ..Hello::again() };
            let timeout_ms = hello.timeout_ms.wrapping_add(1);
            actions.extend([
                one.hello(hello),
                one.hello(Hello { timeout_ms, ..again.clone() }),
                one.hello(Hello { server: Some(server + 1), ..again }),
                one.close(),
            ]);
        }
    }
    actions
}

pub(super) const CONFIG: Scenario = Scenario {
    name: "role-config",
    about: "the membership as every role shows it, and reconfig where it is not enabled",
    slots: 4,
    actions: config,
};

fn config(root: &str) -> Vec<Action> {
    let clients = ROLES.map(Client);
    let path = "/zookeeper/config";
    let mut actions = vec![clients[0].create(root)];
    for client in &clients {
        actions.extend([
            client.watch(OpCode::GetData, path),
            client.watch(OpCode::Exists, path),
            client.read(OpCode::GetChildren2, path),
            client.call(Call::path_only(OpCode::GetAcl, raw(path))),
            client.call(Call::multi(
                OpCode::MultiRead,
                &[Call::read(OpCode::GetData, raw(path), false)],
            )),
            client.set_data(path, "x"),
            client.delete(path),
            client.create(&format!("{path}/x")),
            client.call(Call::reconfig(Some(b"server.9=127.0.0.1:1:2;3"), None, None)),
            client.call(Call::reconfig(None, Some(b"3"), None)),
            client.auth("super:secret"),
            client.call(Call::reconfig(None, Some(b"3"), None)),
            client.call(Call::reconfig(None, None, None)),
            client.read(OpCode::GetData, path),
        ]);
    }
    actions
}

pub(super) const WORDS: Scenario = Scenario {
    name: "role-words",
    about: "four-letter words to every role, as far as their answers follow from the script",
    slots: 4,
    actions: words,
};

fn words(root: &str) -> Vec<Action> {
    let clients = ROLES.map(Client);
    let mut actions = vec![clients[0].create(root)];
    for client in &clients {
        actions.extend([
            client.watch(OpCode::GetData, root),
            client.add_watch(root, 1),
            client.call(create(&format!("{root}/e{}", client.0), 1)),
        ]);
    }
    let ask = |words: &[&str]| {
        let mut actions = Vec::new();
        for server in ROLES {
            let to = |word: &&str| Action::Word { word: (*word).to_owned(), server: Some(server) };
            actions.extend(words.iter().map(to));
        }
        actions
    };
    let all = [
        "ruok", "isro", "srvr", "stat", "conf", "cons", "dump", "wchs", "wchc", "wchp", "dirs",
        "mntr", "envi", "gtmk",
    ];
    actions.extend(ask(&all));
    actions.extend([clients[1].moves(2), clients[2].close(), clients[3].drops()]);
    actions.extend(ask(&["srvr", "wchc", "dump", "mntr"]));
    actions
}
