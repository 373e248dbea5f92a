//! The roles of the servers of an ensemble. Scripts name servers by role, because the two ensembles may
//! have leaders with different ids.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};

use crate::link::Link;

/// The kind of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One standalone server.
    Alone,
    /// This many servers.
    Ensemble(usize),
    /// This many servers whose sessions are local until they own an ephemeral.
    WithLocalSessions(usize),
}

impl Kind {
    /// How many servers.
    #[must_use]
    pub fn servers(self) -> usize {
        match self {
            Kind::Alone => 1,
            Kind::Ensemble(servers) | Kind::WithLocalSessions(servers) => servers,
        }
    }
}

/// The leader, which always exists.
pub const LEADER: usize = 0;
/// The first follower.
pub const FOLLOWER: usize = 1;
/// Another follower.
pub const OTHER_FOLLOWER: usize = 2;
/// An observer; in an ensemble without one, any server.
pub const OBSERVER: usize = 3;

/// Sorts servers: the leader first, then the followers, then the observers. A standalone server is
/// unchanged.
pub fn by_role(servers: &[SocketAddr]) -> Result<Vec<SocketAddr>> {
    if let [_] = servers {
        return Ok(servers.to_vec());
    }
    let mut ranked = Vec::new();
    for &server in servers {
        let mut link = Link::open(server)?;
        link.send(b"srvr");
        let answer = link.receive_all();
        let answer = String::from_utf8_lossy(&answer);
        let rank = rank(&answer).with_context(|| format!("{server} has no role: {answer:?}"))?;
        ranked.push((rank, server));
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    let leaders = ranked.iter().filter(|(rank, _)| *rank == LEADER).count();
    ensure!(leaders == 1, "{leaders} leaders among {servers:?}");
    Ok(ranked.into_iter().map(|(_, server)| server).collect())
}

fn rank(answer: &str) -> Option<usize> {
    match answer.lines().find_map(|line| line.strip_prefix("Mode: "))? {
        "leader" => Some(LEADER),
        "follower" => Some(FOLLOWER),
        "observer" => Some(OBSERVER),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_parsed() {
        assert_eq!(rank("Zxid: 0x1\nMode: leader\nNode count: 5\n"), Some(LEADER));
        assert_eq!(rank("Mode: follower\n"), Some(FOLLOWER));
        assert_eq!(rank("Mode: observer\n"), Some(OBSERVER));
        assert_eq!(rank("This ZooKeeper instance is not currently serving requests\n"), None);
    }
}
