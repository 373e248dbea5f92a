//! Each reply by itself: its fields are consistent with its request and its zxid.

use super::Findings;
use crate::wire::{self, EPHEMERAL, Kind, Op, SEQUENTIAL, Stat};
use crate::workloads::history::{self, Answer, Call, Outcome, Record, is_over};

/// The number of digits of a sequential node's number.
pub const DIGITS: usize = 10;
const NEW_CONFIG_NO_QUORUM: i32 = -13;
const RECONFIG_IN_PROGRESS: i32 = -14;

/// Reports replies that no server may send.
pub fn check(records: &[Record]) -> Findings {
    let mut findings = Findings::default();
    for (session, call) in history::calls(records) {
        if let Err(why) = check_call(session, call) {
            findings.wrong.push(format!("session {session:#x}: {call:?}: {why}"));
        }
    }
    findings
}

fn check_call(session: i64, call: &Call) -> Result<(), String> {
    if let Outcome::Refused { err, at, .. } = call.outcome {
        let is_due = call.ops().get(at).is_some_and(|op| may_be_refused(op, err));
        return ensure(is_over(err) || is_due, "unexpected error");
    }
    let Some((zxid, answers)) = call.done() else {
        return Ok(());
    };
    answers.iter().try_for_each(|(op, answer)| check_answer(session, zxid, op, answer))
}

fn may_be_refused(op: &Op, err: i32) -> bool {
    let version = match op {
        Op::Versioned { version, .. } | Op::SetData { version, .. } => *version,
        _ => -1,
    };
    match err {
        wire::NO_NODE => op.kind() != Kind::CloseSession,
        wire::NODE_EXISTS => {
            matches!(op, Op::Create { flags, .. } if flags & SEQUENTIAL == 0)
        }
        wire::BAD_VERSION => version >= 0,
        NEW_CONFIG_NO_QUORUM | RECONFIG_IN_PROGRESS => op.kind() == Kind::Reconfig,
        _ => false,
    }
}

fn check_answer(session: i64, zxid: i64, op: &Op, answer: &Answer) -> Result<(), String> {
    if let Some(stat) = stat_of(answer) {
        check_stat(zxid, stat)?;
    }
    match (op, answer) {
        (Op::Create { path, data, flags, .. }, Answer::Created(made, stat)) => {
            check_name(path, made, *flags)?;
            let owner = if flags & EPHEMERAL == 0 { 0 } else { session };
            let new = Stat {
                head: [zxid, zxid, stat.head[2], stat.head[2]],
                versions: [0, 0, 0],
                owner,
                sizes: [length(data.as_deref()), 0],
                pzxid: zxid,
            };
            ensure(*stat == new, "not the Stat of a new node")
        }
        (Op::SetData { data, version, .. }, Answer::Stat(stat)) => {
            ensure(stat.mzxid() == zxid, "mzxid is not the write's own")?;
            ensure(stat.sizes[0] == length(data.as_deref()), "wrong dataLength")?;
            ensure(*version < 0 || stat.version() == version + 1, "not the next version")
        }
        (Op::Reconfig { .. }, Answer::Data(data, stat)) => {
            ensure(stat.mzxid() == zxid, "mzxid is not the write's own")?;
            ensure(stat.sizes[0] == length(data.as_deref()), "wrong dataLength")
        }
        (Op::Read { kind: Kind::GetData, .. }, Answer::Data(data, stat)) => {
            ensure(stat.sizes[0] == length(data.as_deref()), "wrong dataLength")
        }
        (Op::Read { kind: Kind::GetChildren2, .. }, Answer::Children(names, stat)) => {
            ensure(names.windows(2).all(|pair| pair[0] != pair[1]), "a repeated name")?;
            ensure(usize::try_from(stat.sizes[1]) == Ok(names.len()), "wrong numChildren")
        }
        (Op::Read { kind: Kind::Exists, .. }, Answer::Stat(_)) => Ok(()),
        (_, Answer::Nothing) => Ok(()),
        _ => Err("not a reply to this request".into()),
    }
}

fn check_stat(zxid: i64, stat: &Stat) -> Result<(), String> {
    ensure(stat.mzxid() <= zxid && stat.pzxid <= zxid, "newer than the reply's zxid")?;
    // The node with the membership existed before any zxid.
    let is_ordered = stat.czxid() <= stat.mzxid() && stat.czxid() <= stat.pzxid;
    ensure(is_ordered, "changed before it was created")?;
    let is_new = stat.czxid() == stat.mzxid();
    ensure(is_new == (stat.version() == 0) || stat.version() < 0, "version and mzxid disagree")
}

