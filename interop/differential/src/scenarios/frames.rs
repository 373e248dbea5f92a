//! Frames and first bytes that are invalid before any request is read, and frames near the limit.

use herdsman_proto::{JuteWrite, OpCode};

use super::{Client, Scenario, open_acl, raw};
use crate::action::{Action, Hello};
use crate::call::{Call, Create};

/// Apache's default limit of a frame.
const FRAME_BYTES_MAX: usize = 0x000f_ffff;

fn again() -> Action {
    Action::Hello { slot: 0, hello: Hello::again() }
}

pub(super) const UNKNOWN_OPS: Scenario = Scenario {
    name: "unknown-ops",
    about: "ops that do not exist, or not for clients: -6 and a closed connection",
    slots: 1,
    actions: unknown_ops,
};

fn unknown_ops(root: &str) -> Vec<Action> {
    let one = Client(0);
    let mut check = Vec::new();
    check.put_string(root);
    check.put_int(-1);
    let mut actions =
        vec![one.create(root), one.call(Call::raw(13, check, "check alone")), again()];
    for op in [0, 10, 13, 23, 50, 99, 108, 1000, -1, -2, -12, i32::MAX, i32::MIN] {
        actions.extend([one.call(Call::raw(op, Vec::new(), "unknown")), again()]);
    }
    // Ordinary ops with unusual numbers.
    for xid in [0, -3, i32::MIN, i32::MAX] {
        let mut call = Call::read(OpCode::Exists, raw(root), false);
        call.xid = Some(herdsman_proto::Xid(xid));
        call.label += &format!(" with xid {xid}");
        actions.extend([one.call(call), again()]);
    }
    let mut ping = Call::ping();
    ping.xid = Some(herdsman_proto::Xid(77));
    ping.label = "ping with xid 77".into();
    actions.push(one.burst(vec![ping]));
    actions
}

pub(super) const LENGTHS: Scenario = Scenario {
    name: "frame-lengths",
    about: "negative, huge and tiny frames on an established connection",
    slots: 1,
    actions: lengths,
};

fn lengths(root: &str) -> Vec<Action> {
    let one = Client(0);
    let mut actions = vec![one.create(root)];
    for (length, rest, label) in [
        (-1, 4, "-1"),
        (i32::MIN, 4, "i32::MIN"),
        (i32::MAX, 4, "i32::MAX"),
        (FRAME_BYTES_MAX as i32 + 1, 8, "one too many"),
        (0, 0, "empty"),
        (1, 1, "one byte"),
        (4, 4, "half a header"),
        (7, 7, "almost a header"),
        (0x7275_6f6b, 4, "ruok"),
    ] {
        let mut bytes: Vec<u8> = Vec::new();
        bytes.put_int(length);
        bytes.extend(std::iter::repeat_n(0, rest));
        actions.extend([Action::Raw { slot: 0, bytes, label }, again()]);
    }
    actions
}

pub(super) const FIRST_BYTES: Scenario = Scenario {
    name: "first-bytes",
    about: "connections whose first bytes are not a connect request",
    slots: 1,
    actions: first_bytes,
};

fn first_bytes(_root: &str) -> Vec<Action> {
    let frame = |payload: &[u8]| {
        let mut bytes = Vec::new();
        bytes.put_buffer(Some(payload));
        bytes
    };
    let send = |label, bytes| Action::FirstBytes { bytes, label };
    let mut huge_password = vec![0; 24];
    huge_password.put_int(i32::MAX);
    let mut negative_password = vec![0; 24];
    negative_password.put_int(-2);
    vec![
        send("nothing", vec![]),
        send("two bytes", vec![0, 0]),
        send("empty frame", frame(&[])),
        send("short frame", frame(&[0; 10])),
        send("no password", frame(&[0; 24])),
        send("huge password", frame(&huge_password)),
        send("negative password", frame(&negative_password)),
        send("negative length", (-5i32).to_be_bytes().to_vec()),
        send("HTTP", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        send("TLS", vec![0x16, 3, 1, 0, 0x80, 1, 0, 0, 0x7c]),
        send("telnet close", vec![0xff, 0xf4, 0xff, 0xfd]),
        send("an unknown word", b"what".to_vec()),
        send("a word in capitals", b"RUOK".to_vec()),
        send("a word and more", b"ruok\r\n".to_vec()),
        send("two words", b"ruokisro".to_vec()),
    ]
}

pub(super) const LARGE: Scenario = Scenario {
    name: "large",
    about: "data that makes a frame just fit, and one byte more",
    slots: 1,
    actions: large,
};

fn large(root: &str) -> Vec<Action> {
    let one = Client(0);
    let open = open_acl();
    let sized = |name: &str, frame_bytes: usize| {
        let path = format!("{root}/{name}");
        let create = |data: &[u8]| {
            Call::create(&Create {
                op: OpCode::Create2,
                path: raw(&path),
                data: Some(data),
                acl: Some(&open),
                flags: 0,
                ttl_ms: None,
            })
        };
        let around = 8 + create(b"").body.len();
        create(&vec![b'x'; frame_bytes - around])
    };
    let long_name = format!("{root}/{}", "n".repeat(200_000));
    vec![
        one.create(root),
        one.call(sized("fits", FRAME_BYTES_MAX)),
        one.read(OpCode::GetData, &format!("{root}/fits")),
        one.call(sized("less", FRAME_BYTES_MAX - 1)),
        one.call(sized("more", FRAME_BYTES_MAX + 1)),
        again(),
        one.read(OpCode::GetChildren2, root),
        one.create(&long_name),
        one.read(OpCode::Exists, &long_name),
        one.read(OpCode::GetChildren, root),
    ]
}
