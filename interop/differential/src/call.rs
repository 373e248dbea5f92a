//! Requests as this test sends them: an op, the bytes of its body and a label for the report.
//!
//! Bodies are bytes, and the encoders below take raw bytes for paths and `None` for nulls, because many
//! tests send what no ordinary client would.

use std::fmt;

use herdsman_proto::multi::MultiHeader;
use herdsman_proto::{Acl, JuteWrite, OpCode, Xid, Zxid};

/// A path as sent: any bytes, or null.
pub type RawPath<'a> = Option<&'a [u8]>;
/// An ACL as sent: a list, or null.
pub type RawAcl<'a> = Option<&'a [Acl]>;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `None`: the session's next number.
    pub xid: Option<Xid>,
    /// Raw op.
    pub op: i32,
    /// Body after the header.
    pub body: Vec<u8>,
    /// When set, the body's first eight bytes become the zxid with this offset.
    pub zxid_offset: Option<i64>,
    /// The path, if there is one.
    pub path: String,
    /// A label for the report.
    pub label: String,
}

impl Call {
    /// A request with this body.
    #[must_use]
    pub fn new(op: OpCode, path: RawPath<'_>, body: Vec<u8>, details: &str) -> Self {
        let shown = show_path(path);
        Call {
            xid: None,
            op: op.code(),
            body,
            zxid_offset: None,
            label: format!("{} {shown}{details}", op.name()),
            path: shown,
        }
    }

    /// A request with any op number and any body.
    #[must_use]
    pub fn raw(op: i32, body: Vec<u8>, label: &str) -> Self {
        let label = format!("op {op} {label}: {}", hex(&body));
        Call { xid: None, op, body, zxid_offset: None, path: String::new(), label }
    }

    fn with_xid(mut self, xid: Xid) -> Self {
        self.xid = Some(xid);
        self
    }

    /// A ping.
    #[must_use]
    pub fn ping() -> Self {
        Call::new(OpCode::Ping, None, Vec::new(), "").with_xid(Xid::PING)
    }

    /// closeSession.
    #[must_use]
    pub fn close_session() -> Self {
        Call::new(OpCode::CloseSession, None, Vec::new(), "")
    }

    /// whoAmI.
    #[must_use]
    pub fn who_am_i() -> Self {
        Call::new(OpCode::WhoAmI, None, Vec::new(), "")
    }

    /// Credentials.
    #[must_use]
    pub fn auth(scheme: RawPath<'_>, credentials: Option<&[u8]>) -> Self {
        let mut body = Vec::new();
        body.put_int(0);
        body.put_buffer(scheme);
        body.put_buffer(credentials);
        let details = format!(" {}", show_data(credentials));
        Call::new(OpCode::Auth, scheme, body, &details).with_xid(Xid::AUTH)
    }

    /// A request whose body is only a path.
    #[must_use]
    pub fn path_only(op: OpCode, path: RawPath<'_>) -> Self {
        let mut body = Vec::new();
        body.put_buffer(path);
        Call::new(op, path, body, "")
    }

    /// exists, getData, getChildren, getChildren2.
    #[must_use]
    pub fn read(op: OpCode, path: RawPath<'_>, watch: bool) -> Self {
        let mut body = Vec::new();
        body.put_buffer(path);
        body.put_bool(watch);
        Call::new(op, path, body, if watch { " watch" } else { "" })
    }

    /// delete, checkWatches, removeWatches, addWatch, check: a path and a number.
    #[must_use]
    pub fn numbered(op: OpCode, path: RawPath<'_>, number: i32) -> Self {
        let mut body = Vec::new();
        body.put_buffer(path);
        body.put_int(number);
        Call::new(op, path, body, &format!(" {number}"))
    }

    /// A create of any kind.
    #[must_use]
    pub fn create(create: &Create<'_>) -> Self {
        let mut body = Vec::new();
        body.put_buffer(create.path);
        body.put_buffer(create.data);
        put_acl(&mut body, create.acl);
        body.put_int(create.flags);
        if let Some(ttl) = create.ttl_ms {
            body.put_long(ttl);
        }
        let details = format!(
            " data={} acl={} flags={} ttl={:?}",
            show_data(create.data),
            show_acl(create.acl),
            create.flags,
            create.ttl_ms
        );
        Call::new(create.op, create.path, body, &details)
    }

    /// setData.
    #[must_use]
    pub fn set_data(path: RawPath<'_>, data: Option<&[u8]>, version: i32) -> Self {
        let mut body = Vec::new();
        body.put_buffer(path);
        body.put_buffer(data);
        body.put_int(version);
        let details = format!(" data={} version={version}", show_data(data));
        Call::new(OpCode::SetData, path, body, &details)
    }

