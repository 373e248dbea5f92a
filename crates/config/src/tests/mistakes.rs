//! Errors in a file, and their messages.

use super::*;

#[test]
fn what_cannot_be_used_is_reported_once() {
    check_warnings(
        "tickTme=1\ntickTime=2000\ntickTime=3000\nzookeeper.snapCount=9",
        "-Dzookeeper.tickTime=1 -Dzookeeper.snapcount=1 -Dzookeeper.foo=1 -Dfoo=1",
        &[
            "zoo.cfg:4: tickTime is set again further down; the last value applies",
            "zoo.cfg:3: unknown setting tickTme; kept as system property zookeeper.tickTme; \
             did you mean tickTime?",
            "zoo.cfg:6: unknown setting zookeeper.snapCount; kept as system property \
             zookeeper.zookeeper.snapCount; did you mean snapCount?",
            "-Dzookeeper.foo: unknown setting",
            "-Dzookeeper.snapcount: unknown setting; did you mean snapCount?",
            "-Dzookeeper.tickTime: tickTime is read from the configuration file only",
        ],
    );
    check_warnings(
        "# \u{e9}\nsuperUser=\u{e9}",
        "",
        &["zoo.cfg:4: is read as UTF-8; Apache reads ISO-8859-1"],
    );
}

#[test]
fn what_is_not_there_yet_is_silent_when_it_is_turned_off() {
    check_warnings("admin.enableServer=false\npathStats.enabled=FALSE", "", &[]);
    check_warnings(
        "pathStats.enabled=true",
        "",
        &["zoo.cfg:3: pathStats.enabled has no effect yet"],
    );
}

#[test]
fn read_only_mode_allows_the_word_that_clients_look_for_it_with() {
    assert!(!check_warnings("", "", &[]).four_letter_words.allows("isro"));
    let config = check_warnings("", "-Dreadonlymode.enabled=true", &[]);
    assert!(config.read_only_mode);
    assert!(config.four_letter_words.allows("isro"));
}

#[test]
fn odd_values_are_taken_as_apache_takes_them() {
    let config = check_warnings(
        "forceSync=false\nskipACL=true\nenforceQuota=1\nsnapCount=many",
        "",
        &[
            "zoo.cfg:3: forceSync=false is read as yes; write yes or no",
            "zoo.cfg:4: skipACL=true is read as no; write yes or no",
            "zoo.cfg:5: enforceQuota=1 is read as false; write true or false",
            "zoo.cfg:6: snapCount=many is not a number; the default is used, as in Apache",
        ],
    );
    assert!(config.storage.force_sync && !config.access.skip_acl && !config.znodes.enforce_quota);
    assert_eq!(config.storage.snapshot_txns, 100_000);
}

#[test]
fn values_are_moved_into_their_bounds() {
    let config = check_warnings(
        "snapCount=1\nautopurge.snapRetainCount=1\ncommitLogCount=3\nsnapshotSizeFactor=2\n\
         largeRequestMaxBytes=0\nlargeRequestThreshold=0\nsnapshot.compression.method=zip\n\
         jute.maxbuffer.extrasize=10\nconnection_throttle_fill_time=0\n\
         connection_throttle_renew_session_weight=0\nconnection_throttle_local_session_weight=9",
        "",
        &[
            "zoo.cfg:9: snapshot.compression.method=zip is neither gz nor snappy; snapshots are not compressed",
            "zoo.cfg:3: snapCount=1 is less than 2; 2 is used",
            "zoo.cfg:4: autopurge.snapRetainCount=1 is less than 3; 3 is used",
            "zoo.cfg:7: largeRequestMaxBytes=0 is not positive; 104857600 is used",
            "zoo.cfg:8: largeRequestThreshold=0 is neither -1 nor positive; it is off",
            "zoo.cfg:12: connection_throttle_renew_session_weight=0 is too small; 2 is used",
            "zoo.cfg: connection_throttle_global_session_weight=3 is too small; 9 is used",
            "zoo.cfg:5: commitLogCount=3 is less than 500; 500 is used",
            "zoo.cfg:6: snapshotSizeFactor=2 is more than 1; 0.33 is used",
        ],
    );
    assert_eq!(config.storage.snapshot_txns, 2);
    assert_eq!(config.limits.frame_extra_bytes_max, 1024);
    assert_eq!(config.limits.large_requests_bytes_max, 100 << 20);
    assert_eq!(config.connection_throttle.fill_ms, 1);
    assert_eq!(config.quorum_tuning.log_sync_factor, Some(0.33));
}

