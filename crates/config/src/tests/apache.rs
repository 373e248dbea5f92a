//! Files that Apache 3.9.5 was started with, and what it made of them: it is followed, or the difference is a warning.

use super::*;

const ALONE: &str = "dataDir=/data\nclientPort=2181\nstandaloneEnabled=false\n\
                     initLimit=10\nsyncLimit=5\nserver.1=zk1:2888:3888\n";
const NO_SPARE: &str = "zoo.cfg: no server may fail; three servers are needed for that";

/// A member without others, of a file with these lines more, is loaded with these warnings.
fn check_alone(text: &str, my_id: &str, warnings: &[&str]) -> Config {
    let loaded = load_with(text, "", &[("/data/myid", my_id)])
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut expected = vec![NO_SPARE];
    expected.extend(warnings);
    let mut found: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    found.sort_by_key(|warning| warning != NO_SPARE);
    assert_eq!(found, expected, "{text}");
    loaded.config
}

#[test]
fn classes_that_cannot_be_loaded_are_refused() {
    let (own, known) = ("com.example.Own", "org.apache.zookeeper.metrics");
    check_refused(
        &format!("{MINIMAL}metricsProvider.className={own}"),
        &[],
        &format!(
            "zoo.cfg:3: metricsProvider.className={own} is a Java class that this server cannot load; remove the line, \
             or name one of {known}.impl.DefaultMetricsProvider, {known}.impl.NullMetricsProvider, \
             {known}.prometheus.PrometheusMetricsProvider"
        ),
    );
    let factories = "org.apache.zookeeper.server.NIOServerCnxnFactory, org.apache.zookeeper.server.NettyServerCnxnFactory";
    let message = format!(
        "zoo.cfg:3: serverCnxnFactory={own} is a Java class that this server cannot load; remove the line, or name \
         one of {factories}"
    );
    check_refused_with(1, &format!("{MINIMAL}serverCnxnFactory={own}"), &[], &message);
    let flag = load_with(MINIMAL, &format!("-Dzookeeper.serverCnxnFactory={own}"), &[]);
    assert_eq!(flag.map_err(|error| error.exit_code()).expect_err("refused"), 1);
    for class in factories.split(", ") {
        check_warnings(&format!("serverCnxnFactory={class}"), "", &[]);
    }
    check_warnings(&format!("metricsProvider.className={known}.impl.NullMetricsProvider"), "", &[]);
}

#[test]
fn a_byte_order_mark_is_pointed_out() {
    let (config, warnings) = load(&format!("\u{feff}{MINIMAL}"), "");
    assert_eq!(config.storage.data_dir, Path::new("/data"));
    assert_eq!(
        warnings,
        [
            "zoo.cfg:1: begins with a byte order mark, which Apache's server takes for a part of the first name; \
          save the file without it"
        ]
    );
}

#[test]
fn blanks_that_apache_refuses_are_pointed_out() {
    let line =
        "has spaces in or after its value; Apache's server refuses most such lines: remove them";
    let line = format!("zoo.cfg:6: server.1 {line}");
    for own in ["server.1=zk1:2888:3888 ", "server.1=zk1:2888:3888 ;2181"] {
        check_alone(&ALONE.replace("server.1=zk1:2888:3888", own), "1", &[&line]);
    }
    check_alone(&ALONE.replace("=zk1", " =  zk1"), "1", &[]);
    let number =
        "/data/myid:1: has spaces around the number, which Apache's server refuses; remove them";
    check_alone(ALONE, " 1", &[number]);
    check_alone(ALONE, "1 \n", &[number]);
    check_alone(ALONE, "1\r\nx", &[]);
}

#[test]
fn a_number_of_minus_one_is_none() {
    let loaded =
        load_with(MINIMAL, "", &[("/data/myid", "-1\n")]).expect("standalone servers need none");
    assert_eq!((loaded.config.mode, loaded.warnings.len()), (Mode::Standalone, 0));
    check_refused(
        ALONE,
        &[("/data/myid", "-1\n")],
        "/data/myid: -1 is not a server number; put this server's number (one of 1) into it, for example: \
         echo 1 > /data/myid",
    );
    check_refused(
        MINIMAL,
        &[("/data/myid", "one")],
        "/data/myid:1: \"one\" is not the number of a server, such as 1",
    );
}

#[test]
fn limits_below_zero_are_replaced_in_an_ensemble() {
    let text = ALONE.replace("initLimit=10", "initLimit=-1").replace("syncLimit=5", "syncLimit=-3");
    let config = check_alone(
        &text,
        "1",
        &[
            "zoo.cfg:4: initLimit=-1 is negative; using 10 instead. Set it to a positive number of ticks",
            "zoo.cfg:5: syncLimit=-3 is negative; using 5 instead. Set it to a positive number of ticks",
        ],
    );
    assert_eq!((config.quorum.init_limit_ticks, config.quorum.sync_limit_ticks), (10, 5));
    check_warnings("initLimit=-1", "", &[]);
}

