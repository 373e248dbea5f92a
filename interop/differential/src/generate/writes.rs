//! Requests that change the tree.

use herdsman_proto::{Acl, OpCode, Perms};

use super::paths::SPECIAL;
use super::{Generator, Place};
use crate::call::{Call, Create};

/// A version that no znode reaches: such a write must fail.
const UNREACHED_VERSION: i32 = 123_456;

/// Op, flags and TTL.
type CreateMode = (OpCode, i32, Option<i64>);

/// An ordinary create.
pub(super) fn plain_create<'a>(path: &'a [u8], data: &'a [u8], acl: &'a [Acl]) -> Create<'a> {
    Create {
        op: OpCode::Create2,
        path: Some(path),
        data: Some(data),
        acl: Some(acl),
        flags: 0,
        ttl_ms: None,
    }
}

impl Generator {
    pub(super) fn write(&mut self, place: Place) -> Call {
        let set_acl = if place == Place::Alone { 7 } else { 0 };
        match self.rng.weighted(&[45, 20, 25, set_acl, 1, 2]) {
            0 => self.create(place),
            1 => {
                let path = self.path(place);
                let version = self.version(&path);
                Call::numbered(OpCode::Delete, Some(&path), version)
            }
            2 => {
                let path = self.path(place);
                let (data, version) = (self.data(place), self.version(&path));
                Call::set_data(Some(&path), data.as_deref(), version)
            }
            3 => {
                let path = self.path(place);
                let acl = self.acl();
                let version = *self.rng.pick(&[-1, -1, -1, 0, 1, 2, -2]);
                Call::set_acl(Some(&path), acl.as_deref(), version)
            }
            4 => self.reconfig(),
            _ => self.failing_write(),
        }
    }

    /// A write to the service's own znodes that fails on every server, so that they do not change.
    fn failing_write(&mut self) -> Call {
        let path: &[u8] = self.rng.pick::<&[u8]>(&SPECIAL);
        let open = [Acl::world(Perms::ALL)];
        match self.rng.below(5) {
            0 => Call::numbered(OpCode::Delete, Some(path), -1),
            1 => Call::set_data(Some(path), Some(b"x"), UNREACHED_VERSION),
            2 => Call::set_acl(Some(path), Some(&open), UNREACHED_VERSION),
            3 => Call::create(&plain_create(path, b"", &open)),
            _ => Call::create(&plain_create(b"/zookeeper/nothing/x", b"", &open)),
        }
    }

    fn reconfig(&mut self) -> Call {
        match self.rng.below(3) {
            0 => Call::reconfig(Some(b"server.2=127.0.0.1:1:2;3"), None, None),
            1 => Call::reconfig(None, Some(b"1"), None),
            _ => Call::reconfig(None, None, Some(b"server.1=127.0.0.1:1:2;3")),
        }
    }

    fn create(&mut self, place: Place) -> Call {
        match place {
            Place::Alone => self.create_in(place, Self::create_mode),
            Place::InBurst => self.create_in(place, Self::consistent_create_mode),
        }
    }

    fn create_in(&mut self, place: Place, mode: fn(&mut Self) -> CreateMode) -> Call {
        let mut path = self.path(place);
        let data = self.data(place);
        let acl = self.acl();
        let (op, mut flags, ttl_ms) = mode(self);
        if self.local_sessions && place == Place::InBurst {
            flags = match flags {
                1 => 0,
                3 => 2,
                others => others,
            };
        }
        // Sequential names may consist only of a number, or have a prefix.
        if matches!(flags, 2 | 3 | 6) {
            match self.rng.below(3) {
                0 => path.extend_from_slice(b"/"),
                1 => path.extend_from_slice(b"/s-"),
                _ => {}
            }
        }
        Call::create(&Create {
            op,
            path: Some(&path),
            data: data.as_deref(),
            acl: acl.as_deref(),
            flags,
            ttl_ms,
        })
    }

    /// Matching op and flags: if they do not match, Apache's view of a pending znode differs from the
    /// applied one, so in a burst its answers depend on timing.
    fn consistent_create_mode(&mut self) -> CreateMode {
        match self.rng.weighted(&[10, 1, 1]) {
            0 => {
                let op = *self.rng.pick(&[OpCode::Create, OpCode::Create2]);
                (op, *self.rng.pick(&[0, 0, 0, 1, 2, 3]), None)
            }
            1 => (OpCode::CreateContainer, 4, None),
            _ => (OpCode::CreateTtl, *self.rng.pick(&[5, 6]), Some(3_600_000)),
        }
    }

    fn create_mode(&mut self) -> CreateMode {
        if self.rng.percent(80) {
            return self.consistent_create_mode();
        }
        let flags = *self.rng.pick(&[0, 1, 2, 3, 4, 5, 6, 7, -1, 8, 1 << 20, i32::MIN]);
        let ops = [OpCode::Create, OpCode::Create2, OpCode::CreateContainer, OpCode::CreateTtl];
        let op = *self.rng.pick(&ops);
        if self.local_sessions && op == OpCode::CreateContainer && matches!(flags, 1 | 3) {
            return self.consistent_create_mode();
        }
        if op != OpCode::CreateTtl {
            return (op, flags, None);
        }
        let mut ttls = vec![0, 1, 1000, 3_600_000, (1 << 40) - 1, 1 << 40, i64::MAX];
        if matches!(flags, 5 | 6) {
            ttls.extend([-1, -2, i64::MIN]);
        }
        // A TTL that expires during the test would change zxids at a random moment; the sweep interval is
        // very long (see the program's help), so short TTLs are fine too.
        (op, flags, Some(*self.rng.pick(&ttls)))
    }

    pub(super) fn multi(&mut self, place: Place) -> Call {
        let count = self.rng.weighted(&[4, 10, 20, 20, 15, 10, 5]);
        let parts: Vec<Call> = (0..count).map(|_| self.multi_part(place)).collect();
        Call::multi(OpCode::Multi, &parts)
    }

    fn multi_part(&mut self, place: Place) -> Call {
        let odd = usize::from(!self.local_sessions);
        match self.rng.weighted(&[45, 20, 20, 15, odd]) {
            0 if self.local_sessions => self.create_in(place, Self::consistent_create_mode),
            0 => self.create(place),
            1 => {
                let path = self.path(place);
                let version = self.version(&path);
                Call::numbered(OpCode::Delete, Some(&path), version)
            }
            2 => {
                let path = self.path(place);
                let (data, version) = (self.data(Place::InBurst), self.version(&path));
                Call::set_data(Some(&path), data.as_deref(), version)
            }
            3 => {
                let path = self.readable_path(place);
                let version = self.version(&path);
                Call::numbered(OpCode::Check, Some(&path), version)
            }
            // Not allowed here: reads, and ops that must be alone.
            _ => match self.rng.below(3) {
                0 => self.read(place),
                1 => Call::set_acl(Some(b"/"), Some(&[]), UNREACHED_VERSION),
                _ => Call::path_only(OpCode::Sync, Some(b"/")),
            },
        }
    }
}
