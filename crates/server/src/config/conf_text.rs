//! The answer of a standalone server to the four-letter word `conf`. Apache: `ZooKeeperServer.dumpConf`.

use std::fmt::Write;
use std::num::NonZeroU32;
use std::path::Path;

use super::Config;

/// What the answer has beyond the configuration.
#[derive(Debug, Clone, Copy)]
pub struct ConfNumbers<'a> {
    /// The port that plain clients reach, if there is one.
    pub client_port: Option<u16>,
    /// The port that TLS clients reach, if there is one.
    pub secure_client_port: Option<u16>,
    /// Bytes of all snapshots.
    pub data_dir_bytes: u64,
    /// Bytes of all logs.
    pub log_dir_bytes: u64,
    /// The directory that relative paths start from.
    pub working_dir: &'a Path,
}

/// The text of the answer. It has no secrets.
#[must_use]
pub fn conf_text(config: &Config, numbers: &ConfNumbers<'_>) -> String {
    let port = |port: Option<u16>| port.map_or(-1, i32::from);
    let directory =
        |path: &Path| numbers.working_dir.join(path).join("version-2").display().to_string();
    let per_address = config.limits.connections_per_address_max.map_or(0, NonZeroU32::get);
    let lines = [
        ("clientPort", port(numbers.client_port).to_string()),
        ("secureClientPort", port(numbers.secure_client_port).to_string()),
        ("dataDir", directory(&config.storage.data_dir)),
        ("dataDirSize", numbers.data_dir_bytes.to_string()),
        ("dataLogDir", directory(&config.storage.log_dir)),
        ("dataLogSize", numbers.log_dir_bytes.to_string()),
        ("tickTime", config.sessions.tick_ms.to_string()),
        ("maxClientCnxns", per_address.to_string()),
        ("minSessionTimeout", config.sessions.timeout_min_ms.to_string()),
        ("maxSessionTimeout", config.sessions.timeout_max_ms.to_string()),
        ("clientPortListenBacklog", config.listen.backlog.map_or(-1, i64::from).to_string()),
        ("serverId", "0".to_owned()),
    ];
    let mut text = String::new();
    for (key, value) in lines {
        let _ = writeln!(text, "{key}={value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SystemProperties;

    #[test]
    fn the_answer_is_apaches_line_by_line() {
        let loaded = Config::from_args(&["2181", "./data", "2000"], &SystemProperties::new());
        let numbers = ConfNumbers {
            client_port: Some(40001),
            secure_client_port: None,
            data_dir_bytes: 457,
            log_dir_bytes: 67_108_880,
            working_dir: Path::new("/srv"),
        };
        let expected = "clientPort=40001\nsecureClientPort=-1\ndataDir=/srv/./data/version-2\n\
                        dataDirSize=457\ndataLogDir=/srv/./data/version-2\ndataLogSize=67108880\n\
                        tickTime=2000\nmaxClientCnxns=0\nminSessionTimeout=4000\n\
                        maxSessionTimeout=40000\nclientPortListenBacklog=-1\nserverId=0\n";
        assert_eq!(conf_text(&loaded.expect("arguments are right").config, &numbers), expected);
    }
}
