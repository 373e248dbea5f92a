//! ACLs: which lists are accepted, what each permission allows, who may see what.

use herdsman_proto::{Acl, Id, OpCode, Perms};

use super::{Client, Scenario, create_with, delete, open_acl, raw};
use crate::action::{Action, Hello};
use crate::call::{Call, RawPath};

fn entry(perms: i32, scheme: &str, id: &str) -> Acl {
    Acl { perms: Perms(perms), id: Id::new(scheme, id) }
}

/// Only the creator, for a session with credentials.
pub(super) fn only_auth() -> Vec<Acl> {
    vec![entry(31, "auth", "")]
}

pub(super) const LISTS: Scenario = Scenario {
    name: "acl-lists",
    about: "valid and invalid lists for create and setACL, and how they are stored",
    slots: 1,
    actions: lists,
};

fn lists(root: &str) -> Vec<Action> {
    let one = Client(0);
    let mut actions = vec![one.create(root)];
    let ids = [
        ("world", "anyone"),
        ("world", "x"),
        ("world", ""),
        ("auth", ""),
        ("auth", "ignored"),
        ("digest", "u:x"),
        ("digest", "u"),
        ("digest", "u:x:y"),
        ("digest", ":"),
        ("digest", "u:"),
        ("digest", ":x"),
        ("digest", ""),
        ("ip", "127.0.0.1"),
        ("ip", "127.0.0.1/32"),
        ("ip", "127.0.0.1/33"),
        ("ip", "127.0.0.1/0"),
        ("ip", "127.0.0.1/"),
        ("ip", "127.0.0.1/x"),
        ("ip", "127.0.0.1/8/8"),
        ("ip", "127.0.0"),
        ("ip", "1.2.3.4.5"),
        ("ip", "256.1.1.1"),
        ("ip", "01.2.3.4"),
        ("ip", "+1.2.3.4"),
        ("ip", "::1"),
        ("ip", "::1/64"),
        ("ip", "2001:db8::/129"),
        ("ip", "1:2:3:4:5:6:7:8"),
        ("ip", "::ffff:127.0.0.1"),
        ("ip", "zz::1"),
        ("ip", ""),
        ("super", ""),
        ("super", "x"),
        ("sasl", "x"),
        ("x509", "CN=x"),
        ("nosuch", "x"),
        ("", ""),
    ];
    for auth in [None, Some("u0:p0"), Some("u1:p1")] {
        actions.extend(auth.map(|credentials| one.auth(credentials)));
        for (scheme, id) in ids {
            let list = [entry(31, scheme, id)];
            actions.extend(round(root, &one, Some(&list)));
        }
    }
    let (world, digest) = (entry(31, "world", "anyone"), entry(3, "digest", "u:x"));
    for list in [
        vec![],
        vec![world.clone(), world.clone()],
        vec![digest.clone(), world.clone(), digest],
        vec![world.clone(), entry(1, "auth", ""), entry(1, "auth", "")],
        vec![entry(0, "world", "anyone"), world.clone()],
        vec![entry(-1, "world", "anyone")],
        vec![entry(1 << 20, "world", "anyone")],
        vec![world, entry(31, "nosuch", "x")],
    ] {
        actions.extend(round(root, &one, Some(&list)));
    }
    actions.extend(round(root, &one, None));
    actions
}

/// Creates with the list, reads it, sets it again on an open znode, reads it again, deletes.
fn round(root: &str, client: &Client, list: Option<&[Acl]>) -> Vec<Action> {
    let (made, set) = (format!("{root}/made"), format!("{root}/set"));
    let get = |path: &str| client.call(Call::path_only(OpCode::GetAcl, raw(path)));
    vec![
        client.call(create_with(OpCode::Create, &made, 0, list, None)),
        get(&made),
        client.create(&set),
        client.call(Call::set_acl(raw(&set), list, -1)),
        get(&set),
        client.call(Call::set_acl(raw(&set), list, 1)),
        client.call(Call::set_acl(raw(&set), list, 9)),
        client.delete(&made),
        client.delete(&set),
    ]
}

pub(super) const PERMISSIONS: Scenario = Scenario {
    name: "acl-permissions",
    about: "each set of permissions against each op; getACL masks what it must",
    slots: 2,
    actions: permissions,
};

