//! Histories that no server may produce, one for each rule.

use super::*;
use crate::wire::EPHEMERAL;
use crate::workloads::history::made::*;

fn findings(records: &[Record]) -> Findings {
    // The final state is set by the tests that use it.
    let mut timeline = Timeline::default();
    records.iter().for_each(|record| timeline.add(record));
    timeline.spread_listings();
    timeline.evaluate()
}

fn set(path: &str, data: &str, zxid: i64, version: i32) -> (Op, Outcome) {
    let answer = Answer::Stat(stat(1, zxid, version, data));
    (Op::set_data(path, Some(data.as_bytes()), -1), done(zxid, answer))
}

fn list(path: &str, names: &[&str], zxid: i64, pzxid: i64, cversion: i32) -> (Op, Outcome) {
    let mut stat = stat(1, 1, 0, "");
    stat.pzxid = pzxid;
    stat.versions[1] = cversion;
    stat.sizes[1] = i32::try_from(names.len()).unwrap();
    let names = names.iter().map(ToString::to_string).collect();
    (Op::list(path), done(zxid, Answer::Children(names, stat)))
}

fn delete(path: &str, zxid: i64) -> (Op, Outcome) {
    (Op::delete(path, -1), done(zxid, Answer::Nothing))
}

fn unknown(op: Op) -> (Op, Outcome) {
    (op, Outcome::Unknown)
}

#[test]
fn a_good_history_is_fine() {
    let good = findings(&history([
        created("/p", "", 1),
        created("/p/a", "x", 2),
        list("/p", &["a"], 2, 2, 1),
        read("/p/a", "x", 3, stat(2, 2, 0, "x")),
        delete("/p/a", 4),
        (Op::get_data("/p/a"), refused(4, NO_NODE)),
        list("/p", &[], 4, 4, 2),
        created("/p/a", "y", 6),
        (Op::create("/p/a", None, 0), refused(7, NODE_EXISTS)),
    ]));
    assert!(good.is_empty(), "{good:?}");
}

#[test]
fn a_read_that_is_older_than_its_zxid_is_stale() {
    let old = read("/a", "x", 6, stat(1, 1, 0, "x"));
    let bad = findings(&history([created("/a", "x", 1), set("/a", "y", 5, 1), old]));
    assert_eq!(bad.stale.len(), 1, "{bad:?}");
    let in_time = read("/a", "x", 4, stat(1, 1, 0, "x"));
    assert!(findings(&history([created("/a", "x", 1), set("/a", "y", 5, 1), in_time])).is_empty());
}

#[test]
fn two_writes_never_get_the_same_version() {
    let bad = [created("/a", "x", 1), set("/a", "y", 5, 1), set("/a", "z", 6, 1)];
    assert_eq!(findings(&history(bad)).wrong.len(), 1);
}

#[test]
fn a_version_that_was_never_written_is_wrong() {
    let gap = || [created("/a", "x", 1), set("/a", "z", 6, 2)];
    assert_eq!(findings(&history(gap())).wrong.len(), 1);
    let explained = gap().into_iter().chain([unknown(Op::set_data("/a", Some(b"y"), -1))]);
    assert!(findings(&history(explained)).is_empty());
}

#[test]
fn a_value_that_was_never_written_is_wrong() {
    let bad = [created("/a", "x", 1), read("/a", "y", 3, stat(1, 3, 1, "y"))];
    assert_eq!(findings(&history(bad)).wrong.len(), 1);
    let other = [created("/a", "x", 1), read("/a", "y", 3, stat(1, 1, 0, "y"))];
    assert_eq!(findings(&history(other)).wrong.len(), 1);
}

#[test]
fn a_write_of_unknown_outcome_is_executed_once() {
    let lost = || unknown(Op::set_data("/a", Some(b"y"), -1));
    let once = read("/a", "y", 3, stat(1, 3, 1, "y"));
    let twice = read("/a", "y", 4, stat(1, 4, 2, "y"));
    let fine = [created("/a", "x", 1), lost(), once.clone()];
    assert!(findings(&history(fine)).is_empty());
    let bad = [created("/a", "x", 1), lost(), once, twice];
    assert_eq!(findings(&history(bad)).wrong.len(), 1);
}

#[test]
fn rejected_writes_have_no_effect() {
    let refusal = (Op::set_data("/a", Some(b"y"), 7), refused(2, BAD_VERSION));
    let bad = [created("/a", "x", 1), refusal, read("/a", "y", 3, stat(1, 3, 1, "y"))];
    assert_eq!(findings(&history(bad)).wrong.len(), 1);
}

