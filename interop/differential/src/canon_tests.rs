//! Equal servers give equal text, and every changed field is detected.

use herdsman_proto::event::{EventType, WatchedEvent};
use herdsman_proto::{ErrorCode, Id, JuteWrite, Perms, reply};

use super::*;

fn canon(base: i64, session: i64) -> Canon {
    Canon {
        counted_from: vec![(Zxid(base), 0)],
        sessions: vec![SessionId(session)],
        probes: Vec::new(),
        started_ms: now_ms(),
    }
}

fn stat(base: i64, owner: i64) -> Stat {
    Stat {
        czxid: Zxid(base + 1),
        mzxid: Zxid(base + 1),
        pzxid: Zxid(base + 1),
        ctime: now_ms(),
        mtime: now_ms(),
        ephemeral_owner: owner,
        ..Stat::default()
    }
}

/// The reply to a getData on a server with this base zxid, session id and stat.
fn said(base: i64, owner: i64, change: impl FnOnce(&mut Stat)) -> String {
    let mut stat = stat(base, owner);
    stat.mtime = stat.ctime;
    change(&mut stat);
    let mut frame = Vec::new();
    let sent = reply::reply(&mut frame, Xid(1), Zxid(base + 9), |out| {
        out.put_buffer(Some(b"data"));
        stat.encode(out);
        Ok(())
    });
    assert!(sent.is_ok());
    let call = Call::read(OpCode::GetData, Some(b"/x"), false);
    canon(base, owner).reply(&call, Xid(1), &frame[4..]).text
}

#[test]
fn servers_that_behave_equally_give_equal_text() {
    assert_eq!(said(100, 7, |_| {}), said(5000, 900, |_| {}));
}

#[test]
fn a_jump_makes_different_numbers_of_txns_equal() {
    let (mut a, mut b) = (canon(100, 7), canon(5000, 900));
    a.jump(Zxid(112), 1000);
    b.jump(Zxid(5020), 1000);
    // Up to 110 and 5010 both did the same, and again from 113 and 5021 on.
    assert_eq!(a.zxid(Zxid(110)), "+10");
    assert_eq!(a.zxid(Zxid(110)), b.zxid(Zxid(5010)));
    assert_eq!(a.zxid(Zxid(113)), "+1001");
    assert_eq!(a.zxid(Zxid(113)), b.zxid(Zxid(5021)));
    assert_ne!(a.zxid(Zxid(114)), b.zxid(Zxid(5021)));
    assert_eq!((a.zxid_at(10), a.zxid_at(1001)), (Zxid(110), Zxid(113)));
    // No script can name anything in between.
    assert_eq!((a.zxid_at(500), b.zxid_at(500)), (Zxid(112), Zxid(5020)));
}

#[test]
fn every_field_of_a_stat_is_compared() {
    let good = said(100, 7, |_| {});
    let doctored: [fn(&mut Stat); 12] = [
        |stat| stat.czxid.0 += 1,
        |stat| stat.mzxid.0 += 1,
        |stat| stat.pzxid.0 += 1,
        |stat| stat.version += 1,
        |stat| stat.cversion += 1,
        |stat| stat.aversion += 1,
        |stat| stat.ephemeral_owner = 8,
        |stat| stat.data_length += 1,
        |stat| stat.num_children += 1,
        |stat| stat.ctime = 0,
        |stat| stat.mtime += 1,
        |stat| (stat.ctime, stat.mtime) = (1000, 1000),
    ];
    for (index, doctor) in doctored.into_iter().enumerate() {
        assert_ne!(said(100, 7, doctor), good, "field {index}");
    }
}

fn header(call: &Call, xid: i32, zxid: i64, error: Option<ErrorCode>) -> String {
    let mut frame = Vec::new();
    reply::header_only(&mut frame, Xid(xid), Zxid(zxid), error);
    canon(100, 7).reply(call, Xid(1), &frame[4..]).text
}

#[test]
fn header_fields_are_compared() {
    let delete = Call::numbered(OpCode::Delete, Some(b"/x"), -1);
    let good = header(&delete, 1, 105, None);
    assert_eq!(good, "reply zxid=+5 err=0");
    assert_ne!(header(&delete, 2, 105, None), good);
    assert_ne!(header(&delete, 1, 106, None), good);
    assert_ne!(header(&delete, 1, 105, Some(ErrorCode::NoNode)), good);
}

#[test]
fn extra_or_missing_bytes_of_a_body_are_detected() {
    let delete = Call::numbered(OpCode::Delete, Some(b"/x"), -1);
    let mut frame = Vec::new();
    reply::header_only(&mut frame, Xid(1), Zxid(105), None);
    frame.push(0xab);
    let text = canon(100, 7).reply(&delete, Xid(1), &frame[4..]).text;
    assert!(text.ends_with("and then ab"), "{text}");
    let exists = Call::read(OpCode::Exists, Some(b"/x"), false);
    let text = header(&exists, 1, 105, None);
    assert!(text.contains("undecodable"), "{text}");
}

#[test]
fn events_keep_type_path_and_zxid() {
    let event = |kind, path, zxid| {
        let mut frame = Vec::new();
        WatchedEvent { kind, path }.encode_frame(Zxid(zxid), &mut frame);
        canon(100, 7).event(&frame[4..]).unwrap().text
    };
    let good = event(EventType::NodeDeleted, "/x", 103);
    assert_ne!(event(EventType::NodeCreated, "/x", 103), good);
    assert_ne!(event(EventType::NodeDeleted, "/y", 103), good);
    assert_ne!(event(EventType::NodeDeleted, "/x", 104), good);
    assert_ne!(event(EventType::NodeDeleted, "/x", -1), good);
}

#[test]
fn the_order_of_an_acl_matters_except_among_expanded_ids() {
    let shown = |entries: &[(i32, &str, &str)]| {
        let mut bytes = Vec::new();
        bytes.put_vector(entries, |out, (perms, scheme, id)| {
            let entry = Acl { perms: Perms(*perms), id: Id::new(scheme, id) };
            entry.encode(out);
        });
        acl(&mut JuteReader::new(&bytes)).unwrap()
    };
    let (u, v) = ((31, "digest", "u:x"), (31, "digest", "v:x"));
    let (world, weak) = ((31, "world", "anyone"), (1, "digest", "v:x"));
    assert_eq!(shown(&[u, v, world]), shown(&[v, u, world]));
    assert_ne!(shown(&[u, world]), shown(&[world, u]));
    assert_ne!(shown(&[u, weak]), shown(&[weak, u]));
}

#[test]
fn a_membership_is_compared_without_ports_and_order() {
    let text = |text: &str| membership(text.as_bytes());
    let good = text("server.1=127.0.0.1:20001:20002:participant\nversion=0");
    assert!(good.is_some());
    assert_eq!(text("version=0"), None);
    assert_eq!(text("server.1=127.0.0.1:30001:30002:participant\nversion=0"), good);
    assert_ne!(text("server.1=127.0.0.1:20001:20002:observer\nversion=0"), good);
    assert_ne!(text("server.1=127.0.0.1:20001:20002:participant\nversion=100000000"), good);
    let two = "server.1=h:20001:20002:participant\nserver.2=h:20003:20004:participant\nversion=0";
    let turned =
        "server.2=h:20003:20004:participant\nserver.1=h:20001:20002:participant\nversion=0";
    assert_eq!(text(two), text(turned));
}
