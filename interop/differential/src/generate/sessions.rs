//! Connections that come, go and lie.

use super::Generator;
use crate::action::{Action, Hello, Secret, Seen, Target};
use crate::call::Call;

impl Generator {
    /// The session of an attached slot ends, moves, or is claimed by somebody else.
    pub(super) fn session_action(&mut self, slot: usize) -> Action {
        match self.rng.weighted(&[30, 20, 20, 8, 6, 6, 4, 6]) {
            0 => Action::call(slot, Call::close_session()),
            1 => Action::Drop { slot },
            // A second connection for the same session: the first one is closed.
            2 => self.come_back(slot),
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

    fn hello(&mut self, slot: usize, mut hello: Hello) -> Action {
        self.vary(&mut hello);
        Action::Hello { slot, hello }
    }

    /// Re-attach, and often set watches again, as clients do.
    pub(super) fn come_back(&mut self, slot: usize) -> Action {
        if self.rng.percent(60) {
            let call = self.set_watches();
            self.queued.push(Action::call(slot, call));
        }
        self.hello(slot, Hello::again())
    }

    /// A new session asked for in an unusual way.
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

    fn vary(&mut self, hello: &mut Hello) {
        // Short timeouts are clamped up to the minimum, which is long enough for every action.
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
