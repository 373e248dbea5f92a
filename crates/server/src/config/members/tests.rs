//! `server.N`, `group.N` and `weight.N` lines as people write them, and as they get them wrong.

use super::*;

/// The line is accepted and shown in Apache's form.
fn check(text: &str, shown: &str) {
    let member = Member::parse(text).unwrap_or_else(|problem| panic!("{text}: {problem}"));
    assert_eq!(member.to_string(), shown, "{text}");
    assert_eq!(Member::parse(shown), Ok(member), "{shown} comes back");
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
    check("[::1]:2888:3888", "[::1]:2888:3888:participant");
    check("[2001:db8::1]:2888:3888;[::]:2181", "[2001:db8::1]:2888:3888:participant;[::]:2181");
    check("a:2888:3888|b:2889:3889", "a:2888:3888|b:2889:3889:participant");
    check("a:2888:3888:observer|b:2889:3889", "a:2888:3888|b:2889:3889:observer");
    check("a:2888:3888;2181;2281", "a:2888:3888:participant;0.0.0.0:2181;0.0.0.0:2281");
    check("a:2888:3888;;2281", "a:2888:3888:participant;;0.0.0.0:2281");
    check("a:2888:3888;", "a:2888:3888:participant");
    check("a:2888:3888:", "a:2888:3888:participant");
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
    check_refused("zk1:1:2;3;4;5", "has more than two client addresses after ';'");
    check_refused(
        "a:2888:3888:observer|b:2888:3888:participant",
        "is observer at one address and participant at another",
    );
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
}
