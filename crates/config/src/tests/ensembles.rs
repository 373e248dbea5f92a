//! Who is in the ensemble, and whether there is one.

use super::*;

const THREE: &str = "\
dataDir=/data\nclientPort=2181\ninitLimit=10\nsyncLimit=5\n\
server.1=zk1:2888:3888\nserver.2=zk2:2888:3888\nserver.3=zk3:2888:3888\n";

fn check_ensemble(text: &str, files: &[(&str, &str)], mode: Mode, warnings: &[&str]) -> Config {
    let loaded = load_with(text, "", files).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(loaded.config.mode, mode, "{text}");
    let shown: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(shown, warnings, "{text}");
    loaded.config
}

fn member_of_ensemble(id: i64, role: Role) -> Mode {
    Mode::Ensemble { my_id: ServerId(id), role }
}

#[test]
fn several_participants_are_an_ensemble() {
    let second = member_of_ensemble(2, Role::Participant);
    let config = check_ensemble(THREE, &[("/data/myid", "2\n")], second, &[]);
    assert_eq!(config.quorum.membership.members.len(), 3);
    assert_eq!(config.listen.client, Some(Endpoint { host: None, port: 2181 }));
    let even = format!("{THREE}server.4=zk4:2888:3888");
    check_ensemble(
        &even,
        &[("/data/myid", "2")],
        second,
        &["zoo.cfg: an odd number of participants would tolerate as many failures"],
    );
    let observer = format!("{THREE}server.4=zk4:2888:3888:observer\npeerType=participant");
    let fourth = member_of_ensemble(4, Role::Observer);
    check_ensemble(
        &observer,
        &[("/data/myid", "4\r\n")],
        fourth,
        &["zoo.cfg:9: peerType differs from the list of servers, by which this server is observer"],
    );
}

#[test]
fn a_port_between_servers_is_tried_for_a_minute_unless_it_is_said_how_often() {
    let tries = |line: &str| {
        let loaded = load_with(&format!("{THREE}{line}"), "", &[("/data/myid", "1")]);
        loaded.expect("it is right").config.quorum_tuning.bind_tries_max.map(u32::from)
    };
    assert_eq!(tries(""), Some(60));
    assert_eq!(tries("electionPortBindRetry=3"), Some(3));
    assert_eq!(tries("electionPortBindRetry=0"), None);
}

#[test]
fn one_participant_is_an_ensemble_only_if_it_must_be() {
    let one = "dataDir=/data\nclientPort=2181\ninitLimit=10\nsyncLimit=5\nserver.1=zk1:2888:3888\n";
    check_ensemble(
        one,
        &[],
        Mode::Standalone,
        &["zoo.cfg: there is one server only; it runs standalone"],
    );
    let forced = format!("{one}standaloneEnabled=false");
    let first = member_of_ensemble(1, Role::Participant);
    check_ensemble(
        &forced,
        &[("/data/myid", "1")],
        first,
        &["zoo.cfg: no server may fail; three servers are needed for that"],
    );
    check_refused(
        &format!("{MINIMAL}standaloneEnabled=false"),
        &[],
        "zoo.cfg: standaloneEnabled=false needs at least one participant",
    );
    check_refused(
        &format!("{one}server.2=zk2:1:2:observer"),
        &[],
        "zoo.cfg: there are observers but only one participant; add more of them, or set standaloneEnabled=false",
    );
    check_refused(
        &format!("{MINIMAL}server.2=zk2:1:2:observer"),
        &[],
        "zoo.cfg: there are observers but no participants",
    );
}

