//! ACLs and credentials.

use herdsman_proto::{Acl, Id, Perms};

use super::Generator;
use crate::call::Call;

/// Digest identities `u0:p0` … `u3:p3`, as an ACL names them.
const USERS: [&str; 4] = [
    "u0:kn4sLJzXfp7KZRbZugmnVcIMGpM=",
    "u1:fpT/y03U+EjItKZOSLGvjnJlyng=",
    "u2:o9NxcCGDPOlcV7JVhmKHOf5ctVE=",
    "u3:Im5xY/YYc2xRYjWcy4eAeBEG1fk=",
];

/// Ids that some scheme rejects, and some that look wrong but are valid.
const ODD_IDS: [(&str, &str); 18] = [
    ("", ""),
    ("world", "somebody"),
    ("nosuch", "x"),
    ("digest", "nopassword"),
    ("digest", "a:b:c"),
    ("digest", ""),
    ("digest", ":"),
    ("digest", "user:"),
    ("ip", "not an address"),
    ("ip", "127.0.0.1/33"),
    ("ip", "127.0.0.1/-1"),
    ("ip", "127.0.0"),
    ("ip", "300.0.0.1"),
    ("ip", "::1"),
    ("ip", "127.0.0.1/"),
    ("ip", "127.0.0.1/8/8"),
    ("super", ""),
    ("sasl", "someone"),
];

impl Generator {
    /// An ACL: open most of the time, so that scripts do not lock themselves out. Never null: inside a
    /// multi Apache fails on it (docs/compatibility.md); outside there is a scenario.
    pub(super) fn acl(&mut self) -> Option<Vec<Acl>> {
        match self.rng.weighted(&[62, 8, 10, 5, 5, 5, 2, 2]) {
            0 => Some(vec![Acl::world(Perms::ALL)]),
            1 => Some(vec![Acl::world(self.perms())]),
            2 => Some(vec![self.entry()]),
            3 => Some(self.entries()),
            4 => Some(vec![entry(self.perms(), "auth", "")]),
            5 => {
                let (scheme, id) = *self.rng.pick(&ODD_IDS);
                Some(vec![Acl::world(Perms::ALL), entry(self.perms(), scheme, id)])
            }
            6 => Some(Vec::new()),
            _ => {
                let twice = self.entry();
                Some(vec![twice.clone(), Acl::world(Perms::ALL), twice])
            }
        }
    }

    fn entries(&mut self) -> Vec<Acl> {
        let count = 2 + self.rng.below(3);
        (0..count).map(|_| self.entry()).collect()
    }

    fn entry(&mut self) -> Acl {
        let perms = self.perms();
        match self.rng.weighted(&[5, 3, 1, 1, 1]) {
            0 => entry(perms, "digest", self.rng.pick::<&str>(&USERS)),
            1 => Acl::world(perms),
            2 => entry(perms, "ip", "127.0.0.1"),
            3 => entry(perms, "ip", "127.0.0.0/8"),
            _ => entry(perms, "ip", "10.1.2.3/16"),
        }
    }

    fn perms(&mut self) -> Perms {
        match self.rng.weighted(&[5, 3, 1]) {
            0 => Perms::ALL,
            1 => Perms(self.rng.below(32) as i32),
            _ => Perms(*self.rng.pick(&[0, 32, 63, -1, i32::MIN])),
        }
    }

    /// Credentials, mostly valid.
    pub(super) fn auth(&mut self) -> Call {
        let user = self.rng.below(USERS.len());
        let good = format!("u{user}:p{user}");
        match self.rng.weighted(&[70, 8, 6, 4, 4, 4, 2, 2]) {
            0 => Call::auth(Some(b"digest"), Some(good.as_bytes())),
            1 => Call::auth(Some(b"digest"), Some(b"super:secret")),
            2 => Call::auth(Some(b"ip"), Some(b"")),
            3 => Call::auth(Some(b"digest"), Some(b"nocolon")),
            4 => Call::auth(Some(b"nosuch"), Some(b"x")),
            5 => Call::auth(Some(b"digest"), Some(b"")),
            6 => Call::auth(Some(b"world"), Some(b"anyone")),
            _ => Call::auth(Some(b"super"), Some(b"super:secret")),
        }
    }
}

fn entry(perms: Perms, scheme: &str, id: &str) -> Acl {
    Acl { perms, id: Id::new(scheme, id) }
}
