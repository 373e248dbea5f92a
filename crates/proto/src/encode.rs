//! Encodes requests as a client sends them. [`Request::decode`] returns an equal request,
//! with one exception: a create with undefined flags, which only a multi's createTTL can hold.

use crate::jute::JuteWrite;
use crate::multi::MultiHeader;
use crate::op::OpCode;
use crate::request::{
    CreateRequest, ReadRequest, ReconfigRequest, Request, SetWatches, Text, WriteRequest,
};

impl Request<'_> {
    /// The op that this request is.
    #[must_use]
    pub fn op(&self) -> OpCode {
        match self {
            Request::Write(write) => write.op(),
            Request::Read(read) => read.op(),
            Request::Sync { .. } => OpCode::Sync,
            Request::Ping => OpCode::Ping,
            Request::Auth { .. } => OpCode::Auth,
            Request::Sasl { .. } => OpCode::Sasl,
            Request::CloseSession => OpCode::CloseSession,
        }
    }

    /// Appends the body; the header goes before it.
    pub fn encode(&self, out: &mut impl JuteWrite) {
        match self {
            Request::Write(write) => write.encode(out),
            Request::Read(read) => read.encode(out),
            Request::Sync { path } => out.put_string(path),
            Request::Ping | Request::CloseSession => {}
            Request::Auth { scheme, credentials } => {
                out.put_int(0);
                out.put_string(scheme);
                out.put_buffer(*credentials);
            }
            Request::Sasl { token } => out.put_buffer(Some(token)),
        }
    }
}

impl WriteRequest<'_> {
    /// Appends the body.
    pub fn encode(&self, out: &mut impl JuteWrite) {
        match self {
            WriteRequest::Create(create) => create.encode(out),
            WriteRequest::Delete { path, version } | WriteRequest::Check { path, version } => {
                out.put_string(path);
                out.put_int(*version);
            }
            WriteRequest::SetData { path, data, version } => {
                out.put_string(path);
                out.put_buffer(*data);
                out.put_int(*version);
            }
            WriteRequest::SetAcl { path, acl, version } => {
                out.put_string(path);
                out.put_vector(acl, |out, entry| entry.encode(out));
                out.put_int(*version);
            }
            WriteRequest::Multi(writes) => {
                for write in writes {
                    MultiHeader::operation(write.op()).encode(out);
                    write.encode(out);
                }
                MultiHeader::END.encode(out);
            }
            WriteRequest::Reconfig(reconfig) => reconfig.encode(out),
        }
    }
}

impl CreateRequest<'_> {
    fn encode(&self, out: &mut impl JuteWrite) {
        out.put_string(&self.path);
        out.put_buffer(self.data);
        out.put_vector(&self.acl, |out, entry| entry.encode(out));
        out.put_int(self.flags);
        if let Some(ttl_ms) = self.ttl_ms {
            out.put_long(ttl_ms);
        }
    }
}

impl ReconfigRequest<'_> {
    fn encode(&self, out: &mut impl JuteWrite) {
        put_optional(out, self.joining.as_ref());
        put_optional(out, self.leaving.as_ref());
        put_optional(out, self.new_members.as_ref());
        out.put_long(self.current_config);
    }
}

impl ReadRequest<'_> {
    /// The op that this request is.
    #[must_use]
    pub fn op(&self) -> OpCode {
        match self {
            ReadRequest::Exists { .. } => OpCode::Exists,
            ReadRequest::GetData { .. } => OpCode::GetData,
            ReadRequest::GetAcl { .. } => OpCode::GetAcl,
            ReadRequest::GetChildren { with_stat: false, .. } => OpCode::GetChildren,
            ReadRequest::GetChildren { with_stat: true, .. } => OpCode::GetChildren2,
            ReadRequest::GetAllChildrenNumber { .. } => OpCode::GetAllChildrenNumber,
            ReadRequest::GetEphemerals { .. } => OpCode::GetEphemerals,
            ReadRequest::CheckWatches { .. } => OpCode::CheckWatches,
            ReadRequest::RemoveWatches { .. } => OpCode::RemoveWatches,
            ReadRequest::SetWatches(watches) => watches.op(),
            ReadRequest::AddWatch { .. } => OpCode::AddWatch,
            ReadRequest::MultiRead(_) => OpCode::MultiRead,
            ReadRequest::WhoAmI => OpCode::WhoAmI,
        }
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut impl JuteWrite) {
        match self {
            ReadRequest::Exists { path, watch }
            | ReadRequest::GetData { path, watch }
            | ReadRequest::GetChildren { path, watch, .. } => {
                out.put_string(path);
                out.put_bool(*watch);
            }
            ReadRequest::GetAcl { path } | ReadRequest::GetAllChildrenNumber { path } => {
                out.put_string(path);
            }
            ReadRequest::GetEphemerals { prefix } => put_optional(out, prefix.as_ref()),
            ReadRequest::CheckWatches { path, kind }
            | ReadRequest::RemoveWatches { path, kind } => {
                out.put_string(path);
                out.put_int(kind.code());
            }
            ReadRequest::SetWatches(watches) => watches.encode(out),
            ReadRequest::AddWatch { path, recursive } => {
                out.put_string(path);
                out.put_int(i32::from(*recursive));
            }
            ReadRequest::MultiRead(reads) => {
                for read in reads {
                    MultiHeader::operation(read.op()).encode(out);
                    read.encode(out);
                }
                MultiHeader::END.encode(out);
            }
            ReadRequest::WhoAmI => {}
        }
    }
}

