//! The answer to the four-letter word `conf`. Apache: `ZooKeeperServer.dumpConf`, and
//! `QuorumZooKeeperServer.dumpConf` for members of an ensemble.

use std::fmt::Write;
use std::num::NonZeroU32;
use std::path::Path;

use super::{Config, Membership, Mode, Role};

/// Apache's number of the only remaining election algorithm.
const ELECTION_ALGORITHM: u8 = 3;

/// The values of the answer that are not in the configuration.
#[derive(Debug, Clone, Copy)]
pub struct ConfNumbers<'a> {
    /// The port for plain clients, if there is one.
    pub client_port: Option<u16>,
    /// The port for TLS clients, if there is one.
    pub secure_client_port: Option<u16>,
    /// Bytes of all snapshots.
    pub data_dir_bytes: u64,
    /// Bytes of all logs.
    pub log_dir_bytes: u64,
    /// The directory that relative paths start from.
    pub working_dir: &'a Path,
    /// The current members; nothing on a standalone server.
    pub membership: Option<&'a Membership>,
}

/// Numbers that `conf` and the admin command `configuration` show. Apache shows them as they were written, even if
/// they are negative and mean the same as 0.
impl Config {
    /// `maxClientCnxns`.
    #[must_use]
    pub fn shown_connections_per_address_max(&self) -> i64 {
        let typed = self.limits.connections_per_address_max.map_or(0, NonZeroU32::get);
        shown(self.as_written.connections_per_address_max, typed.into())
    }

    /// `minSessionTimeout`.
    #[must_use]
    pub fn shown_timeout_min_ms(&self) -> i64 {
        shown(self.as_written.timeout_min_ms, self.sessions.timeout_min_ms.into())
    }

    /// `maxSessionTimeout`.
    #[must_use]
    pub fn shown_timeout_max_ms(&self) -> i64 {
        shown(self.as_written.timeout_max_ms, self.sessions.timeout_max_ms.into())
    }

    /// `clientPortListenBacklog`.
    #[must_use]
    pub fn shown_backlog(&self) -> i64 {
        shown(self.as_written.backlog, self.listen.backlog.map_or(-1, i64::from))
    }
}

fn shown(written: i64, typed: i64) -> i64 {
    if written < 0 { written } else { typed }
}

/// The text of the answer, without secrets.
#[must_use]
pub fn conf_text(config: &Config, numbers: &ConfNumbers<'_>) -> String {
    let port = |port: Option<u16>| port.map_or(-1, i32::from);
    let directory =
        |path: &Path| numbers.working_dir.join(path).join("version-2").display().to_string();
    let lines = [
        ("clientPort", port(numbers.client_port).to_string()),
        ("secureClientPort", port(numbers.secure_client_port).to_string()),
        ("dataDir", directory(&config.storage.data_dir)),
        ("dataDirSize", numbers.data_dir_bytes.to_string()),
        ("dataLogDir", directory(&config.storage.log_dir)),
        ("dataLogSize", numbers.log_dir_bytes.to_string()),
        ("tickTime", config.sessions.tick_ms.to_string()),
        ("maxClientCnxns", config.shown_connections_per_address_max().to_string()),
        ("minSessionTimeout", config.shown_timeout_min_ms().to_string()),
        ("maxSessionTimeout", config.shown_timeout_max_ms().to_string()),
        ("clientPortListenBacklog", config.shown_backlog().to_string()),
        ("serverId", server_id(config)),
    ];
    let mut text = String::new();
    for (key, value) in lines {
        let _ = writeln!(text, "{key}={value}");
    }
    if let Some(membership) = numbers.membership {
        add_member(&mut text, config, membership);
    }
    text
}

fn server_id(config: &Config) -> String {
    match config.mode {
        Mode::Standalone => "0".to_owned(),
        Mode::Ensemble { my_id, .. } => my_id.to_string(),
    }
}

fn add_member(text: &mut String, config: &Config, membership: &Membership) {
    let Mode::Ensemble { my_id, role } = config.mode else { return };
    let me = membership.members.get(&my_id);
    let ports = |port: fn(&super::PeerAddress) -> u16| {
        let addresses = me.map(|me| me.addresses.as_slice()).unwrap_or_default();
        let ports: std::collections::BTreeSet<u16> = addresses.iter().map(port).collect();
        ports.iter().map(u16::to_string).collect::<Vec<_>>().join("|")
    };
    let peer_type = match me.map_or(role, |me| me.role) {
        Role::Participant => 0,
        Role::Observer => 1,
    };
    let quorum = &config.quorum;
    let _ = writeln!(text, "initLimit={}", quorum.init_limit_ticks);
    let _ = writeln!(text, "syncLimit={}", quorum.sync_limit_ticks);
    let _ = writeln!(text, "electionAlg={ELECTION_ALGORITHM}");
    let _ = writeln!(text, "electionPort={}", ports(|address| address.election_port));
    let _ = writeln!(text, "quorumPort={}", ports(|address| address.quorum_port));
    let _ = writeln!(text, "peerType={peer_type}");
    // No newline after it, as in Apache.
    let _ = write!(text, "membership: \n{membership}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemProperties;

    #[test]
    fn the_answer_is_apaches_line_by_line() {
        let loaded = Config::from_args(&["2181", "./data", "2000"], &SystemProperties::new());
        let numbers = ConfNumbers {
            client_port: Some(40001),
            secure_client_port: None,
            data_dir_bytes: 457,
            log_dir_bytes: 67_108_880,
            working_dir: Path::new("/srv"),
            membership: None,
        };
        let expected = "clientPort=40001\nsecureClientPort=-1\ndataDir=/srv/./data/version-2\n\
                        dataDirSize=457\ndataLogDir=/srv/./data/version-2\ndataLogSize=67108880\n\
                        tickTime=2000\nmaxClientCnxns=0\nminSessionTimeout=4000\n\
                        maxSessionTimeout=40000\nclientPortListenBacklog=-1\nserverId=0\n";
        assert_eq!(conf_text(&loaded.expect("arguments are right").config, &numbers), expected);
    }

    #[test]
    fn a_member_tells_of_its_ensemble() {
        let text =
            "server.1=one:2888:3888:participant\nserver.7=seven:2889:3889:observer\nversion=0";
        let membership = Membership::parse_text(text).expect("it is right");
        let mut config =
            Config::from_args(&["2181", "/data"], &SystemProperties::new()).expect("right").config;
        config.mode = Mode::Ensemble { my_id: super::super::ServerId(7), role: Role::Observer };
        config.quorum.init_limit_ticks = 10;
        config.quorum.sync_limit_ticks = 5;
        let numbers = ConfNumbers {
            client_port: Some(2181),
            secure_client_port: None,
            data_dir_bytes: 0,
            log_dir_bytes: 0,
            working_dir: Path::new("/"),
            membership: Some(&membership),
        };
        let expected = format!(
            "serverId=7\ninitLimit=10\nsyncLimit=5\nelectionAlg=3\nelectionPort=3889\n\
             quorumPort=2889\npeerType=1\nmembership: \n{text}"
        );
        let answer = conf_text(&config, &numbers);
        assert!(answer.ends_with(&expected), "{answer}");
    }
}
