//! Realistic files, and realistic mistakes.

mod apache;
mod ensembles;
mod mistakes;
mod samples;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::*;
use samples::{DEBIAN, GROWN, KAFKA, SAMPLE};

/// Loads a zoo.cfg among other files, all in memory. There is a directory where there is a file in it.
fn load_with(text: &str, flags: &str, files: &[(&str, &str)]) -> Result<Loaded, ConfigError> {
    let mut disk: BTreeMap<PathBuf, &str> =
        files.iter().map(|(path, text)| (PathBuf::from(path), *text)).collect();
    disk.insert("zoo.cfg".into(), text);
    let read = |path: &Path| {
        let text = disk.get(path).ok_or(io::Error::from(io::ErrorKind::NotFound))?;
        Ok(text.as_bytes().to_vec())
    };
    let has_directory =
        |path: &Path| disk.keys().any(|file| file != path && file.starts_with(path));
    let files = load::Files { read: &read, has_directory: &has_directory };
    load::from_file(Path::new("zoo.cfg"), &SystemProperties::from_flags(flags), files)
}

/// The configuration and the warnings, shown.
fn load(text: &str, flags: &str) -> (Config, Vec<String>) {
    let loaded = load_with(text, flags, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    (loaded.config, loaded.warnings.iter().map(ToString::to_string).collect())
}

const MINIMAL: &str = "dataDir=/data\nclientPort=2181\n";

/// The minimal file with more lines (from line 3) and flags has exactly these warnings.
fn check_warnings(more: &str, flags: &str, expected: &[&str]) -> Config {
    let (config, warnings) = load(&format!("{MINIMAL}{more}"), flags);
    assert_eq!(warnings, expected, "{more} {flags}");
    config
}

/// The file is refused with exactly this message and Apache's code for bad configurations.
fn check_refused(text: &str, files: &[(&str, &str)], message: &str) {
    check_refused_with(2, text, files, message);
}

/// The file is refused with exactly this message and this exit code.
fn check_refused_with(code: u8, text: &str, files: &[(&str, &str)], message: &str) {
    let error = load_with(text, "", files).expect_err(text);
    assert_eq!(error.to_string(), message, "{text}");
    assert_eq!(error.exit_code(), code, "{text}");
}

#[test]
fn apaches_sample_runs_standalone_without_a_word() {
    let (config, warnings) = load(SAMPLE, "");
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(config.mode, Mode::Standalone);
    assert_eq!(config.listen.client, Some(Endpoint { host: None, port: 2181 }));
    assert_eq!(config.sessions.tick_ms, 2000);
    assert_eq!((config.sessions.timeout_min_ms, config.sessions.timeout_max_ms), (4000, 40_000));
    assert_eq!(config.storage.data_dir, config.storage.log_dir);
    assert_eq!(config.storage.snapshot_txns, 100_000);
    assert_eq!(config.storage.preallocate_bytes, 64 << 20);
    assert_eq!(config.storage.snapshot_log_bytes.map(u64::from), Some(4 << 30));
    assert_eq!(config.storage.log_file_bytes_max, None);
    assert!(config.storage.force_sync && config.storage.digest);
    assert_eq!(
        config.storage.purge,
        Some(Purge { interval_ms: 3_600_000, snapshots_kept: 3, is_default: true })
    );
    assert_eq!(config.limits.connections_per_address_max.map(u32::from), Some(60));
    assert_eq!(config.limits.connections_max, None);
    assert_eq!(config.limits.frame_bytes_max, 1_048_575);
    assert_eq!(config.limits.frame_extra_bytes_max, 1_048_575);
    assert_eq!(config.limits.large_request_bytes_min, None);
    assert!(config.four_letter_words.allows("srvr") && !config.four_letter_words.allows("mntr"));
    assert_eq!(config.quorum.init_limit_ticks, 10);
}

#[test]
fn debians_file_runs_standalone_without_a_word() {
    let (config, warnings) = load(DEBIAN, "-Xmx512m -Dcom.sun.management.jmxremote");
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(
        config.storage.purge,
        Some(Purge { interval_ms: 86_400_000, snapshots_kept: 5, is_default: false })
    );
    assert!(config.quorum_tuning.leader_serves);
}

#[test]
fn kafkas_file_runs_standalone_without_a_word() {
    let (config, warnings) = load(KAFKA, "-Dzookeeper.log.dir=/logs");
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(config.limits.connections_per_address_max, None);
    assert_eq!(config.sessions.tick_ms, 3000);
}

#[test]
fn a_grown_file_is_accepted_and_says_what_has_no_effect() {
    let (config, warnings) = load(GROWN, "");
    let expected =
        ["zoo.cfg:21: unknown setting confluent.support.metrics.enable; kept as system property \
         zookeeper.confluent.support.metrics.enable"];
    assert_eq!(warnings, expected);
    assert_eq!(config.listen.client, Some(Endpoint { host: Some("10.0.0.5".into()), port: 2181 }));
    assert_eq!(config.storage.log_dir, Path::new("/srv/zk/log"));
    assert_eq!(config.sessions.timeout_max_ms, 180_000);
    for word in ["mntr", "ruok", "conf", "stat", "srvr"] {
        assert!(config.four_letter_words.allows(word), "{word}");
    }
    assert!(!config.storage.force_sync);
    assert_eq!(config.unknown[0].value, Secret::new("false"));
    assert!(config.access.sasl_scheme && !config.access.x509_scheme);
    let kept = config.given.iter().find(|given| given.key == "authProvider.1");
    assert_eq!(kept.map(|given| given.place.clone()), Some(Location::Line("zoo.cfg".into(), 18)));
}

#[test]
fn the_file_wins_over_flags_except_where_apache_sees_only_flags() {
    let config = check_warnings("snapCount=500", "-Dzookeeper.snapCount=700", &[]);
    assert_eq!(config.storage.snapshot_txns, 500);
    let config = check_warnings("", "-Dzookeeper.snapCount=700", &[]);
    assert_eq!(config.storage.snapshot_txns, 700);
    let flags = "-Dfsync.warningthresholdms=1 -Dzookeeper.fsync.warningthresholdms=2";
    assert_eq!(check_warnings("", flags, &[]).storage.sync_warning_ms, 2);
    let bare = "-Dfsync.warningthresholdms=1";
    assert_eq!(check_warnings("", bare, &[]).storage.sync_warning_ms, 1);
    assert_eq!(check_warnings("fsync.warningthresholdms=3", bare, &[]).storage.sync_warning_ms, 3);
    let noted = "zoo.cfg:3: Apache takes jute.maxbuffer only as the flag -Djute.maxbuffer; here it also takes effect in the file";
    let config = check_warnings("jute.maxbuffer=9000", "", &[noted]);
    assert_eq!((config.limits.frame_bytes_max, config.limits.frame_extra_bytes_max), (9000, 9000));
    let config = check_warnings("jute.maxbuffer=9000", "-Djute.maxbuffer=0x2000", &[noted]);
    assert_eq!(config.limits.frame_bytes_max, 8192);
    let config = check_warnings("", "-Dzookeeper.multiAddress.enabled=true", &[]);
    assert!(config.quorum.multi_address);
}

#[test]
fn purging_is_on_unless_it_is_turned_off() {
    let check = |line: &str, interval_ms: Option<u64>| {
        let purge = check_warnings(line, "", &[]).storage.purge;
        assert_eq!(purge.map(|purge| purge.interval_ms), interval_ms, "{line}");
    };
    check("", Some(3_600_000));
    check("autopurge.purgeInterval=0", None);
    check("autopurge.purgeInterval=-1", None);
    check("autopurge.purgeInterval=12", Some(43_200_000));
    check("autopurge.purgeInterval=90s", Some(90_000));
    check("autopurge.purgeInterval=500ms", Some(500));
    check("autopurge.purgeInterval=2d", Some(172_800_000));
}

#[test]
fn scrubbing_is_on_unless_it_is_turned_off() {
    let check = |lines: &str, expected: Option<(u64, u64)>| {
        let scrub = check_warnings(lines, "", &[]).storage.scrub;
        let found = scrub.map(|scrub| (scrub.bytes_per_second.get(), scrub.pause_ms));
        assert_eq!(found, expected, "{lines}");
    };
    check("", Some((4_194_304, 86_400_000)));
    check("herdsman.scrubBytesPerSecond=0", None);
    check("herdsman.scrubBytesPerSecond=-1", None);
    check("herdsman.scrubBytesPerSecond=1000\nherdsman.scrubEveryHours=2", Some((1000, 7_200_000)));
}

#[test]
fn weights_multiply_the_bucket() {
    let config = check_warnings(
        "connection_throttle_tokens=10\nconnection_throttle_weight_enabled=true",
        "",
        &[],
    );
    assert_eq!(config.connection_throttle.tokens_max.map(u32::from), Some(30));
    assert_eq!(config.connection_throttle.fill_tokens, 3);
    assert_eq!(config.connection_throttle.freeze_ms, None);
}

#[test]
fn logs_go_where_the_operator_wants_them() {
    let logging = |more: &str, flags: &str| check_warnings(more, flags, &[]).logging;
    let usual = logging("", "");
    assert_eq!((usual.audit, usual.audit_file), (false, None));
    assert_eq!(usual.slow_request_ms.map(u32::from), Some(1000));
    let told = logging("audit.enable=true\nherdsman.auditFile=/var/log/zk/audit.log", "");
    assert_eq!((told.audit, told.audit_file), (true, Some("/var/log/zk/audit.log".into())));
    assert_eq!(logging("herdsman.slowRequestMs=0", "").slow_request_ms, None);
    let flags = "-Dherdsman.slowRequestMs=50 -Dzookeeper.audit.enable=true";
    let told = logging("", flags);
    assert_eq!((told.audit, told.slow_request_ms.map(u32::from)), (true, Some(50)));
}

#[test]
fn secrets_are_never_shown() {
    let config = check_warnings(
        "DigestAuthenticationProvider.superDigest=super:hunter2\nssl.keyStore.password=hunter2",
        "-Dzookeeper.unknownPassword=hunter2",
        &["-Dzookeeper.unknownPassword: unknown setting"],
    );
    assert_eq!(config.tls.key_store_password, Some(Secret::new("hunter2")));
    assert_eq!(config.access.super_digest, Some(Secret::new("super:hunter2")));
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn positional_arguments_are_those_of_apache() {
    let none = SystemProperties::new();
    let loaded = Config::from_args(&["2182", "/data"], &none).expect("two are enough");
    assert_eq!(loaded.config.listen.client, Some(Endpoint { host: None, port: 2182 }));
    assert_eq!(loaded.config.storage.data_dir, Path::new("/data"));
    assert_eq!(loaded.config.sessions.tick_ms, 3000);
    assert_eq!(loaded.config.limits.connections_per_address_max, None);
    let flags = SystemProperties::from_flags("-Dzookeeper.snapCount=7");
    let loaded = Config::from_args(&["2182", "/data", "500", "9"], &flags).expect("four are right");
    assert_eq!(loaded.config.sessions.timeout_max_ms, 10_000);
    assert_eq!(loaded.config.limits.connections_per_address_max.map(u32::from), Some(9));
    assert_eq!(loaded.config.storage.snapshot_txns, 7);
    let check = |args: &[&str], message: &str| {
        let error = Config::from_args(args, &none).expect_err("wrong").to_string();
        assert_eq!(error, message, "{args:?}");
    };
    check(&["x", "/d"], "command line: clientPort=x: expected a port from 0 to 65535");
    let usage = "expected a configuration file, or port dataDir [tickTime] [maxClientCnxns]";
    check(&["1", "/d", "3", "4", "5"], &format!("command line: 5 arguments; {usage}"));
}

#[test]
fn without_a_configuration_the_server_is_local() {
    let loaded = Config::standalone_default(&SystemProperties::new()).expect("defaults are right");
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let client = loaded.config.listen.client.map(|client| client.to_string());
    assert_eq!(client.as_deref(), Some("127.0.0.1:2181"));
    assert_eq!(loaded.config.storage.data_dir, Path::new("./herdsman-data"));
}

#[test]
fn addresses_are_taken_as_java_takes_them() {
    let check = |text: &str, shown: &str| {
        let config = check_warnings(&format!("clientPortAddress={text}"), "", &[]);
        assert_eq!(config.listen.client.map(|client| client.to_string()).as_deref(), Some(shown));
    };
    check("zk1", "zk1:2181");
    check("::1", "[::1]:2181");
    check("[::1]", "[::1]:2181");
    check("0.0.0.0", "0.0.0.0:2181");
    check("", "127.0.0.1:2181");
}
