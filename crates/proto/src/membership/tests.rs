//! `server.N`, `group.N` and `weight.N` lines as operators write them, and with mistakes.

use super::*;

/// The line is accepted and shown in Apache's form.
fn check(text: &str, shown: &str) {
    let member = Member::parse(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
    assert_eq!(member.to_string(), shown, "{text}");
    assert_eq!(Member::parse(shown), Ok(member), "{shown} is parsed");
}

fn check_refused(text: &str, problem: &str) {
    assert_eq!(Member::parse(text), Err(problem.to_owned()), "{text}");
}

#[test]
fn server_lines_are_understood() {
    check("zk1:2888:3888", "zk1:2888:3888:participant");
    check("zk1.example.com:2888:3888:observer", "zk1.example.com:2888:3888:observer");
    check("10.0.0.1:2888:3888:PARTICIPANT", "10.0.0.1:2888:3888:participant");
    check("zk1:2888:3888;2181", "zk1:2888:3888:participant;0.0.0.0:2181");
    check("zk1:2888:3888;10.0.0.1:2181", "zk1:2888:3888:participant;10.0.0.1:2181");
    check("zk1:2888:3888:observer;2181", "zk1:2888:3888:observer;0.0.0.0:2181");
    check("[::1]:2888:3888", "[0:0:0:0:0:0:0:1]:2888:3888:participant");
    check(
        "[2001:DB8::A1]:2888:3888;[::]:2181",
        "[2001:db8:0:0:0:0:0:a1]:2888:3888:participant;[0:0:0:0:0:0:0:0]:2181",
    );
    check("[::ffff:10.0.0.1]:2888:3888", "10.0.0.1:2888:3888:participant");
    check("a:2888:3888|b:2889:3889", "a:2888:3888|b:2889:3889:participant");
    check("a:2888:3888:observer|b:2889:3889", "a:2888:3888|b:2889:3889:observer");
    check("a:2888:3888;2181;2281", "a:2888:3888:participant;0.0.0.0:2181;0.0.0.0:2281");
    check("a:2888:3888;;2281", "a:2888:3888:participant;;0.0.0.0:2281");
    check("a:2888:3888;", "a:2888:3888:participant");
    check("a:2888:3888:", "a:2888:3888:participant");
    check("a:2888:3888|", "a:2888:3888:participant");
    check("[zk1]:2888:3888", "zk1:2888:3888:participant");
    check("[fe80::1%eth0]:2888:3888", "[fe80::1%eth0]:2888:3888:participant");
    check("[fe80::1%2]:2888:3888", "[fe80:0:0:0:0:0:0:1%2]:2888:3888:participant");
    check(
        "[1::2]:2888:3888|[1::]:1:2",
        "[1:0:0:0:0:0:0:0]:1:2|[1:0:0:0:0:0:0:2]:2888:3888:participant",
    );
}

#[test]
fn server_lines_that_are_wrong_say_how() {
    let form = "is not host:quorumPort:electionPort[:role][;[host:]clientPort]";
    check_refused("", form);
    check_refused("zk1", form);
    check_refused("zk1:2888", form);
    check_refused(":2888:3888", form);
    check_refused("zk1:2888:3888:observer:x", form);
    check_refused("zk1:2888:2888", "uses port 2888 for both the quorum and the election");
    check_refused("zk1:x:3888", "has the port x, not one from 0 to 65535");
    check_refused("zk1:2888:70000", "has the port 70000, not one from 0 to 65535");
    check_refused("zk1:2888:3888:voter", "has the role voter, not participant or observer");
    check_refused("[::1:2888:3888", "has '[' without ']' in [::1:2888:3888");
    check_refused("[::1]", "has no port after ']' in [::1]");
    check_refused("zk1:2888:3888;a:b:1", "has the client address a:b:1, not [host:]port");
    check_refused("zk 1:2888:3888", "has the host \"zk 1\", which is not a host name");
    check_refused("[[zk1]:2888:3888", "has the host \"[zk1\", which is not a host name");
    check_refused("zk\\1:2888:3888", "has the host \"zk\\\\1\", which is not a host name");
    check_refused("zk1:1:2;a b:3", "has the host \"a b\", which is not a host name");
    check_refused("a:1:2||b:1:2", form);
    check_refused("zk1:1:2;3;4;5", "has more than two client addresses after ';'");
    check_refused(
        "a:2888:3888:observer|b:2888:3888:participant",
        "is observer at one address and participant at another",
    );
}

/// Apache keeps addresses as a set and writes them by host.
#[test]
fn addresses_are_a_set() {
    let sorted = Member::parse("a:2:3|b:1:2|b:2:3:observer;2181");
    assert_eq!(Member::parse("b:2:3|a:2:3|b:1:2:observer|a:2:3;2181"), sorted);
}

#[test]
fn endpoints_are_host_and_port() {
    let check = |text: &str, expected: Result<(&str, bool), &str>| {
        let found = Endpoint::parse(text).map(|e| (e.to_string(), e.is_wildcard()));
        let expected = expected.map(|(text, wildcard)| (text.to_owned(), wildcard));
        assert_eq!(found, expected.map_err(str::to_owned), "{text}");
    };
    check("zk1:3888", Ok(("zk1:3888", false)));
    check("10.0.0.1:3888", Ok(("10.0.0.1:3888", false)));
    check("0.0.0.0:3888", Ok(("0.0.0.0:3888", true)));
    check("[::]:3888", Ok(("[0:0:0:0:0:0:0:0]:3888", true)));
    check("[::1]:3888", Ok(("[0:0:0:0:0:0:0:1]:3888", false)));
    check("", Err("has the address , not host:port"));
    check("3888", Err("has the address 3888, not host:port"));
    check("a:1:2", Err("has the address a:1:2, not host:port"));
    check(":1", Err("has no host in :1"));
    check("a:70000", Err("has the port 70000, not one from 0 to 65535"));
    check("a b:1", Err("has the host \"a b\", which is not a host name"));
    assert!(Endpoint { host: None, port: 1 }.is_wildcard());
}

/// Feeds lines to a membership; returns it or the first problem.
fn membership(lines: &[(&str, &str)]) -> Result<Membership, String> {
    let mut membership = Membership::default();
    for (key, value) in lines {
        membership.take_line(key, value).expect("a line about members")?;
    }
    membership.complete_groups()?;
    Ok(membership)
}

const THREE: [(&str, &str); 3] =
    [("server.1", "a:1:2"), ("server.2", "b:1:2"), ("server.3", "c:1:2:observer")];

#[test]
fn groups_and_weights_are_completed() {
    let lines = [&THREE[..], &[("group.1", "1:2"), ("weight.2", "5")]].concat();
    let membership = membership(&lines).expect("groups are right");
    assert_eq!(membership.groups[&1], vec![ServerId(1), ServerId(2)]);
    assert_eq!(membership.weights[&ServerId(1)], 1);
    assert_eq!(membership.weights[&ServerId(2)], 5);
    assert_eq!(membership.participants().count(), 2);
    assert_eq!(membership.observers().count(), 1);
    assert_eq!(membership.voters().collect::<Vec<_>>(), [ServerId(1), ServerId(2)]);
}

#[test]
fn groups_that_are_wrong_say_how() {
    let check = |more: &[(&str, &str)], problem: &str| {
        let lines = [&THREE[..], more].concat();
        assert_eq!(membership(&lines), Err(problem.to_owned()), "{more:?}");
    };
    check(&[("group.1", "1")], "there are groups, but server.2 is in none of them");
    check(&[("weight.1", "2")], "there are groups, but server.1 is in none of them");
    check(&[("group.1", "1:2:9")], "group.1 has server 9, which does not vote");
    check(&[("group.1", "1:2"), ("group.2", "2")], "has server 2, which is also in group.1");
    check(&[("group.1", "1,2")], "is not a list of server numbers such as 1:2:3");
    check(&[("group.x", "1")], "is not group.<number>");
    check(&[("groups", "1")], "is not group.<number>");
    check(&[("weight.1", "heavy")], "is not a weight such as 1");
    check(&[("server.x", "a:1:2")], "is not server.<number>");
    check(&[("group.1", "1:2:1")], "has server 1 twice");
    check(&[("group.1", "1"), ("group.01", "2")], "is group.1 a second time");
    check(&[("weight.1", "1"), ("weight.01", "2")], "is weight.1 a second time");
    check(&[("server.01", "d:1:2")], "is server.1 a second time");
    let heavy = i64::MAX.to_string();
    let too_heavy = [("group.1", "1:2"), ("weight.1", &*heavy), ("weight.2", "1")];
    check(&too_heavy, "the weights are too large to be added up");
}

/// What Apache's `QuorumMaj.toString` and `QuorumHierarchical.toString` write.
const MAJORITY: &str = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\n\
    server.2=[2001:db8:0:0:0:0:0:2]:2888:3888:participant;[2001:db8:0:0:0:0:0:2]:2181\n\
    server.3=a:2888:3888|b:2888:3888:participant\n\
    server.10=zk10:2888:3888:observer\n\
    version=10000000a";
const GROUPS: &str = "server.1=a:1:2:participant\nserver.2=b:1:2:participant\n\
    server.3=c:1:2:observer\ngroup.1=1\ngroup.2=2\nweight.1=1\nweight.2=0\nversion=0";

#[test]
fn the_text_of_a_membership_comes_back() {
    for text in [MAJORITY, GROUPS] {
        let membership = Membership::parse_text(text).expect("the text is right");
        assert_eq!(membership.to_text(), text);
        // Apache's lines come in the order of a hash map.
        let mut lines: Vec<_> = text.lines().collect();
        for _ in 0..lines.len() {
            lines.rotate_left(1);
            for separator in ["\n", "\r\n", "\n\n", " \n\t"] {
                let other = lines.join(separator);
                assert_eq!(Membership::parse_text(&other), Ok(membership.clone()), "{other}");
            }
        }
    }
}

#[test]
fn texts_that_are_not_in_our_form_are_understood() {
    let check = |text: &str, expected: &str| {
        let shown = Membership::parse_text(text).map(|membership| membership.to_text());
        assert_eq!(shown.as_deref(), Ok(expected), "{text:?}");
    };
    check("server.1=a:1:2", "server.1=a:1:2:participant\nversion=0");
    check("server.1 = a:1:2\n", "server.1=a:1:2:participant\nversion=0");
    check("version=0A\nserver.1=a:1:2", "server.1=a:1:2:participant\nversion=a");
    check("server.1=a:1:2\nserver.1=b:1:2;3", "server.1=b:1:2:participant;0.0.0.0:3\nversion=0");
    check(
        "server.7=a:1:2\ngroup.3=7:\nversion=7fffffffffffffff",
        "server.7=a:1:2:participant\ngroup.3=7\nweight.7=1\nversion=7fffffffffffffff",
    );
}

#[test]
fn texts_that_are_wrong_say_how() {
    let check = |text: &str, problem: &str| {
        assert_eq!(Membership::parse_text(text), Err(problem.to_owned()), "{text:?}");
    };
    check("", "names no server that votes");
    check("version=0", "names no server that votes");
    check("server.1=a:1:2:observer", "names no server that votes");
    check("server.1", "server.1 is not key=value");
    check("=", "= is not about a server, a group, a weight or a version");
    check("clientPort=1", "clientPort=1 is not about a server, a group, a weight or a version");
    check("version=g", "version=g is not a hexadecimal number");
    check("version=", "version= is not a hexadecimal number");
    check("version=-1", "version=-1 is not a hexadecimal number");
    check("version=8000000000000000", "version=8000000000000000 is not a hexadecimal number");
    check("server.=a:1:2", "server.=a:1:2 is not server.<number>");
    check("server.-1=a:1:2", "server.-1=a:1:2 is not server.<number>");
    check("server.1=a:1:1", "server.1=a:1:1 uses port 1 for both the quorum and the election");
    check("server.1=a:1:2\ngroup.1=2", "there are groups, but server.1 is in none of them");
    check("server.1=a:1:2\ngroup.1=1:2", "group.1 has server 2, which does not vote");
    check("server.1=a:1:2\nweight.1=", "weight.1= is not a weight such as 1");
    check(&"\n".repeat(TEXT_BYTES_MAX + 1), "is longer than 65536 bytes");
}
