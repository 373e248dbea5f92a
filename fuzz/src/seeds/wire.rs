//! Seeds from the client protocol.

use herdsman_proto::event::{EventType, WatchedEvent};
use herdsman_proto::request::{
    CreateRequest, ReconfigRequest, RequestHeader, SetWatches, WatcherType,
};
use herdsman_proto::{
    Acl, ConnectRequest, ConnectResponse, ErrorCode, Id, JuteWrite, OpCode, Perms, ReadRequest,
    Request, SessionId, Stat, WriteRequest, Xid, Zxid, reply,
};

use super::{Seeds, numbered};

fn create(op: OpCode, flags: i32) -> WriteRequest<'static> {
    let digest = Acl { perms: Perms::READ, id: Id::new("digest", "user:hash") };
    WriteRequest::Create(CreateRequest {
        op,
        path: "/a/b".into(),
        data: Some(b"data"),
        acl: vec![Acl::world(Perms::ALL), digest],
        flags,
        ttl_ms: (op == OpCode::CreateTtl).then_some(60_000),
    })
}

fn writes() -> Vec<WriteRequest<'static>> {
    vec![
        create(OpCode::Create, 0),
        create(OpCode::Create2, 3),
        create(OpCode::CreateContainer, 4),
        create(OpCode::CreateTtl, 5),
        WriteRequest::Delete { path: "/a".into(), version: -1 },
        WriteRequest::SetData { path: "/a".into(), data: None, version: 7 },
        WriteRequest::Check { path: "/a".into(), version: 0 },
    ]
}

fn reads() -> Vec<ReadRequest<'static>> {
    vec![
        ReadRequest::GetData { path: "/a".into(), watch: false },
        ReadRequest::GetChildren { path: "/".into(), watch: false, with_stat: false },
    ]
}

fn set_watches(persistent: bool) -> ReadRequest<'static> {
    let extra = if persistent { vec!["/p".into()] } else { Vec::new() };
    ReadRequest::SetWatches(SetWatches {
        relative_zxid: Zxid(0x1_0000_0007),
        data: vec!["/a".into(), "/b".into()],
        exist: vec!["/c".into()],
        child: vec!["/".into()],
        persistent: extra.clone(),
        persistent_recursive: extra,
    })
}

fn all_requests() -> Vec<Request<'static>> {
    let path = || "/a".into();
    let acl = vec![Acl::world(Perms::READ)];
    let mut writes = writes();
    // A check occurs only in a multi.
    writes.pop();
    writes.extend([
        WriteRequest::SetAcl { path: path(), acl, version: 1 },
        WriteRequest::Multi(self::writes()),
        WriteRequest::Reconfig(ReconfigRequest {
            joining: Some("server.2=host:2888:3888;2181".into()),
            leaving: Some("3".into()),
            new_members: None,
            current_config: -1,
        }),
    ]);
    let kind = WatcherType::Any;
    let reads = [
        ReadRequest::Exists { path: path(), watch: true },
        ReadRequest::GetData { path: path(), watch: true },
        ReadRequest::GetAcl { path: path() },
        ReadRequest::GetChildren { path: path(), watch: true, with_stat: true },
        ReadRequest::GetAllChildrenNumber { path: path() },
        ReadRequest::GetEphemerals { prefix: None },
        ReadRequest::CheckWatches { path: path(), kind },
        ReadRequest::RemoveWatches { path: path(), kind },
        ReadRequest::AddWatch { path: path(), recursive: true },
        ReadRequest::MultiRead(self::reads()),
        ReadRequest::WhoAmI,
        set_watches(false),
        set_watches(true),
    ];
    let mut requests: Vec<Request<'_>> = writes.into_iter().map(Request::Write).collect();
    requests.extend(reads.map(Request::Read));
    requests.extend([
        Request::Sync { path: path() },
        Request::Ping,
        Request::Auth { scheme: "digest".into(), credentials: Some(b"user:password") },
        Request::Sasl { token: b"token" },
        Request::CloseSession,
    ]);
    requests
}

pub(super) fn requests() -> Seeds {
    numbered(all_requests().iter().map(|request| {
        let mut bytes = Vec::new();
        RequestHeader { xid: Xid(1), op: request.op().code() }.encode(&mut bytes);
        request.encode(&mut bytes);
        bytes
    }))
}

pub(super) fn multis() -> Seeds {
    let lists = [
        Request::Write(WriteRequest::Multi(writes())),
        Request::Write(WriteRequest::Multi(Vec::new())),
        Request::Read(ReadRequest::MultiRead(reads())),
    ];
    numbered(lists.iter().map(|list| {
        let mut bytes = Vec::new();
        list.encode(&mut bytes);
        bytes
    }))
}

pub(super) fn handshakes() -> Seeds {
    let session = SessionId(0x0100_0000_0000_0001);
    let password = session.apache_password();
    let requests = [None, Some(false), Some(true)].map(|read_only| {
        let mut frame = Vec::new();
        let request = ConnectRequest {
            last_zxid_seen: Zxid(9),
            timeout_ms: 30_000,
            session,
            password: &password,
            read_only,
        };
        request.encode_frame(&mut frame);
        frame[4..].to_vec()
    });
    let responses = [
        ConnectResponse::established(session, 30_000, None),
        ConnectResponse::established(session, 30_000, Some(false)),
        ConnectResponse::expired(Some(false)),
    ];
    let responses = responses.map(|response| {
        let mut frame = Vec::new();
        response.encode_frame(&mut frame);
        frame[4..].to_vec()
    });
    numbered(requests.into_iter().chain(responses))
}

pub(super) fn replies() -> Seeds {
    let with_body = |fill: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = Vec::new();
        let sent = reply::reply(&mut frame, Xid(3), Zxid(77), |out| {
            fill(out);
            Ok(())
        });
        debug_assert!(sent.is_ok());
        frame[4..].to_vec()
    };
    let mut event = Vec::new();
    WatchedEvent { kind: EventType::NodeDeleted, path: "/a/b" }.encode_frame(Zxid(8), &mut event);
    let mut failed = Vec::new();
    reply::header_only(&mut failed, Xid(2), Zxid(5), Some(ErrorCode::NoNode));
    numbered([
        event[4..].to_vec(),
        failed[4..].to_vec(),
        with_body(&|out| Stat { version: 3, ..Stat::default() }.encode(out)),
        with_body(&|out| Acl::world(Perms::ALL).encode(out)),
        with_body(&|out| out.put_vector(&["a", "b", "c"], |out, name| out.put_string(name))),
    ])
}

pub(super) fn paths() -> Seeds {
    let paths = [
        "/",
        "",
        "a",
        "/a",
        "/a/b",
        "/a/",
        "//",
        "/a//b",
        "/.",
        "/..",
        "/a/./b",
        "/a/../b",
        "/a/...",
        "/.a/..b",
        "/\0",
        "/\u{1f}",
        "/\u{7f}",
        "/\u{9f}",
        "/\u{a0}",
        "/\u{d7ff}",
        "/\u{e000}",
        "/\u{f8ff}",
        "/\u{f900}",
        "/\u{ffef}",
        "/\u{fff0}",
        "/\u{1f600}",
    ];
    numbered(paths.map(|path| path.as_bytes().to_vec()))
}
