//! Connections that open, close and send false claims.

use herdsman_proto::{Acl, OpCode, Perms};

use super::writes::plain_create;
use super::{Generator, Place};
use crate::action::{Action, Cut, Hello, Secret, Seen, Target, Xids};
use crate::call::Call;

impl Generator {
    /// The session of an attached slot ends, moves, or is claimed by another slot.
    pub(super) fn session_action(&mut self, slot: usize) -> Action {
        if self.servers > 1 && self.rng.percent(35) {
            return match self.rng.below(5) {
                0 => self.cut(slot),
                _ => self.move_at_once(slot),
            };
        }
        match self.rng.weighted(&[30, 20, 20, 8, 6, 6, 4, 6]) {
            0 => Action::call(slot, Call::close_session()),
            1 => Action::Drop { slot },
            // A second connection for the same session: the first one is closed.
            2 => self.reattach(slot),
            3 => self.hello(slot, Hello { password: Secret::Wrong, ..Hello::again() }),
            4 => self.hello(slot, Hello { target: Target::Unknown, ..Hello::again() }),
            5 => self.hello(slot, Hello { seen: Seen::Ahead, ..Hello::again() }),
            6 => {
                let password = *self.rng.pick(&[Secret::Short, Secret::Empty, Secret::Null]);
                self.hello(slot, Hello { password, ..Hello::again() })
            }
            _ => Action::call(slot, self.set_watches()),
        }
    }

    /// Requests, and immediately afterwards the same session on another connection, before other servers
    /// can have applied their txns. What it reads there must be at least as new as what it has seen.
    fn move_at_once(&mut self, slot: usize) -> Action {
        let mut hello = Hello::again();
        self.vary(&mut hello);
        self.choose_server(&mut hello);
        let first = if self.rng.percent(50) {
            self.burst(slot)
        } else {
            Action::call(slot, self.write(Place::Alone))
        };
        let mut actions = vec![first, Action::Drop { slot }, Action::Hello { slot, hello }];
        // Nothing after setWatches: the events it withholds are checked against the state after the action.
        actions.push(match self.rng.percent(30) {
            true => Action::call(slot, self.set_watches()),
            false => self.burst(slot),
        });
        Action::Chain(actions)
    }

    /// A cut, which uses its own new znode.
    fn cut(&mut self, slot: usize) -> Action {
        let folder = format!("/cut{}-{}", &self.root[1..], self.cuts);
        self.cuts += 1;
        let mut hello = Hello::again();
        hello.server = self.any_server();
        let cut = Cut {
            folder: folder.clone(),
            writes: 1 + self.rng.below(40),
            after_first_reply: self.rng.percent(50),
            hello,
        };
        let delete = Call::numbered(OpCode::Delete, Some(folder.as_bytes()), -1);
        self.queued.extend([Action::call(slot, delete), Action::Cut { slot, cut }]);
        let open = [Acl::world(Perms::ALL)];
        Action::call(slot, Call::create(&plain_create(folder.as_bytes(), b"", &open)))
    }

    fn hello(&mut self, slot: usize, mut hello: Hello) -> Action {
        self.vary(&mut hello);
        self.choose_server(&mut hello);
        Action::Hello { slot, hello }
    }

    /// Reconnects, and often sets watches again, as clients do.
    pub(super) fn reattach(&mut self, slot: usize) -> Action {
        if self.rng.percent(60) {
            let call = self.set_watches();
            self.queued.push(Action::call(slot, call));
        }
        self.hello(slot, Hello::again())
    }

    /// A new session requested in an unusual way.
    pub(super) fn odd_hello(&mut self) -> Hello {
        let mut hello = Hello::new_session();
        self.vary(&mut hello);
        hello.password = *self.rng.pick(&[
            Secret::Right,
            Secret::Wrong,
            Secret::Short,
            Secret::Empty,
            Secret::Null,
        ]);
        hello.seen = *self.rng.pick(&[Seen::Zero, Seen::Newest, Seen::Negative]);
        hello
    }

    /// A slot without a session takes that of another one, whose connection stays open.
    pub(super) fn claim(&mut self, slot: usize) -> Action {
        let other = self.rng.below(self.slots);
        self.hello(slot, Hello { target: Target::Of(other), ..Hello::again() })
    }

    /// In an ensemble: the server of a connection, and how its requests are numbered.
    pub(super) fn choose_server(&mut self, hello: &mut Hello) {
        hello.server = self.any_server();
        if self.servers > 1 && self.rng.percent(40) {
            hello.xids = Xids::Restart;
        }
    }

    pub(super) fn any_server(&mut self) -> Option<usize> {
        (self.servers > 1 && self.rng.percent(70)).then(|| self.rng.below(self.servers))
    }

    fn vary(&mut self, hello: &mut Hello) {
        // Short timeouts are raised to the minimum, which is long enough for every action.
        if self.rng.percent(30) {
            hello.timeout_ms = *self.rng.pick(&[20_000, 40_000, 40_001, 1_000_000, i32::MAX]);
        }
        if self.rng.percent(30) {
            hello.read_only = *self.rng.pick(&[None, Some(0), Some(1)]);
        }
        if self.rng.percent(5) {
            hello.protocol = *self.rng.pick(&[1, -1]);
        }
        if self.rng.percent(5) && hello.read_only.is_some() {
            hello.trailing = 3;
        }
    }
}
