//! Every op with odd paths, with nulls, and with bodies that end too early.

use herdsman_proto::OpCode;

use super::{Client, Scenario, create, delete, open_acl, raw};
use crate::action::{Action, Hello};
use crate::call::{Call, Create};

pub(super) const PATHS: Scenario = Scenario {
    name: "odd-paths",
    about: "every op with every kind of broken path",
    slots: 1,
    actions: paths,
};

/// Every op that takes a path, with this one.
fn with_path(path: Option<&[u8]>) -> Vec<Call> {
    let open = open_acl();
    let created = |flags| {
        Call::create(&Create {
            op: OpCode::Create2,
            path,
            data: Some(b""),
            acl: Some(&open),
            flags,
            ttl_ms: None,
        })
    };
    vec![
        created(0),
        created(2),
        Call::read(OpCode::Exists, path, false),
        Call::read(OpCode::GetData, path, false),
        Call::path_only(OpCode::GetAcl, path),
        Call::read(OpCode::GetChildren, path, false),
        Call::read(OpCode::GetChildren2, path, false),
        Call::path_only(OpCode::Sync, path),
        Call::path_only(OpCode::GetEphemerals, path),
        Call::path_only(OpCode::GetAllChildrenNumber, path),
        Call::set_data(path, Some(b"x"), 99),
        Call::set_acl(path, Some(&open), 99),
        Call::numbered(OpCode::Delete, path, 99),
        Call::multi(OpCode::Multi, &[created(0)]),
        Call::multi(OpCode::Multi, &[Call::numbered(OpCode::Check, path, 99)]),
        Call::multi(OpCode::Multi, &[Call::numbered(OpCode::Delete, path, 99)]),
        Call::multi(OpCode::Multi, &[Call::set_data(path, None, 99)]),
        Call::multi(OpCode::MultiRead, &[Call::read(OpCode::GetData, path, false)]),
    ]
}

/// Ops on watches with this path.
fn watches_with_path(path: Option<&[u8]>) -> Vec<Call> {
    let list = vec![path.unwrap_or_default().to_vec()];
    vec![
        Call::read(OpCode::Exists, path, true),
        Call::numbered(OpCode::AddWatch, path, 0),
        Call::numbered(OpCode::AddWatch, path, 1),
        Call::numbered(OpCode::CheckWatches, path, 3),
        Call::numbered(OpCode::RemoveWatches, path, 3),
        Call::set_watches(0, &[list.clone(), list.clone(), list]),
    ]
}

fn paths(root: &str) -> Vec<Action> {
    let one = Client(0);
    let mut actions = vec![one.create(root)];
    // Not here: characters above U+FFFF, which Java returns as two surrogates (docs/compatibility.md).
    let suffixes: [&[u8]; 23] = [
        b"/",
        b"//",
        b"//x",
        b"/.",
        b"/..",
        b"/./x",
        b"/../x",
        b"/...",
        b"/.x",
        b"/\0",
        b"/x\0",
        b"/\x01",
        b"/\x1f",
        b"/\x7f",
        "/\u{80}".as_bytes(),
        "/\u{9f}".as_bytes(),
        "/\u{a0}".as_bytes(),
        "/\u{d7ff}".as_bytes(),
        "/\u{e000}".as_bytes(),
        "/\u{f8ff}".as_bytes(),
        "/\u{f900}".as_bytes(),
        "/\u{ffef}".as_bytes(),
        "/\u{fff0}".as_bytes(),
    ];
    // Bytes that are not UTF-8: Java's replacement determines which path it is.
    let broken: [&[u8]; 6] =
        [b"/\xff", b"/\xc3", b"/\xf0\x9f\x98", b"/\xc0\x80", b"/a\x80b", b"/\xf4\x90\x80\x80"];
    let whole: [&[u8]; 8] = [b"", b"x", b"x/y", b"/", b"//", b"/\0", b"/nothing/below", b" /x"];
    let suffixed = suffixes.iter().chain(&broken).map(|suffix| {
        let mut path = root.as_bytes().to_vec();
        path.extend_from_slice(suffix);
        path
    });
    for path in suffixed.chain(whole.iter().map(|path| path.to_vec())) {
        let calls = with_path(Some(&path)).into_iter();
        actions.extend(calls.map(|call| one.call(call)));
        let calls = watches_with_path(Some(&path)).into_iter();
        actions.extend(calls.map(|call| one.call(call)));
    }
    actions.push(one.read(OpCode::GetChildren2, root));
    actions
}