impl SetWatches<'_> {
    /// The older op if it is enough: servers before 3.6 know no other.
    fn op(&self) -> OpCode {
        if self.persistent.is_empty() && self.persistent_recursive.is_empty() {
            OpCode::SetWatches
        } else {
            OpCode::SetWatches2
        }
    }

    fn encode(&self, out: &mut impl JuteWrite) {
        out.put_long(self.relative_zxid.0);
        let mut lists = vec![&self.data, &self.exist, &self.child];
        if self.op() == OpCode::SetWatches2 {
            lists.extend([&self.persistent, &self.persistent_recursive]);
        }
        for list in lists {
            out.put_vector(list, |out, path| out.put_string(path));
        }
    }
}

fn put_optional(out: &mut impl JuteWrite, text: Option<&Text<'_>>) {
    out.put_buffer(text.map(|text| text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::{Acl, Perms};
    use crate::ids::Zxid;
    use crate::jute::JuteReader;
    use crate::request::WatcherType;

    fn check(request: &Request<'_>) {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        let mut reader = JuteReader::new(&bytes);
        assert_eq!(Request::decode(request.op(), &mut reader).as_ref(), Ok(request));
        assert!(reader.is_empty(), "{request:?}");
    }

    #[test]
    fn writes_come_back() {
        let create = |op, flags, ttl_ms| {
            WriteRequest::Create(CreateRequest {
                op,
                path: "/a".into(),
                data: Some(b"data"),
                acl: vec![Acl::world(Perms::ALL)],
                flags,
                ttl_ms,
            })
        };
        let set_data = WriteRequest::SetData { path: "/a".into(), data: None, version: 3 };
        let parts = vec![
            create(OpCode::Create2, 3, None),
            create(OpCode::CreateTtl, 5, Some(1000)),
            create(OpCode::CreateContainer, 4, None),
            WriteRequest::Check { path: "/a".into(), version: -1 },
            WriteRequest::Delete { path: "/a".into(), version: 0 },
            set_data.clone(),
        ];
        check(&Request::Write(create(OpCode::Create, 0, None)));
        check(&Request::Write(set_data));
        check(&Request::Write(WriteRequest::Multi(parts)));
        check(&Request::Write(WriteRequest::Multi(Vec::new())));
        let reconfig = ReconfigRequest {
            joining: Some("server.2=…".into()),
            leaving: None,
            new_members: None,
            current_config: -1,
        };
        check(&Request::Write(WriteRequest::Reconfig(reconfig)));
    }

    #[test]
    fn reads_come_back() {
        let get_data = ReadRequest::GetData { path: "/a".into(), watch: false };
        check(&Request::Read(ReadRequest::MultiRead(vec![get_data.clone(), get_data])));
        check(&Request::Read(ReadRequest::GetEphemerals { prefix: None }));
        for kind in [WatcherType::Children, WatcherType::PersistentRecursive] {
            check(&Request::Read(ReadRequest::RemoveWatches { path: "/a".into(), kind }));
        }
        for persistent in [vec![], vec!["/p".into()]] {
            let watches = SetWatches {
                relative_zxid: Zxid(9),
                data: vec!["/a".into(), "/b".into()],
                persistent,
                ..SetWatches::default()
            };
            check(&Request::Read(ReadRequest::SetWatches(watches)));
        }
        check(&Request::Auth { scheme: "digest".into(), credentials: Some(b"u:p") });
    }
}
