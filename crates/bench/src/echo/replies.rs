//! The replies: a template for each op whose reply is always the same, so that a reply costs one copy and setting
//! the xid. What depends on the request (a created path, the results of a multi) is encoded directly into the
//! output.
//!
//! Only the parts of a request that its reply depends on are decoded.

use std::io::{self, ErrorKind};

use anyhow::{Result, ensure};
use herdsman_proto::acl::{Acl, Id, Perms};
use herdsman_proto::connect::{ConnectRequest, ConnectResponse};
use herdsman_proto::jute::{DecodeError, JuteReader, JuteWrite};
use herdsman_proto::multi::MultiHeader;
use herdsman_proto::reply::{self, ReplyHeader};
use herdsman_proto::request::RequestHeader;
use herdsman_proto::{ErrorCode, OpCode, SessionId, Stat, Xid, Zxid};

use super::REPLY_BYTES_MAX;

/// Every value of an echo server consists of this byte.
pub const VALUE_BYTE: u8 = b'v';

/// Returns the name of a child in a reply to getChildren: as long as those that the load generator creates.
#[must_use]
pub fn child_name(index: usize) -> String {
    format!("{index:08x}")
}

/// The zxid of each reply.
const ZXID: Zxid = Zxid(1);
/// The session timeout of each connection.
const SESSION: SessionId = SessionId(0x0100_0000_0000_0001);
/// The position of the xid in a reply: after the length.
const XID: std::ops::Range<usize> = 4..8;
/// The flag of a create that appends a number to the path.
const SEQUENTIAL: i32 = 2;
/// The appended number.
const SEQUENCE: &[u8] = b"0000000001";

/// What follows after a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterReply {
    /// More requests.
    More,
    /// The end of the connection.
    Close,
}

/// The templates: complete frames with xid 0.
pub(super) struct Replies {
    stat: Stat,
    nothing: Vec<u8>,
    data: Vec<u8>,
    stat_only: Vec<u8>,
    children: Vec<u8>,
    children_and_stat: Vec<u8>,
    acl: Vec<u8>,
    number: Vec<u8>,
    zero: Vec<u8>,
    identity: Vec<u8>,
    token: Vec<u8>,
    unknown: Vec<u8>,
}

impl Replies {
    pub(super) fn new(value_bytes: usize, children: usize) -> Result<Self> {
        let name_bytes = 4 + child_name(0).len();
        ensure!(
            value_bytes <= REPLY_BYTES_MAX && children <= REPLY_BYTES_MAX / name_bytes,
            "a reply is limited to {} MiB: reduce --value-bytes or --children",
            REPLY_BYTES_MAX >> 20
        );
        let value = vec![VALUE_BYTE; value_bytes];
        let names: Vec<String> = (0..children).map(child_name).collect();
        let stat = Stat {
            czxid: ZXID,
            mzxid: ZXID,
            data_length: value_bytes as i32,
            num_children: children as i32,
            pzxid: ZXID,
            ..Stat::default()
        };
        let put_names =
            |out: &mut Vec<u8>| out.put_vector(&names, |out, name| out.put_string(name));
        let mut unknown = Vec::new();
        reply::header_only(&mut unknown, Xid(0), ZXID, Some(ErrorCode::Unimplemented));
        Ok(Replies {
            stat,
            nothing: template(|_| {}),
            data: template(|out| {
                out.put_buffer(Some(&value));
                stat.encode(out);
            }),
            stat_only: template(|out| stat.encode(out)),
            children: template(put_names),
            children_and_stat: template(|out| {
                put_names(out);
                stat.encode(out);
            }),
            acl: template(|out| {
                out.put_vector(&[Acl::world(Perms::ALL)], |out, acl| acl.encode(out));
                stat.encode(out);
            }),
            number: template(|out| out.put_count(children)),
            zero: template(|out| out.put_int(0)),
            identity: template(|out| {
                out.put_vector(&[Id::new("ip", "127.0.0.1")], |out, id| id.encode(out));
            }),
            token: template(|out| out.put_buffer(Some(&[]))),
            unknown,
        })
    }

    /// Appends the response to the first frame of a connection, which opens a session.
    pub(super) fn append_connect_response(
        &self,
        frame: &[u8],
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let request = ConnectRequest::decode(frame).map_err(broken)?;
        let read_only = request.read_only.map(|_| false);
        ConnectResponse::established(SESSION, request.timeout_ms, read_only).encode_frame(out);
        Ok(())
    }

    /// Appends the reply to any other frame.
    pub(super) fn append(&self, frame: &[u8], out: &mut Vec<u8>) -> io::Result<AfterReply> {
        let mut body = JuteReader::new(frame);
        let RequestHeader { xid, op } = RequestHeader::decode(&mut body).map_err(broken)?;
        let op = OpCode::from_code(op);
        if let Some(template) = self.template(op) {
            let start = out.len();
            out.extend_from_slice(template);
            out[start..][XID].copy_from_slice(&xid.0.to_be_bytes());
        } else {
            reply::frame(out, |out| {
                ReplyHeader { xid, zxid: ZXID, error: None }.encode(out);
                self.append_body(op, &mut body, out)
            })
            .map_err(broken)?;
        }
        Ok(if op == Some(OpCode::CloseSession) { AfterReply::Close } else { AfterReply::More })
    }

