//! Derives audited operations from a request and its reply. Apache: `AuditHelper.addAuditLog`.
//!
//! A successful multi is logged operation by operation, without its checks; a failed one is logged as one
//! operation without a path. Apache leaves out the type of a znode with a sequence number or a TTL that was
//! created in a multi; here it is logged.

use herdsman_proto::multi::MultiHeader;
use herdsman_proto::path;
use herdsman_proto::request::{CreateMode, CreateRequest, Lifetime};
use herdsman_proto::{Acl, JuteReader, OpCode, Perms, Request, Stat, WriteRequest};

use super::AuditedRequest;
use super::line::Outcome;

/// What is known about the reply to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer<'a> {
    /// It succeeded; the body of the reply.
    Done(&'a [u8]),
    /// It failed.
    Refused,
    /// There was no reply.
    Unknown,
}

impl Answer<'_> {
    fn outcome(&self) -> Outcome {
        match self {
            Answer::Done(_) => Outcome::Success,
            Answer::Refused => Outcome::Failure,
            Answer::Unknown => Outcome::Invoked,
        }
    }
}

/// One operation and its outcome.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Done {
    pub operation: &'static str,
    pub znode: Option<String>,
    pub znode_type: Option<&'static str>,
    pub acl: Option<String>,
    pub outcome: Outcome,
}

impl Done {
    fn new(operation: &'static str, znode: Option<&str>, outcome: Outcome) -> Self {
        let znode = znode.map(str::to_owned);
        Done { operation, znode, znode_type: None, acl: None, outcome }
    }
}

const MULTI: &str = "multiOperation";

/// The audited operations of a request.
pub(super) fn done(asked: &AuditedRequest<'_>, answer: &Answer<'_>) -> Vec<Done> {
    let Some(operation) = name(asked.op) else { return Vec::new() };
    let body = asked.payload.get(8..).unwrap_or_default();
    let mut reader = JuteReader::with_limit(body, asked.field_bytes_max);
    match Request::decode(asked.op, &mut reader) {
        Ok(Request::Write(WriteRequest::Multi(writes))) => done_by_multi(&writes, answer),
        Ok(Request::Write(write)) => vec![done_by(&write, answer)],
        // Not even its path can be decoded.
        Ok(_) | Err(_) => vec![Done::new(operation, None, answer.outcome())],
    }
}

fn name(op: OpCode) -> Option<&'static str> {
    match op {
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
            Some("create")
        }
        OpCode::Delete => Some("delete"),
        OpCode::SetData => Some("setData"),
        OpCode::SetAcl => Some("setAcl"),
        OpCode::Multi => Some(MULTI),
        OpCode::Reconfig => Some("reconfig"),
        _ => None,
    }
}

fn done_by(write: &WriteRequest<'_>, answer: &Answer<'_>) -> Done {
    let outcome = answer.outcome();
    match write {
        WriteRequest::Create(create) => {
            let made = match answer {
                Answer::Done(reply) => JuteReader::new(reply).required_string().ok(),
                Answer::Refused | Answer::Unknown => None,
            };
            created(create, made.as_deref(), outcome)
        }
        WriteRequest::Delete { path, .. } => Done::new("delete", Some(path), outcome),
        WriteRequest::SetData { path, .. } => Done::new("setData", Some(path), outcome),
        WriteRequest::SetAcl { path, acl, .. } => {
            Done { acl: Some(acl_text(acl)), ..Done::new("setAcl", Some(path), outcome) }
        }
        WriteRequest::Reconfig(_) => {
            let znode = (outcome == Outcome::Success).then_some(path::CONFIG);
            Done::new("reconfig", znode, outcome)
        }
        WriteRequest::Check { .. } | WriteRequest::Multi(_) => Done::new(MULTI, None, outcome),
    }
}

/// `made` is the path with its sequence number, if the create succeeded.
fn created(create: &CreateRequest<'_>, made: Option<&str>, outcome: Outcome) -> Done {
    let path = made.unwrap_or(&create.path);
    Done { znode_type: type_name(create.flags), ..Done::new("create", Some(path), outcome) }
}