fn stat_of(answer: &Answer) -> Option<&Stat> {
    match answer {
        Answer::Data(_, stat) | Answer::Stat(stat) => Some(stat),
        Answer::Created(_, stat) | Answer::Children(_, stat) => Some(stat),
        _ => None,
    }
}

fn check_name(asked: &str, made: &str, flags: i32) -> Result<(), String> {
    let rest = made.strip_prefix(asked).ok_or("not the requested path")?;
    if flags & SEQUENTIAL == 0 {
        return ensure(rest.is_empty(), "not the requested path");
    }
    let is_number = rest.len() == DIGITS && rest.bytes().all(|byte| byte.is_ascii_digit());
    ensure(is_number, "not a number of ten digits")
}

fn length(data: Option<&[u8]>) -> i32 {
    data.map_or(0, |data| i32::try_from(data.len()).unwrap_or(i32::MAX))
}

fn ensure(holds: bool, why: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::history::made::*;

    fn is_fine(op: Op, outcome: Outcome) -> bool {
        check(&history([(op, outcome)])).is_empty()
    }

    #[test]
    fn a_new_node_is_new() {
        let create = || Op::create("/a", Some(b"x"), 0);
        let made = |path: &str, stat| done(5, Answer::Created(path.into(), stat));
        assert!(is_fine(create(), made("/a", stat(5, 5, 0, "x"))));
        assert!(!is_fine(create(), made("/b", stat(5, 5, 0, "x"))));
        assert!(!is_fine(create(), made("/a", stat(4, 4, 0, "x"))));
        assert!(!is_fine(create(), made("/a", stat(5, 5, 0, "xy"))));
        let owned = Stat { owner: 1, ..stat(5, 5, 0, "x") };
        assert!(!is_fine(create(), made("/a", owned.clone())));
        let ephemeral = || Op::create("/a", Some(b"x"), EPHEMERAL);
        assert!(is_fine(ephemeral(), made("/a", owned)));
        assert!(!is_fine(ephemeral(), made("/a", stat(5, 5, 0, "x"))));
        let numbered = || Op::create("/a", Some(b"x"), SEQUENTIAL);
        assert!(is_fine(numbered(), made("/a0000000007", stat(5, 5, 0, "x"))));
        assert!(!is_fine(numbered(), made("/a", stat(5, 5, 0, "x"))));
    }

    #[test]
    fn a_set_makes_the_next_version_at_its_own_zxid() {
        let set = || Op::set_data("/a", Some(b"x"), 3);
        let answer = |stat| done(9, Answer::Stat(stat));
        assert!(is_fine(set(), answer(stat(5, 9, 4, "x"))));
        assert!(!is_fine(set(), answer(stat(5, 9, 5, "x"))));
        assert!(!is_fine(set(), answer(stat(5, 8, 4, "x"))));
        assert!(!is_fine(set(), answer(stat(5, 9, 4, ""))));
    }

    #[test]
    fn a_read_fits_its_own_zxid_and_length() {
        let get = |data: &str, stat| {
            let (op, outcome) = read("/a", data, 9, stat);
            is_fine(op, outcome)
        };
        assert!(get("x", stat(5, 9, 4, "x")));
        assert!(!get("x", stat(5, 10, 4, "x")));
        assert!(!get("xy", stat(5, 9, 4, "x")));
        assert!(!get("x", stat(5, 5, 4, "x")));
        assert!(!get("x", stat(5, 9, 0, "x")));
    }

    #[test]
    fn a_listing_has_as_many_names_as_children() {
        let list = |names: &[&str], count| {
            let names = names.iter().map(ToString::to_string).collect();
            let stat = Stat { sizes: [0, count], pzxid: 9, ..stat(5, 5, 0, "") };
            is_fine(Op::list("/a"), done(9, Answer::Children(names, stat)))
        };
        assert!(list(&["a", "b"], 2));
        assert!(!list(&["a", "b"], 3));
        assert!(!list(&["a", "a"], 2));
    }

    #[test]
    fn errors_fit_their_requests() {
        assert!(is_fine(Op::set_data("/a", None, 1), refused(1, wire::BAD_VERSION)));
        assert!(!is_fine(Op::set_data("/a", None, -1), refused(1, wire::BAD_VERSION)));
        assert!(!is_fine(Op::create("/a", None, SEQUENTIAL), refused(1, wire::NODE_EXISTS)));
        assert!(!is_fine(Op::get_data("/a"), refused(1, -1)));
        assert!(is_fine(Op::get_data("/a"), refused(1, wire::SESSION_EXPIRED)));
        assert!(!is_fine(Op::get_data("/a"), done(1, Answer::Unreadable("short".into()))));
    }
}
