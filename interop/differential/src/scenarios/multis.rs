//! multi and multiRead.

use herdsman_proto::{JuteWrite, OpCode};

use super::{Client, Scenario, check, create, create_with, delete, open_acl, raw};
use crate::action::Action;
use crate::call::Call;

pub(super) const FORMS: Scenario = Scenario {
    name: "multi-forms",
    about: "results of every op in a multi, of failures at every place, of an empty multi",
    slots: 2,
    actions: forms,
};

fn multi(parts: &[Call]) -> Call {
    Call::multi(OpCode::Multi, parts)
}

fn forms(root: &str) -> Vec<Action> {
    let (one, two) = (Client(0), Client(1));
    let path = |name: &str| format!("{root}/{name}");
    let open = open_acl();
    let mut actions = vec![
        one.create(root),
        two.add_watch(root, 1),
        two.watch(OpCode::GetChildren, root),
        one.call(multi(&[])),
        one.call(multi(&[check(root, -1), check(root, 0)])),
        one.call(multi(&[check(root, 5)])),
        one.call(multi(&[
            create(&path("a"), 0),
            create_with(OpCode::Create, &path("b"), 0, Some(&open), None),
            create_with(OpCode::CreateContainer, &path("c"), 4, Some(&open), None),
            create_with(OpCode::CreateTtl, &path("t"), 5, Some(&open), Some(3_600_000)),
            create(&path("s-"), 2),
            create(&path("e-"), 3),
            Call::set_data(raw(&path("a")), Some(b"new"), 0),
            check(&path("a"), 1),
            delete(&path("b")),
            create(&path("a/child"), 0),
        ])),
    ];
    let names = ["a", "c", "t", "s-0000000004", "e-0000000005"];
    actions.extend(names.map(|name| one.read(OpCode::GetData, &path(name))));
    // The failing op first, in the middle, last.
    for at in 0..4 {
        let mut parts = vec![
            create(&path("x"), 0),
            Call::set_data(raw(&path("x")), None, 0),
            delete(&path("x")),
        ];
        parts.insert(at, check(&path("nothing"), -1));
        actions.push(one.call(multi(&parts)));
    }
    actions.extend(odd_forms(root));
    actions
}

/// Flags that contradict their op, ops that are not allowed in a multi, lists without an end or continued
/// after it.
fn odd_forms(root: &str) -> Vec<Action> {
    let one = Client(0);
    let open = open_acl();
    let path = |name: &str| format!("{root}/{name}");
    let single = |op, name: &str, flags, ttl| {
        one.call(multi(&[create_with(op, &path(name), flags, Some(&open), ttl)]))
    };
    vec![
        // A container by its flags, and TTL flags without the op.
        one.call(multi(&[create(&path("f4"), 4)])),
        one.call(multi(&[create(&path("f5"), 5)])),
        one.call(multi(&[create(&path("f9"), 9)])),
        single(OpCode::CreateTtl, "t0", 0, Some(1)),
        single(OpCode::CreateTtl, "t9", 9, Some(1)),
        single(OpCode::CreateTtl, "t4", 4, Some(1)),
        single(OpCode::CreateTtl, "t3-", 3, Some(-1)),
        single(OpCode::CreateContainer, "c0", 0, None),
        single(OpCode::CreateTtl, "t-", 6, Some(0)),
        // Ops that are not allowed here.
        one.call(multi(&[Call::read(OpCode::GetData, raw(root), false)])),
        one.call(multi(&[check(root, -1), Call::read(OpCode::GetData, raw(root), false)])),
        one.call(multi(&[Call::path_only(OpCode::Sync, raw(root))])),
        one.call(multi(&[Call::set_acl(raw(root), Some(&open), -1)])),
        one.call(multi(&[multi(&[])])),
        one.call(multi(&[Call::raw(-1, Vec::new(), "error op")])),
        // Paths that are checked inside.
        one.call(multi(&[check("", -1)])),
        one.call(multi(&[check("relative", -1)])),
        one.call(multi(&[delete("/")])),
        one.call(multi(&[create("/", 0)])),
        one.call(multi(&[Call::set_data(None, None, -1)])),
        one.call(unfinished(root)),
        one.call(done_early(root)),
        one.read(OpCode::GetChildren2, root),
    ]
}

/// A multi without an end marker.
fn unfinished(root: &str) -> Call {
    let mut call = multi(&[create(&format!("{root}/unfinished"), 0)]);
    call.body.truncate(call.body.len() - 9);
    call.label = "multi without its end".into();
    call
}

/// A multi with the end marker before its last op.
fn done_early(root: &str) -> Call {
    let mut call = multi(&[]);
    call.body.put_raw(&multi(&[create(&format!("{root}/late"), 0)]).body);
    call.label = "multi with ops behind its end".into();
    call
}

pub(super) const ROLLBACK: Scenario = Scenario {
    name: "multi-rollback",
    about: "a failed multi releases its sequence numbers, also those of requests in flight",
    slots: 1,
    actions: rollback,
};

fn rollback(root: &str) -> Vec<Action> {
    let one = Client(0);
    let seq = || create(&format!("{root}/s-"), 2);
    let failing = || multi(&[seq(), seq(), check(&format!("{root}/nothing"), -1)]);
    let mut actions = vec![one.create(root)];
    for _ in 0..5 {
        actions.extend([
            one.burst(vec![seq(), failing(), seq(), failing(), failing(), seq()]),
            one.burst(vec![
                create(&format!("{root}/x"), 0),
                multi(&[delete(&format!("{root}/x")), check(&format!("{root}/nothing"), -1)]),
                Call::set_data(raw(&format!("{root}/x")), Some(b"still here"), 0),
                multi(&[delete(&format!("{root}/x")), create(&format!("{root}/x"), 1)]),
                delete(&format!("{root}/x")),
            ]),
            one.call(failing()),
            one.call(seq()),
            one.read(OpCode::GetChildren2, root),
        ]);
    }
    actions
}

pub(super) const READS: Scenario = Scenario {
    name: "multi-read",
    about: "multiRead: results and errors side by side, watch flags ignored or not, wrong ops",
    slots: 1,
    actions: reads,
};

fn reads(root: &str) -> Vec<Action> {
    let one = Client(0);
    let missing = format!("{root}/missing");
    let reads = |parts: &[Call]| Call::multi(OpCode::MultiRead, parts);
    vec![
        one.create(root),
        one.call(reads(&[])),
        one.call(reads(&[
            Call::read(OpCode::GetData, raw(root), true),
            Call::read(OpCode::GetChildren, raw(&missing), true),
            Call::read(OpCode::GetChildren, raw(root), true),
            Call::read(OpCode::GetData, raw("no path"), false),
            Call::read(OpCode::GetData, raw("/zookeeper/config"), false),
        ])),
        one.create(&missing),
        one.set_data(root, "x"),
        one.call(reads(&[Call::read(OpCode::Exists, raw(root), false)])),
        one.call(reads(&[Call::read(OpCode::GetChildren2, raw(root), false)])),
        one.call(reads(&[check(root, -1)])),
        one.call(reads(&[delete(&missing)])),
        one.call(reads(&[Call::read(OpCode::GetData, raw(root), false), delete(&missing)])),
        one.call(reads(&[Call::read(OpCode::GetData, None, false)])),
        one.read(OpCode::Exists, &missing),
    ]
}
