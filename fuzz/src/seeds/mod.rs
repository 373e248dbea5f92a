//! Seeds for every target, from our own encoders: one small example of each kind.

mod disk;
mod ensemble;
mod logins;
mod wire;

/// Seeds of one target by their names.
pub type Seeds = Vec<(String, Vec<u8>)>;

/// The seeds of all targets.
#[must_use]
pub fn all() -> Vec<(&'static str, Seeds)> {
    vec![
        ("request", wire::requests()),
        ("connect", wire::handshakes()),
        ("multi", wire::multis()),
        ("txn", disk::txns()),
        ("reply", wire::replies()),
        ("path", wire::paths()),
        ("log", disk::logs()),
        ("snapshot", disk::snapshots()),
        ("epochs", disk::epochs()),
        ("properties", disk::properties()),
        ("quorum_packet", ensemble::packets()),
        ("notification", ensemble::notifications()),
        ("hello", ensemble::hellos()),
        ("membership", ensemble::memberships()),
        ("jaas", logins::files()),
        ("login", logins::tokens()),
        ("quorum_auth", logins::packets()),
        ("principal", logins::principals()),
    ]
}

/// Names seeds by their number.
fn numbered(seeds: impl IntoIterator<Item = Vec<u8>>) -> Seeds {
    let numbers = 1..;
    numbers.zip(seeds).map(|(number, bytes): (u32, _)| (format!("{number:02}"), bytes)).collect()
}
