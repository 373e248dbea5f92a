//! The targets, one file each.

pub mod connect;
pub mod epochs;
pub mod hello;
pub mod jaas;
pub mod log;
pub mod login;
pub mod membership;
pub mod multi;
pub mod notification;
pub mod path;
pub mod principal;
pub mod properties;
pub mod quorum_auth;
pub mod quorum_packet;
pub mod reply;
pub mod request;
pub mod snapshot;
pub mod txn;

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is also that of its binary and of its folder of seeds.
    pub name: &'static str,
    /// The target itself.
    pub run: fn(&[u8]),
}

/// All of them.
pub const ALL: &[Target] = &[
    Target { name: "request", run: request::run },
    Target { name: "connect", run: connect::run },
    Target { name: "multi", run: multi::run },
    Target { name: "txn", run: txn::run },
    Target { name: "reply", run: reply::run },
    Target { name: "path", run: path::run },
    Target { name: "log", run: log::run },
    Target { name: "snapshot", run: snapshot::run },
    Target { name: "epochs", run: epochs::run },
    Target { name: "properties", run: properties::run },
    Target { name: "quorum_packet", run: quorum_packet::run },
    Target { name: "notification", run: notification::run },
    Target { name: "hello", run: hello::run },
    Target { name: "membership", run: membership::run },
    Target { name: "jaas", run: jaas::run },
    Target { name: "login", run: login::run },
    Target { name: "quorum_auth", run: quorum_auth::run },
    Target { name: "principal", run: principal::run },
];