/// Apache's name of a mode; undefined flags have none.
fn type_name(flags: i32) -> Option<&'static str> {
    let CreateMode { lifetime, sequential } = CreateMode::from_flags(flags)?;
    Some(match (lifetime, sequential) {
        (Lifetime::Persistent, false) => "persistent",
        (Lifetime::Persistent, true) => "persistent_sequential",
        (Lifetime::Ephemeral, false) => "ephemeral",
        (Lifetime::Ephemeral, true) => "ephemeral_sequential",
        (Lifetime::Container, _) => "container",
        (Lifetime::Ttl, false) => "persistent_with_ttl",
        (Lifetime::Ttl, true) => "persistent_sequential_with_ttl",
    })
}

/// Apache: `ZKUtil.aclToString`, which separates entries by nothing.
fn acl_text(acl: &[Acl]) -> String {
    const LETTERS: [(Perms, char); 5] = [
        (Perms::CREATE, 'c'),
        (Perms::DELETE, 'd'),
        (Perms::READ, 'r'),
        (Perms::WRITE, 'w'),
        (Perms::ADMIN, 'a'),
    ];
    let entry = |entry: &Acl| {
        let given = LETTERS.iter().filter(|(perm, _)| entry.perms.intersects(*perm));
        let letters: String = given.map(|(_, letter)| letter).collect();
        format!("{}:{}:{letters}", entry.id.scheme, entry.id.id)
    };
    acl.iter().map(entry).collect()
}

fn done_by_multi(writes: &[WriteRequest<'_>], answer: &Answer<'_>) -> Vec<Done> {
    let Answer::Done(reply) = answer else {
        return vec![Done::new(MULTI, None, answer.outcome())];
    };
    let Some(made) = paths_made(reply) else {
        return vec![Done::new(MULTI, None, Outcome::Failure)];
    };
    let mut made = made.iter();
    let outcome = Outcome::Success;
    let done = |write: &WriteRequest<'_>| match write {
        WriteRequest::Create(create) => {
            Some(created(create, made.next().map(String::as_str), outcome))
        }
        WriteRequest::Check { .. } => None,
        other => Some(done_by(other, answer)),
    };
    writes.iter().filter_map(done).collect()
}

/// The paths of created znodes in the reply to a multi; `None` if it failed.
fn paths_made(reply: &[u8]) -> Option<Vec<String>> {
    let mut reader = JuteReader::new(reply);
    let mut paths = Vec::new();
    loop {
        let header = MultiHeader::decode(&mut reader).ok()?;
        if header.done {
            return Some(paths);
        }
        match OpCode::from_code(header.op)? {
            OpCode::Create => paths.push(reader.required_string().ok()?.into_owned()),
            OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                paths.push(reader.required_string().ok()?.into_owned());
                Stat::decode(&mut reader).ok()?;
            }
            OpCode::SetData | OpCode::SetAcl => _ = Stat::decode(&mut reader).ok()?,
            OpCode::Delete | OpCode::Check => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_has_apaches_name() {
        let names: Vec<_> = (0..=7).map(type_name).collect();
        assert_eq!(
            names,
            [
                Some("persistent"),
                Some("ephemeral"),
                Some("persistent_sequential"),
                Some("ephemeral_sequential"),
                Some("container"),
                Some("persistent_with_ttl"),
                Some("persistent_sequential_with_ttl"),
                None
            ]
        );
    }

    #[test]
    fn acls_are_as_apache_shows_them() {
        let world = Acl::world(Perms::ALL);
        let mut bob = Acl::world(Perms::READ.union(Perms::ADMIN));
        bob.id = herdsman_proto::Id::new("digest", "bob:x=");
        assert_eq!(acl_text(&[]), "");
        assert_eq!(acl_text(std::slice::from_ref(&world)), "world:anyone:cdrwa");
        assert_eq!(acl_text(&[world, bob]), "world:anyone:cdrwadigest:bob:x=:ra");
    }

    #[test]
    fn reads_and_ends_of_sessions_are_not_told() {
        for op in [OpCode::GetData, OpCode::Sync, OpCode::CloseSession, OpCode::Ping] {
            assert_eq!(name(op), None, "{op:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_without_a_path() {
        let payload = bytes::Bytes::from_static(&[0, 0, 0, 1, 0, 0, 0, 1, 0xff]);
        let asked = AuditedRequest { op: OpCode::Create, payload: &payload, field_bytes_max: 1024 };
        let told = done(&asked, &Answer::Refused);
        assert_eq!(told, [Done::new("create", None, Outcome::Failure)]);
    }
}