fn permissions(root: &str) -> Vec<Action> {
    let (owner, other) = (Client(0), Client(1));
    let mut actions = vec![owner.auth("u0:p0"), owner.create(root)];
    for perms in 0..32 {
        let path = format!("{root}/p{perms}");
        let list = [
            entry(31, "auth", ""),
            entry(perms, "world", "anyone"),
            entry(1, "digest", "somebody:secret"),
            entry(1, "digest", "odd\nid:secret"),
        ];
        let child = format!("{path}/child");
        actions.extend([
            owner.call(create_with(OpCode::Create, &path, 0, Some(&list), None)),
            owner.create(&child),
            other.watch(OpCode::Exists, &path),
            other.watch(OpCode::GetData, &path),
            other.watch(OpCode::GetChildren, &path),
            other.read(OpCode::GetChildren2, &path),
            other.call(Call::path_only(OpCode::GetAcl, raw(&path))),
            other.call(Call::path_only(OpCode::GetAllChildrenNumber, raw(&path))),
            other.set_data(&path, "x"),
            other.create(&format!("{path}/new")),
            other.call(Call::multi(OpCode::Multi, &[super::check(&path, -1)])),
            other.call(Call::multi(OpCode::Multi, &[delete(&child)])),
            other.delete(&child),
            other.call(Call::set_acl(raw(&path), Some(&list[..2]), 5)),
            owner.call(Call::path_only(OpCode::GetAcl, raw(&path))),
            owner.set_data(&path, "y"),
        ]);
    }
    actions
}

pub(super) const CREDENTIALS: Scenario = Scenario {
    name: "credentials",
    about: "auth packets good and bad, identities after a reconnect, the super user",
    slots: 2,
    actions: credentials,
};

fn credentials(root: &str) -> Vec<Action> {
    let (one, two) = (Client(0), Client(1));
    let again = || Action::Hello { slot: 1, hello: Hello::again() };
    let who = |client: &Client| client.call(Call::who_am_i());
    let locked = format!("{root}/locked");
    let mut actions = vec![one.create(root), who(&one)];
    let packets: [(RawPath<'_>, RawPath<'_>); 14] = [
        (Some(b"digest"), Some(b"u0:p0")),
        (Some(b"digest"), Some(b"u0:p0")),
        (Some(b"digest"), Some(b"u1:p1")),
        (Some(b"digest"), Some(b"nocolon")),
        (Some(b"digest"), Some(b"a:b:c")),
        (Some(b"digest"), Some(b"")),
        (Some(b"digest"), Some(b"\xff\xfe:\xff")),
        (Some(b"digest"), None),
        (Some(b"ip"), Some(b"1.2.3.4")),
        (Some(b"ip"), None),
        (Some(b"world"), Some(b"anyone")),
        (Some(b"super"), Some(b"super:secret")),
        (Some(b"nosuch"), Some(b"x")),
        (None, Some(b"x")),
    ];
    for (scheme, data) in packets {
        actions.extend([two.call(Call::auth(scheme, data)), who(&two), again()]);
    }
    let mut odd = Call::auth(Some(b"digest"), Some(b"u2:p2"));
    odd.xid = None;
    odd.label += " with an ordinary xid";
    actions.extend([
        two.call(odd),
        two.call(Call::raw(100, Vec::new(), "auth without a body")),
        again(),
        two.call(Call::raw(102, vec![0, 0, 0, 1, 7], "sasl token")),
        again(),
        one.auth("u0:p0"),
        one.call(create_with(OpCode::Create, &locked, 0, Some(&only_auth()), None)),
        two.read(OpCode::GetData, &locked),
        two.auth("u0:p0"),
        two.read(OpCode::GetData, &locked),
        again(),
        // A new connection starts with only its address as an id.
        two.read(OpCode::GetData, &locked),
        two.auth("super:secret"),
        who(&two),
        two.read(OpCode::GetData, &locked),
        two.call(Call::path_only(OpCode::GetAcl, raw(&locked))),
        two.call(Call::set_acl(raw(&locked), Some(&open_acl()), -1)),
        two.call(create_with(OpCode::Create, &format!("{root}/auth"), 0, Some(&only_auth()), None)),
        two.call(Call::path_only(OpCode::GetAcl, raw(&format!("{root}/auth")))),
    ]);
    actions
}