    /// setACL.
    #[must_use]
    pub fn set_acl(path: RawPath<'_>, acl: RawAcl<'_>, version: i32) -> Self {
        let mut body = Vec::new();
        body.put_buffer(path);
        put_acl(&mut body, acl);
        body.put_int(version);
        let details = format!(" acl={} version={version}", show_acl(acl));
        Call::new(OpCode::SetAcl, path, body, &details)
    }

    /// multi or multiRead of these.
    #[must_use]
    pub fn multi(op: OpCode, parts: &[Call]) -> Self {
        let mut body = Vec::new();
        for part in parts {
            let header = MultiHeader { op: part.op, done: false, error: -1 };
            header.encode(&mut body);
            body.put_raw(&part.body);
        }
        MultiHeader::END.encode(&mut body);
        let labels: Vec<&str> = parts.iter().map(|part| part.label.as_str()).collect();
        Call::new(op, None, body, &format!(" [{}]", labels.join("; ")))
    }

    /// setWatches (three lists) or setWatches2 (five), relative to the script's base zxid.
    #[must_use]
    pub fn set_watches(zxid_offset: i64, lists: &[Vec<Vec<u8>>]) -> Self {
        let op = if lists.len() == 5 { OpCode::SetWatches2 } else { OpCode::SetWatches };
        let mut body = Vec::new();
        body.put_long(0);
        for list in lists {
            body.put_vector(list, |body, path| body.put_buffer(Some(path)));
        }
        let shown: Vec<Vec<String>> = lists
            .iter()
            .map(|list| list.iter().map(|path| show_path(Some(path))).collect())
            .collect();
        let mut call = Call::new(op, None, body, &format!(" +{zxid_offset} {shown:?}"));
        call.zxid_offset = Some(zxid_offset);
        call.with_xid(Xid::SET_WATCHES)
    }

    /// reconfig.
    #[must_use]
    pub fn reconfig(joining: RawPath<'_>, leaving: RawPath<'_>, members: RawPath<'_>) -> Self {
        let mut body = Vec::new();
        body.put_buffer(joining);
        body.put_buffer(leaving);
        body.put_buffer(members);
        body.put_long(-1);
        Call::new(OpCode::Reconfig, None, body, "")
    }

    /// Appends the whole frame, with this xid and, if it has an offset, this zxid.
    pub fn encode_frame(&self, xid: Xid, zxid: Option<Zxid>, out: &mut Vec<u8>) {
        herdsman_proto::reply::frame(out, |out| {
            out.put_int(xid.0);
            out.put_int(self.op);
            match zxid {
                Some(zxid) => {
                    out.put_long(zxid.0);
                    out.put_raw(&self.body[8..]);
                }
                None => out.put_raw(&self.body),
            }
        });
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

/// The parameters of a create.
#[derive(Clone, Copy, Debug)]
pub struct Create<'a> {
    /// create, create2, createContainer or createTTL.
    pub op: OpCode,
    /// The path.
    pub path: RawPath<'a>,
    /// Data.
    pub data: Option<&'a [u8]>,
    /// ACL.
    pub acl: RawAcl<'a>,
    /// Raw flags.
    pub flags: i32,
    /// The TTL, with createTTL.
    pub ttl_ms: Option<i64>,
}

fn put_acl(body: &mut Vec<u8>, acl: RawAcl<'_>) {
    match acl {
        None => body.put_int(-1),
        Some(list) => body.put_vector(list, |body, entry| entry.encode(body)),
    }
}

fn show_path(path: RawPath<'_>) -> String {
    let Some(path) = path else {
        return String::new();
    };
    let text = String::from_utf8_lossy(path);
    if text.len() > 120 {
        let head: String = text.chars().take(60).collect();
        return format!("{head}…({} bytes)", path.len());
    }
    text.into_owned()
}

fn show_acl(acl: RawAcl<'_>) -> String {
    acl.map_or("null".into(), |list| {
        let entries: Vec<String> = list.iter().map(show_entry).collect();
        format!("[{}]", entries.join(", "))
    })
}

/// An ACL entry as `scheme:id:perms`.
#[must_use]
pub fn show_entry(entry: &Acl) -> String {
    format!("{}:{}:{}", entry.id.scheme, entry.id.id, entry.perms.0)
}

/// Data, short enough for a report and exact enough for a comparison.
#[must_use]
pub fn show_data(data: Option<&[u8]>) -> String {
    match data {
        None => "null".into(),
        Some(bytes) if bytes.len() <= 80 => format!("\"{}\"", bytes.escape_ascii()),
        Some(bytes) => format!("{} bytes, fnv {:016x}", bytes.len(), fnv(bytes)),
    }
}

/// Bytes in hex, truncated if long.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let shown: String = bytes.iter().take(48).map(|b| format!("{b:02x}")).collect();
    if bytes.len() > 48 {
        return format!("{shown}…({} bytes)", bytes.len());
    }
    shown
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}