/// A line after the minimal file, and its error.
const REFUSED: &[(&str, &str)] = &[
    ("tickTime=fast", "tickTime=fast: expected a whole number up to 2147483647"),
    ("tickTime=0", "tickTime=0 must be 1 or more"),
    ("clientPort=99999", "clientPort=99999: expected a port from 0 to 65535"),
    ("reconfigEnabled=yes", "reconfigEnabled=yes: expected true or false"),
    ("electionAlg=0", "electionAlg=0 is no longer supported; only 3 is"),
    ("peerType=voter", "peerType=voter: expected participant or observer"),
    (
        "connection_throttle_drop_increase=x",
        "connection_throttle_drop_increase=x: expected a number such as 0.02",
    ),
    ("secureClientPortAddress=h", "secureClientPortAddress is set but secureClientPort is not"),
    (
        "minSessionTimeout=70000",
        "minSessionTimeout (70000 ms) is larger than maxSessionTimeout (60000 ms)",
    ),
    ("maxSessionTimeout=5", "minSessionTimeout (6000 ms) is larger than maxSessionTimeout (5 ms)"),
    ("observerMasterPort=70000", "observerMasterPort=70000 is not a port up to 65535"),
    (
        "quorum.auth.learnerRequireSasl=true",
        "quorum.auth.learnerRequireSasl=true needs quorum.auth.enableSasl=true",
    ),
    (
        "server.1=zk1:2888",
        "server.1=zk1:2888 is not host:quorumPort:electionPort[:role][;[host:]clientPort]",
    ),
    ("server.principal=zk", "server.principal=zk is not server.<number>"),
    (
        "autopurge.purgeInterval=1w",
        "autopurge.purgeInterval=1w: expected a number of hours, or a number with ms, s, m, h or d after it",
    ),
    (
        "DigestAuthenticationProvider.digestAlg=MD6",
        "DigestAuthenticationProvider.digestAlg=MD6: expected SHA1, SHA-256, SHA-384 or SHA-512",
    ),
    (
        "secureClientPort=2281",
        "secureClientPort needs a key: set ssl.keyStore.location to a PEM, PKCS12 or JKS file",
    ),
    ("ssl.clientAuth=maybe", "ssl.clientAuth=maybe: expected none, want or need"),
    ("enforce.auth.enabled=true", "enforce.auth.enabled=true needs enforce.auth.schemes"),
    (
        "sessionRequireClientSASLAuth=true",
        "sessionRequireClientSASLAuth=true requires the scheme sasl, which is not configured; for sasl and x509 add authProvider.1=<Apache's class>",
    ),
];

#[test]
fn files_that_apache_refuses_are_refused_with_the_line() {
    for (line, message) in REFUSED {
        check_refused(&format!("{MINIMAL}{line}"), &[], &format!("zoo.cfg:3: {message}"));
    }
    check_refused("", &[], "zoo.cfg: dataDir is not set; add a line dataDir=<directory>");
    let empty = "zoo.cfg:1: dataDir=: expected a path that is not empty";
    check_refused_with(1, "dataDir=", &[], empty);
    let empty = "zoo.cfg:3: dataLogDir=: expected a path that is not empty";
    check_refused_with(1, &format!("{MINIMAL}dataLogDir="), &[], empty);
    let alone = "zoo.cfg:2: clientPortAddress is set but clientPort is not";
    check_refused("dataDir=/d\nclientPortAddress=::1", &[], alone);
    let escape = "malformed \\u escape: four hexadecimal digits must follow, as in \\u00e9";
    check_refused("a=\\u12", &[], &format!("zoo.cfg:1: {escape}"));
}

#[test]
fn schemes_exist_by_their_class_and_can_be_required() {
    let sasl = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
    let config = check_warnings(&format!("{sasl}\nsessionRequireClientSASLAuth=true"), "", &[]);
    assert_eq!(config.access.required_schemes, Some(vec!["sasl".to_owned()]));
    let lines = "enforce.auth.enabled=true\nenforce.auth.schemes=digest, x509\n\
                 secureClientPort=2281\nssl.keyStore.location=/keys.p12";
    let config = check_warnings(lines, "", &[]);
    assert!(config.access.x509_scheme && !config.access.sasl_scheme);
    assert_eq!(config.access.required_schemes, Some(vec!["digest".into(), "x509".into()]));
    let config = check_warnings("superUser=a\nsuperUser.1=b", "-Dzookeeper.superUser.2=c", &[]);
    assert_eq!(config.access.sasl_super_users, ["a", "b", "c"]);
    check_warnings(
        "authProvider.1=com.example.Own",
        "",
        &[
            "zoo.cfg: com.example.Own is a Java class that this server cannot run; its authentication scheme is not available",
        ],
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Config::load(Path::new("no/such/zoo.cfg"), &SystemProperties::new());
    let error = error.expect_err("there is no such file").to_string();
    assert!(error.starts_with("cannot read no/such/zoo.cfg: "), "{error}");
}