#[test]
fn an_ensemble_needs_its_limits_and_its_number() {
    check_refused(
        THREE,
        &[],
        "/data/myid: is missing; put this server's number (one of 1, 2, 3) into it, for example: \
         echo 1 > /data/myid",
    );
    check_refused_with(
        1,
        THREE,
        &[("/data/myid", "9\n")],
        "/data/myid:1: 9 is not in the list of servers, which has 1, 2, 3; correct the number, or \
         add a line server.9 to the configuration of every server",
    );
    check_refused(
        THREE,
        &[("/data/myid", "one\n")],
        "/data/myid:1: \"one\" is not the number of a server, such as 1",
    );
    check_refused(
        &THREE.replace("initLimit=10", ""),
        &[("/data/myid", "1")],
        "zoo.cfg: initLimit is not set; an ensemble needs it",
    );
    check_refused(
        &THREE.replace("syncLimit=5", "syncLimit=0"),
        &[("/data/myid", "1")],
        "zoo.cfg:4: syncLimit=0 counts as not set; an ensemble needs it",
    );
    check_refused(
        &format!("{THREE}extendedTypesEnabled=true"),
        &[("/data/myid", "255")],
        "/data/myid:1: 255 is too large: extendedTypesEnabled leaves room for 254",
    );
    check_refused(
        &format!("{THREE}group.1=1:2"),
        &[],
        "zoo.cfg: there are groups, but server.3 is in none of them",
    );
    check_refused(
        &THREE.replace("zk1:2888:3888", "a:1:2|b:1:2"),
        &[],
        "zoo.cfg: server.1 has several addresses; that needs multiAddress.enabled=true",
    );
}

#[test]
fn the_client_port_can_be_in_the_servers_own_line() {
    let first = member_of_ensemble(1, Role::Participant);
    let own = THREE
        .replace("clientPort=2181\n", "")
        .replace("zk1:2888:3888", "zk1:2888:3888;10.0.0.1:2182");
    let config = check_ensemble(&own, &[("/data/myid", "1")], first, &[]);
    assert_eq!(config.listen.client, Some(Endpoint { host: Some("10.0.0.1".into()), port: 2182 }));
    let both = THREE.replace("zk1:2888:3888", "zk1:2888:3888;2182");
    check_refused(
        &both,
        &[("/data/myid", "1")],
        "zoo.cfg: clientPort says 0.0.0.0:2181 but this server's own line says 0.0.0.0:2182",
    );
    let same = THREE.replace("zk1:2888:3888", "zk1:2888:3888;2181");
    check_ensemble(&same, &[("/data/myid", "1")], first, &[]);
}

#[test]
fn members_can_be_in_a_dynamic_file() {
    let fixed = "dataDir=/data\ninitLimit=10\nsyncLimit=5\ndynamicConfigFile=/etc/zoo.cfg.dynamic.10000000a\n";
    let members = "server.1=zk1:2888:3888:participant;2181\nserver.2=zk2:2888:3888:participant;2181\n\
                   server.3=zk3:2888:3888:participant;2181\n";
    let proposed = format!("{members}server.4=zk4:2888:3888:observer;2181\nversion=20000000b");
    // A change that was only proposed is in the log, if anywhere: Apache's file of it is not looked at.
    let (name, next) = ("/etc/zoo.cfg.dynamic.10000000a", "zoo.cfg.dynamic.next");
    let files = [(name, members), (next, &proposed), ("/data/myid", "1")];
    let first = member_of_ensemble(1, Role::Participant);
    let config = check_ensemble(fixed, &files, first, &[]);
    assert_eq!(config.quorum.membership.version, 0x1_0000_000a);
    assert_eq!(config.quorum.membership.members.len(), 3);
    assert_eq!(config.listen.client, Some(Endpoint { host: None, port: 2181 }));
    check_refused(
        &format!("{fixed}server.1=a:1:2"),
        &files,
        "zoo.cfg:5: server.1 must be in the file that dynamicConfigFile names",
    );
    check_refused(
        fixed,
        &[(name, "tickTime=1")],
        "/etc/zoo.cfg.dynamic.10000000a:1: tickTime=1 is not about a server, a group or a weight",
    );
    check_refused(
        fixed,
        &[(name, "version=5")],
        "/etc/zoo.cfg.dynamic.10000000a: a dynamic file has its version in its name, not in a line",
    );
    check_refused(
        fixed,
        &[(next, "")],
        "cannot read /etc/zoo.cfg.dynamic.10000000a: entity not found",
    );
}

#[test]
fn the_example_in_the_operators_page_is_right() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md");
    let page = std::fs::read_to_string(path).expect("docs/operating.md can be read");
    let (_, rest) =
        page.split_once("<!-- ensemble example, tested -->\n```\n").expect("it is there");
    let (example, _) = rest.split_once("```").expect("it ends");
    let fourth = member_of_ensemble(4, Role::Observer);
    let myid = ("/var/lib/zookeeper/myid", "4\n");
    let config = check_ensemble(example, &[myid], fourth, &[]);
    assert_eq!(config.quorum.membership.participants().count(), 3);
}
