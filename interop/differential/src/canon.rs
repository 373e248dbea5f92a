//! Turns what a server said into text that is equal on two servers that behave equally.
//!
//! What differs between two honest servers is made relative or symbolic here, and nothing else:
//! - zxids become offsets from the base taken when the script began. A failed write takes a zxid on
//!   both servers, so offsets stay equal through the whole script.
//! - session ids become the number of the session, in the order in which the script opened them.
//! - times become relations: absent, recent, old; for a znode never changed, equal to its ctime.
//! - children, ephemerals and identities are sorted: Apache lists hash sets.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use herdsman_proto::multi::MultiHeader;
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::{Acl, OpCode, Reader, SessionId, Stat, Xid, Zxid};

use crate::call::{Call, hex, show_data, show_entry};

type Decoded<T> = Result<T, herdsman_proto::DecodeError>;

/// How far a server's clock may be from ours.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);

/// What one side's values are relative to.
#[derive(Clone, Debug)]
pub struct Canon {
    /// The server's last zxid when the script began.
    pub base_zxid: Zxid,
    /// Session ids in the order in which the script opened them.
    pub sessions: Vec<SessionId>,
    /// When the script began, milliseconds since 1970.
    pub started_ms: i64,
}

/// What a script generator may learn from a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// The path that the request was about.
    pub path: String,
    /// The path of a znode that was created.
    pub created: Option<String>,
    /// The version of its data.
    pub version: Option<i32>,
}

/// A reply in comparable form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The comparable text.
    pub text: String,
    /// What can be learned from it.
    pub learned: Option<Learned>,
}

impl Canon {
    /// Nothing known yet.
    #[must_use]
    pub fn starting_now() -> Self {
        Canon { base_zxid: Zxid::ZERO, sessions: Vec::new(), started_ms: now_ms() }
    }

    /// A zxid relative to the base; older ones are only "old", so that what went on before the
    /// script does not matter.
    #[must_use]
    pub fn zxid(&self, zxid: Zxid) -> String {
        match zxid.0 {
            value if value <= 0 => value.to_string(),
            value if value < self.base_zxid.0 => "old".into(),
            value => format!("+{}", value - self.base_zxid.0),
        }
    }

    /// A session id by its number.
    #[must_use]
    pub fn session(&self, id: i64) -> String {
        match self.sessions.iter().position(|known| known.0 == id) {
            Some(number) => format!("session #{number}"),
            None => format!("{id:#x}"),
        }
    }