pub(super) const NULLS: Scenario = Scenario {
    name: "nulls",
    about: "null where the path of a read or a scheme should be",
    slots: 1,
    actions: nulls,
};

fn nulls(root: &str) -> Vec<Action> {
    let one = Client(0);
    let mut actions = vec![one.create(root)];
    // Writes without a path are rejected by both, with different codes (docs/compatibility.md).
    let reads = [
        OpCode::Exists,
        OpCode::GetData,
        OpCode::GetAcl,
        OpCode::GetChildren,
        OpCode::GetChildren2,
    ];
    let reads = reads.map(OpCode::code);
    for call in with_path(None).into_iter().filter(|call| reads.contains(&call.op)) {
        actions.extend([one.call(call), again()]);
    }
    let mut null_id = create(&format!("{root}/id"), 0);
    null_id.body = null_acl_id(root);
    null_id.label = "create with null scheme and id".into();
    actions.extend([one.call(null_id), one.read(OpCode::GetChildren2, root)]);
    actions
}

fn again() -> Action {
    Action::Hello { slot: 0, hello: Hello::again() }
}

fn null_acl_id(root: &str) -> Vec<u8> {
    use herdsman_proto::JuteWrite;
    let mut body = Vec::new();
    body.put_string(&format!("{root}/id"));
    body.put_buffer(None);
    body.put_int(1);
    body.put_int(31);
    body.put_buffer(None);
    body.put_buffer(None);
    body.put_int(0);
    body
}

pub(super) const TRUNCATED: Scenario = Scenario {
    name: "truncated",
    about: "every op cut off at every byte, and with bytes behind it",
    slots: 1,
    actions: truncated,
};

fn truncated(root: &str) -> Vec<Action> {
    let one = Client(0);
    let open = open_acl();
    let path = raw("/t");
    let mut victims = with_path(path);
    victims.retain(|call| call.op != OpCode::Sync.code());
    victims.extend([
        Call::numbered(OpCode::AddWatch, path, 0),
        Call::numbered(OpCode::CheckWatches, path, 3),
        Call::numbered(OpCode::RemoveWatches, path, 3),
        Call::reconfig(path, path, path),
        super::create_with(OpCode::CreateTtl, "/t", 5, Some(&open), Some(1000)),
        super::create_with(OpCode::CreateContainer, "/t", 4, Some(&open), None),
        Call::multi(OpCode::Multi, &[delete("/t"), create("/t", 0)]),
    ]);
    let mut actions = vec![one.create(root)];
    for victim in &victims {
        // Anything may follow a body.
        let mut longer = victim.clone();
        longer.body.extend_from_slice(b"behind");
        longer.label += " and garbage";
        actions.push(one.call(longer));
        for length in (0..victim.body.len()).rev() {
            let mut call = victim.clone();
            call.body.truncate(length);
            call.label = format!("cut at {length}: {}", call.label);
            actions.push(one.call(call));
        }
        actions.push(one.delete("/t"));
    }
    // Cut within a list of watches: those before the cut may or may not be set.
    let list = vec![root.as_bytes().to_vec()];
    let watches = Call::set_watches(0, &[list.clone(), list.clone(), list]);
    for length in 8..watches.body.len() {
        let mut call = watches.clone();
        call.body.truncate(length);
        call.label = format!("setWatches cut at {length}");
        actions.push(one.call(call));
    }
    actions
}