#[test]
fn a_member_without_others_needs_no_key() {
    for key in ["sslQuorum", "portUnification"] {
        check_alone(
            &format!("{ALONE}{key}=true"),
            "1",
            &[&format!(
                "zoo.cfg:7: {key} needs a key: set ssl.quorum.keyStore.location to a PEM, PKCS12 or JKS file; until \
                 then no other server can join"
            )],
        );
        check_warnings(&format!("{key}=true"), "", &[]);
    }
}

#[test]
fn numbers_below_zero_are_shown_as_they_were_written() {
    let config = check_warnings(
        "maxClientCnxns=-1\nminSessionTimeout=-5\nclientPortListenBacklog=-7",
        "",
        &[],
    );
    assert_eq!(config.shown_connections_per_address_max(), -1);
    assert_eq!((config.shown_timeout_min_ms(), config.shown_timeout_max_ms()), (-5, 60_000));
    assert_eq!(config.shown_backlog(), -7);
    assert_eq!((config.limits.connections_per_address_max, config.listen.backlog), (None, None));
    let config = check_warnings("maxClientCnxns=0\nminSessionTimeout=-1", "", &[]);
    assert_eq!(config.shown_connections_per_address_max(), 0);
    assert_eq!((config.shown_timeout_min_ms(), config.shown_backlog()), (6_000, -1));
}

#[test]
fn sizes_are_decimal_where_apache_reads_them_so() {
    let not_one = "is not a number; the default is used, as in Apache";
    let bytes = |text: &str, warnings: &[&str]| {
        check_warnings(&format!("preAllocSize={text}"), "", warnings).storage.preallocate_bytes
    };
    assert_eq!(bytes("100", &[]), 100 << 10);
    assert_eq!(bytes("0144", &[]), 144 << 10);
    assert_eq!(bytes("0x64", &[&format!("zoo.cfg:3: preAllocSize=0x64 {not_one}")]), 64 << 20);
    assert_eq!(bytes("-5", &[]), 0);
    assert_eq!(check_warnings("snapCount=0x10", "", &[]).storage.snapshot_txns, 16);
}

#[test]
fn a_log_smaller_than_what_is_set_aside_is_pointed_out() {
    let config = check_warnings(
        "txnLogSizeLimitInKb=1",
        "",
        &[
            "zoo.cfg:3: txnLogSizeLimitInKb=1 is less than preAllocSize=65536: Apache's server begins a new log file with \
           every sync then; this one counts what is written",
        ],
    );
    assert_eq!(config.storage.log_file_bytes_max.map(u64::from), Some(1024));
    check_warnings("txnLogSizeLimitInKb=64\npreAllocSize=64", "", &[]);
}

const UTF8: &str = "zoo.cfg:1: is read as UTF-8; Apache reads ISO-8859-1";

#[test]
fn a_directory_that_only_apache_has_made_is_taken() {
    let text = "dataDir=/donn\u{e9}es\ndataLogDir=/log\nclientPort=2181\n";
    let files = [("/donn\u{c3}\u{a9}es/version-2/snapshot.0", "")];
    let loaded = load_with(text, "", &files).expect("it is clear which is meant");
    assert_eq!(loaded.config.storage.data_dir, Path::new("/donn\u{c3}\u{a9}es"));
    assert_eq!(loaded.config.storage.log_dir, Path::new("/log"));
    let warnings: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            UTF8,
            "zoo.cfg:1: dataDir is read as /donn\u{c3}\u{a9}es, the way Apache's server reads it, because that directory \
             exists and /donn\u{e9}es does not; write it as /donn\\u00c3\\u00a9es, which both servers read in the \
             same way"
        ]
    );
    let none = load_with(text, "", &[]).expect("a new directory").config.storage.data_dir;
    assert_eq!(none, Path::new("/donn\u{e9}es"));
    let own = load_with(text, "", &[("/donn\u{e9}es/myid", "1")]).expect("our own");
    assert_eq!(own.config.storage.data_dir, Path::new("/donn\u{e9}es"));
}

#[test]
fn a_directory_that_may_be_one_of_two_is_refused() {
    let text = "dataDir=/data\ndataLogDir=/donn\u{e9}es\nclientPort=2181\n";
    let files =
        [("/donn\u{c3}\u{a9}es/version-2/log.1", ""), ("/donn\u{e9}es/version-2/log.1", "")];
    check_refused(
        text,
        &files,
        "zoo.cfg:2: dataLogDir is /donn\u{e9}es in UTF-8, but Apache's server reads it as /donn\u{c3}\u{a9}es, and \
         both directories exist. Write it as /donn\\u00e9es or as /donn\\u00c3\\u00a9es, which both servers read in \
         the same way",
    );
}