    /// Returns the template for an op whose reply is always the same.
    fn template(&self, op: Option<OpCode>) -> Option<&[u8]> {
        Some(match op {
            Some(OpCode::GetData | OpCode::Reconfig) => &self.data,
            Some(OpCode::Exists | OpCode::SetData | OpCode::SetAcl) => &self.stat_only,
            Some(OpCode::GetChildren | OpCode::GetEphemerals) => &self.children,
            Some(OpCode::GetChildren2) => &self.children_and_stat,
            Some(OpCode::GetAcl) => &self.acl,
            Some(OpCode::GetAllChildrenNumber) => &self.number,
            Some(OpCode::AddWatch) => &self.zero,
            Some(OpCode::WhoAmI) => &self.identity,
            Some(OpCode::Sasl) => &self.token,
            Some(
                OpCode::Delete
                | OpCode::Ping
                | OpCode::Auth
                | OpCode::CheckWatches
                | OpCode::RemoveWatches
                | OpCode::SetWatches
                | OpCode::SetWatches2
                | OpCode::CloseSession,
            ) => &self.nothing,
            Some(
                OpCode::Create
                | OpCode::Create2
                | OpCode::CreateContainer
                | OpCode::CreateTtl
                | OpCode::Sync
                | OpCode::Multi
                | OpCode::MultiRead,
            ) => return None,
            Some(
                OpCode::Error | OpCode::CreateSession | OpCode::Check | OpCode::DeleteContainer,
            )
            | None => &self.unknown,
        })
    }

    /// Appends the body of a reply that depends on the request.
    fn append_body(
        &self,
        op: Option<OpCode>,
        body: &mut JuteReader<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        match op {
            Some(OpCode::Sync) => out.put_buffer(body.buffer()?),
            Some(OpCode::Multi | OpCode::MultiRead) => self.append_results(body, out)?,
            Some(op) => self.append_created(op, body, out)?,
            None => {}
        }
        Ok(())
    }

    /// Appends the results of a multi or multiRead, one for each operation.
    fn append_results(
        &self,
        body: &mut JuteReader<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        loop {
            let header = MultiHeader::decode(body)?;
            if header.done {
                MultiHeader::END.encode(out);
                return Ok(());
            }
            let undefined = DecodeError::Undefined { what: "multi op", value: header.op };
            let op = OpCode::from_code(header.op).ok_or(undefined)?;
            MultiHeader::result(op).encode(out);
            self.append_result(op, body, out)?;
        }
    }

    /// Appends the result of one operation; the body is read to the operation's end.
    fn append_result(
        &self,
        op: OpCode,
        body: &mut JuteReader<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        match op {
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                return self.append_created(op, body, out);
            }
            OpCode::Delete | OpCode::Check => skip_buffer_and_int(body)?,
            OpCode::SetData => {
                body.buffer()?;
                skip_buffer_and_int(body)?;
                self.stat.encode(out);
            }
            OpCode::GetData | OpCode::GetChildren => {
                body.buffer()?;
                body.bool()?;
                let whole = if op == OpCode::GetData { &self.data } else { &self.children };
                out.extend_from_slice(&whole[4 + ReplyHeader::BYTES..]);
            }
            op => return Err(DecodeError::Undefined { what: "multi op", value: op.code() }),
        }
        Ok(())
    }

    /// Appends the requested path, as if it had been created; the body is read to the operation's end.
    fn append_created(
        &self,
        op: OpCode,
        body: &mut JuteReader<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let path = body.buffer()?.ok_or(DecodeError::Null)?;
        body.buffer()?;
        for _ in 0..body.int()? {
            body.int()?;
            body.buffer()?;
            body.buffer()?;
        }
        let flags = body.int()?;
        if op == OpCode::CreateTtl {
            body.long()?;
        }
        let number = if flags & SEQUENTIAL != 0 { SEQUENCE } else { &[] };
        out.put_count(path.len() + number.len());
        out.put_raw(path);
        out.put_raw(number);
        if op != OpCode::Create {
            self.stat.encode(out);
        }
        Ok(())
    }
}

fn skip_buffer_and_int(body: &mut JuteReader<'_>) -> Result<(), DecodeError> {
    body.buffer()?;
    body.int()?;
    Ok(())
}

/// Encodes a complete frame with xid 0.
fn template(fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    reply::frame(&mut out, |out| {
        ReplyHeader { xid: Xid(0), zxid: ZXID, error: None }.encode(out);
        fill(out);
    });
    out
}

fn broken(error: DecodeError) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}