    fn time(&self, ms: i64) -> &'static str {
        let tolerance = CLOCK_TOLERANCE.as_millis() as i64;
        match ms {
            0 => "zero",
            ms if ms > now_ms() + tolerance => "future",
            ms if ms >= self.started_ms - tolerance => "recent",
            _ => "old",
        }
    }

    /// A stat.
    #[must_use]
    pub fn stat(&self, stat: &Stat) -> String {
        // Whether a change came within the same millisecond as the creation is chance; that a znode
        // never changed has mtime equal to ctime is not.
        let changed = stat.mzxid != stat.czxid;
        let order = match stat.mtime.cmp(&stat.ctime) {
            std::cmp::Ordering::Less => "before ctime",
            std::cmp::Ordering::Equal => "fits",
            std::cmp::Ordering::Greater if changed => "fits",
            std::cmp::Ordering::Greater => "after ctime, yet never changed",
        };
        format!(
            "{{c={} m={} p={} ctime={} mtime={} ({order}) version={} cversion={} aversion={} \
             owner={} length={} children={}}}",
            self.zxid(stat.czxid),
            self.zxid(stat.mzxid),
            self.zxid(stat.pzxid),
            self.time(stat.ctime),
            self.time(stat.mtime),
            stat.version,
            stat.cversion,
            stat.aversion,
            self.session(stat.ephemeral_owner),
            stat.data_length,
            stat.num_children,
        )
    }

    /// A notification, or `None` if the frame is none.
    #[must_use]
    pub fn event(&self, payload: &[u8]) -> Option<Event> {
        let mut reader = Reader::new(payload);
        let (xid, zxid, error) = ReplyHeader::decode(&mut reader).ok()?;
        if xid != Xid::NOTIFICATION {
            return None;
        }
        let kind = reader.int().ok()?;
        let state = reader.int().ok()?;
        let path = reader.required_string().ok()?.into_owned();
        let rest = trailing(reader);
        Some(Event {
            text: format!(
                "event type={kind} state={state} {path:?} zxid={} err={error}{rest}",
                self.zxid(zxid)
            ),
            path,
        })
    }

    /// The reply to a request.
    #[must_use]
    pub fn reply(&self, call: &Call, xid: Xid, payload: &[u8]) -> Said {
        let mut reader = Reader::new(payload);
        let Ok((got, zxid, error)) = ReplyHeader::decode(&mut reader) else {
            return Said { text: format!("no reply header: {}", hex(payload)), learned: None };
        };
        let xid =
            if got == xid { String::new() } else { format!("xid {} instead of {} ", got.0, xid.0) };
        let mut learned = Learned { path: call.path.clone(), ..Learned::default() };
        let body = if error == 0 {
            let mut attempt = reader;
            match self.body(call.op, &mut attempt, &mut learned) {
                Ok(body) => format!("{body}{}", trailing(attempt)),
                Err(error) => format!(" undecodable ({error}): {}", hex(reader.rest())),
            }
        } else {
            // Apache sends an empty list behind some errors of multiRead; no client reads it.
            String::new()
        };
        Said {
            text: format!("reply {xid}zxid={} err={error}{body}", self.zxid(zxid)),
            learned: (error == 0).then_some(learned),
        }
    }

    fn body(&self, op: i32, reader: &mut Reader<'_>, learned: &mut Learned) -> Decoded<String> {
        let Some(op) = OpCode::from_code(op) else {
            return Ok(String::new());
        };
        Ok(match op {
            OpCode::Create => format!(" path={}", created(reader, learned)?),
            OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                let path = created(reader, learned)?;
                format!(" path={path} {}", self.read_stat(reader, learned)?)
            }
            OpCode::Exists | OpCode::SetData | OpCode::SetAcl => {
                format!(" {}", self.read_stat(reader, learned)?)
            }
            OpCode::GetData | OpCode::Reconfig => {
                let data = show_data(reader.buffer()?);
                format!(" data={data} {}", self.read_stat(reader, learned)?)
            }
            OpCode::GetAcl => {
                let acl = acl(reader)?;
                format!(" acl=[{acl}] {}", self.read_stat(reader, learned)?)
            }
            OpCode::GetChildren | OpCode::GetEphemerals => format!(" {:?}", names(reader)?),
            OpCode::GetChildren2 => {
                let names = names(reader)?;
                format!(" {names:?} {}", self.read_stat(reader, learned)?)
            }
            OpCode::Sync => format!(" path={}", text(reader)?),
            OpCode::GetAllChildrenNumber | OpCode::AddWatch => format!(" {}", reader.int()?),
            OpCode::WhoAmI => format!(" {:?}", identities(reader)?),
            OpCode::Multi | OpCode::MultiRead => self.multi(reader)?,
            _ => String::new(),
        })
    }

    fn read_stat(&self, reader: &mut Reader<'_>, learned: &mut Learned) -> Decoded<String> {
        let stat = Stat::decode(reader)?;
        learned.version = Some(stat.version);
        Ok(self.stat(&stat))
    }

    fn multi(&self, reader: &mut Reader<'_>) -> Decoded<String> {
        let mut results = String::new();
        loop {
            let header = MultiHeader::decode(reader)?;
            results += &format!(" | {}:{}", header.op, header.error);
            if header.done {
                return Ok(results);
            }
            results += &match OpCode::from_code(header.op) {
                Some(OpCode::Error) => format!(" error {}", reader.int()?),
                _ => self.body(header.op, reader, &mut Learned::default())?,
            };
        }
    }
}

/// A notification in comparable form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The comparable text.
    pub text: String,
    /// The path it is about.
    pub path: String,
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

fn trailing(reader: Reader<'_>) -> String {
    if reader.is_empty() { String::new() } else { format!(" and then {}", hex(reader.rest())) }
}

fn text(reader: &mut Reader<'_>) -> Decoded<String> {
    Ok(reader.buffer()?.map_or("null".into(), |bytes| match std::str::from_utf8(bytes) {
        Ok(text) if text.len() <= 200 => format!("{text:?}"),
        _ => show_data(Some(bytes)),
    }))
}

fn created(reader: &mut Reader<'_>, learned: &mut Learned) -> Decoded<String> {
    let mut copy = *reader;
    learned.created = copy.string()?.map(std::borrow::Cow::into_owned);
    text(reader)
}

fn names(reader: &mut Reader<'_>) -> Decoded<Vec<String>> {
    let mut names = reader.vector(text)?;
    names.sort();
    Ok(names)
}

fn identities(reader: &mut Reader<'_>) -> Decoded<Vec<String>> {
    let mut ids = reader.vector(|reader| Ok(format!("{}:{}", text(reader)?, text(reader)?)))?;
    ids.sort();
    Ok(ids)
}

/// The order of an ACL counts, except where Apache expanded `auth` to the connection's identities,
/// which it keeps in a hash set: runs of digest entries with equal permissions are sorted.
fn acl(reader: &mut Reader<'_>) -> Decoded<String> {
    let mut entries = reader.vector(Acl::decode)?;
    entries
        .chunk_by_mut(|a, b| {
            a.perms == b.perms && a.id.scheme == "digest" && b.id.scheme == "digest"
        })
        .for_each(<[Acl]>::sort);
    let shown: Vec<String> = entries.iter().map(show_entry).collect();
    Ok(shown.join(", "))
}

#[cfg(test)]
#[path = "canon_tests.rs"]
mod tests;