#[test]
fn a_rejection_needs_a_reason() {
    let cas = |zxid| (Op::set_data("/a", Some(b"y"), 0), refused(zxid, BAD_VERSION));
    let later = || set("/a", "y", 5, 1);
    assert_eq!(findings(&history([created("/a", "x", 1), cas(3), later()])).wrong.len(), 1);
    assert!(findings(&history([created("/a", "x", 1), later(), cas(6)])).is_empty());
    let exists = (Op::create("/a", None, 0), refused(3, NODE_EXISTS));
    let bad = [created("/a", "x", 1), delete("/a", 2), exists];
    assert_eq!(findings(&history(bad)).wrong.len(), 1);
    let no_node = (Op::set_data("/a", None, -1), refused(3, NO_NODE));
    let bad = [created("/a", "x", 1), no_node, read("/a", "x", 4, stat(1, 1, 0, "x"))];
    assert_eq!(findings(&history(bad)).lost.len(), 1);
}

#[test]
fn a_node_that_vanishes_is_lost() {
    let missing = || (Op::get_data("/a"), refused(3, NO_NODE));
    assert_eq!(findings(&history([created("/a", "x", 1), missing()])).lost.len(), 1);
    let maybe = unknown(Op::delete("/a", -1));
    assert!(findings(&history([created("/a", "x", 1), maybe, missing()])).is_empty());
    let unlisted = [created("/p", "", 1), created("/p/a", "x", 2), list("/p", &[], 3, 3, 2)];
    assert_eq!(findings(&history(unlisted)).lost.len(), 1);
}

#[test]
fn a_listed_node_was_created() {
    let unexplained = || [created("/p", "", 1), list("/p", &["n-0000000000"], 3, 3, 1)];
    assert_eq!(findings(&history(unexplained())).wrong.len(), 1);
    let maybe = unknown(Op::create("/p/n-", Some(b"x"), SEQUENTIAL));
    assert!(findings(&history(unexplained().into_iter().chain([maybe]))).is_empty());
}

#[test]
fn children_change_with_the_pzxid() {
    let lists = |second| [created("/p", "", 1), list("/p", &[], 3, 1, 0), second];
    assert!(findings(&history(lists(list("/p", &[], 4, 1, 0)))).is_empty());
    let bad = findings(&history(lists(list("/p", &[], 4, 1, 1))));
    assert_eq!(bad.wrong.len(), 1, "{bad:?}");
    let bad = findings(&history(lists(list("/p", &[], 4, 2, 1))));
    assert_eq!(bad.stale.len(), 1, "{bad:?}");
}

#[test]
fn an_ephemeral_lives_as_long_as_its_session() {
    let mut own = stat(2, 2, 0, "");
    own.owner = 1;
    let made = (Op::create("/e", None, EPHEMERAL), done(2, Answer::Created("/e".into(), own)));
    let missing = |zxid| (Op::exists("/e"), refused(zxid, NO_NODE));
    let close = || (Op::CloseSession, done(6, Answer::Nothing));
    let alive = || created("/b", "", 5);
    let of = |calls: Vec<(Op, Outcome)>| {
        let mut all = vec![made.clone()];
        all.extend(calls);
        findings(&history(all))
    };
    assert!(of(vec![alive(), close(), missing(6)]).is_empty());
    assert_eq!(of(vec![missing(4)]).lost.len(), 1);
    assert_eq!(of(vec![alive(), close(), missing(4)]).lost.len(), 1);
    let still = (Op::create("/e", None, 0), refused(7, NODE_EXISTS));
    assert_eq!(of(vec![alive(), close(), still]).wrong.len(), 1);
}

#[test]
fn the_end_counts() {
    let records = history([created("/w", "", 1), created("/w/a", "x", 2)]);
    let node = |czxid, data: &str, children| {
        let mut stat = stat(czxid, czxid, 0, data);
        (stat.sizes[1], stat.versions[1]) = (children, children);
        stat.pzxid = 2;
        crate::listing::Node { data: Some(data.into()), stat, acl: Vec::new() }
    };
    let mut end = Nodes::from([("/w".into(), node(1, "", 1)), ("/w/a".into(), node(2, "x", 0))]);
    let fine = check(&records, "/w", &end);
    assert!(fine.is_empty(), "{fine:?}");
    end.insert("/w/b".into(), node(2, "y", 0));
    assert_eq!(check(&records, "/w", &end).wrong.len(), 1);
    end.remove("/w/b");
    end.remove("/w/a");
    assert_eq!(check(&records, "/w", &end).lost.len(), 1);
}
