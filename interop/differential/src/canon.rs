//! Converts the output of a server into text that is equal for two servers that behave equally.
//!
//! Only what differs between two correct servers is made relative or symbolic here:
//! - zxids become offsets from the base at the start of the script. A failed write takes a zxid on both
//!   servers, so offsets stay equal through the whole script.
//! - session ids become the number of the session, in the order in which the script opened them.
//! - times become relations: absent, recent, old; for a znode that was never changed, equal to its ctime.
//! - children, ephemerals and ids are sorted: Apache lists hash sets.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use herdsman_proto::multi::MultiHeader;
use herdsman_proto::reply::ReplyHeader;
use herdsman_proto::{Acl, JuteReader, OpCode, SessionId, Stat, Xid, Zxid};

use crate::call::{Call, hex, show_data, show_entry};
use crate::deliberate;

type Decoded<T> = Result<T, herdsman_proto::DecodeError>;

/// How far a server's clock may be from ours.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);

/// What the values of one side are relative to.
#[derive(Clone, Debug)]
pub struct Canon {
    /// Zxids from which offsets are counted, and the offset of each: the server's last zxid at the start of
    /// the script, and later ones.
    counted_from: Vec<(Zxid, i64)>,
    /// Session ids in the order in which the script opened them.
    pub sessions: Vec<SessionId>,
    /// Sessions that keep the servers of an ensemble in step, by server.
    pub probes: Vec<SessionId>,
    /// When the script started, in milliseconds since 1970.
    pub started_ms: i64,
}

/// What a script generator may learn from a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// The path of the request.
    pub path: String,
    /// The path of the created znode.
    pub created: Option<String>,
    /// The version of its data.
    pub version: Option<i32>,
}

/// A reply in comparable form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanonReply {
    /// The comparable text.
    pub text: String,
    /// What can be learned from it.
    pub learned: Option<Learned>,
}

impl Canon {
    /// A state without any knowledge.
    #[must_use]
    pub fn starting_now() -> Self {
        Canon {
            counted_from: vec![(Zxid::ZERO, 0)],
            sessions: Vec::new(),
            probes: Vec::new(),
            started_ms: now_ms(),
        }
    }

    /// Counts zxids from this one.
    pub fn count_from(&mut self, base: Zxid) {
        self.counted_from = vec![(base, 0)];
    }

    /// Counts later zxids as if there were this many txns between the previous base and this one. There may
    /// be fewer, and the number may differ between the sides.
    pub fn jump(&mut self, zxid: Zxid, txns: i64) {
        let (_, offset) = self.counted_from[self.counted_from.len() - 1];
        self.counted_from.push((zxid, offset + txns));
    }

    /// The number of txns from the start of the script to this zxid.
    #[must_use]
    pub fn offset(&self, zxid: Zxid) -> i64 {
        let from = self.counted_from.iter().rfind(|(from, _)| *from <= zxid);
        let (from, offset) = from.unwrap_or(&self.counted_from[0]);
        zxid.0 - from.0 + offset
    }

    /// The zxid with this offset; for one that a jump skipped, the target of the jump.
    #[must_use]
    pub fn zxid_at(&self, offset: i64) -> Zxid {
        let after = self.counted_from.partition_point(|(_, from)| *from <= offset);
        let (from, known) = self.counted_from[after.saturating_sub(1)];
        let zxid = Zxid(from.0.wrapping_add(offset - known));
        self.counted_from.get(after).map_or(zxid, |(next, _)| zxid.min(*next))
    }

    /// A zxid relative to the base; older ones are only "old", so that earlier activity does not matter.
    #[must_use]
    pub fn zxid(&self, zxid: Zxid) -> String {
        match zxid.0 {
            value if value <= 0 => value.to_string(),
            _ if zxid < self.counted_from[0].0 => "old".into(),
            _ => format!("+{}", self.offset(zxid)),
        }
    }

    /// A session id by its number.
    #[must_use]
    pub fn session(&self, id: i64) -> String {
        let number = |known: &[SessionId]| known.iter().position(|known| known.0 == id);
        match (number(&self.sessions), number(&self.probes)) {
            (Some(number), _) => format!("session #{number}"),
            (None, Some(number)) => format!("probe #{number}"),
            (None, None) => format!("{id:#x}"),
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
        // Whether a change was made in the same millisecond as the creation is random; that a znode that
        // was never changed has mtime equal to ctime is not.
        let changed = stat.mzxid != stat.czxid;
        let (mut mtime, mut order) = (self.time(stat.mtime), "fits");
        match stat.mtime.cmp(&stat.ctime) {
            _ if deliberate::has_its_own_time(stat) => (mtime, order) = ("its own", "fits"),
            std::cmp::Ordering::Less => order = "before ctime",
            std::cmp::Ordering::Greater if !changed => order = "after ctime, yet never changed",
            _ => {}
        }
        format!(
            "{{c={} m={} p={} ctime={} mtime={} ({order}) version={} cversion={} aversion={} \
             owner={} length={} children={}}}",
            self.zxid(stat.czxid),
            self.zxid(stat.mzxid),
            self.zxid(stat.pzxid),
            self.time(stat.ctime),
            mtime,
            stat.version,
            stat.cversion,
            stat.aversion,
            self.session(stat.ephemeral_owner),
            stat.data_length,
            stat.num_children,
        )
    }

    /// A notification; `None` if the frame is not one.
    #[must_use]
    pub fn event(&self, payload: &[u8]) -> Option<Event> {
        let mut reader = JuteReader::new(payload);
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
    pub fn reply(&self, call: &Call, xid: Xid, payload: &[u8]) -> CanonReply {
        let mut reader = JuteReader::new(payload);
        let Ok((got, zxid, error)) = ReplyHeader::decode(&mut reader) else {
            return CanonReply {
                text: format!("no reply header: {}", hex(payload)),
                learned: None,
            };
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
            // Apache sends an empty list after some errors of multiRead; clients do not read it.
            String::new()
        };
        CanonReply {
            text: format!("reply {xid}zxid={} err={error}{body}", self.zxid(zxid)),
            learned: (error == 0).then_some(learned),
        }
    }

    fn body(&self, op: i32, reader: &mut JuteReader<'_>, learned: &mut Learned) -> Decoded<String> {
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
                let data = reader.buffer()?;
                let data = data.and_then(membership).unwrap_or_else(|| show_data(data));
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

    fn read_stat(&self, reader: &mut JuteReader<'_>, learned: &mut Learned) -> Decoded<String> {
        let stat = Stat::decode(reader)?;
        learned.version = Some(stat.version);
        Ok(self.stat(&stat))
    }

    fn multi(&self, reader: &mut JuteReader<'_>) -> Decoded<String> {
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
    /// Its path.
    pub path: String,
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// The text of `/zookeeper/config` in an ensemble. Ports depend on the machine, lines are in the order of a
/// hash map, and the version is the zxid at which the first leader started.
fn membership(data: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(data).ok()?;
    if !text.starts_with("server.") {
        return None;
    }
    let mut lines: Vec<String> = text.split('\n').map(member).collect();
    lines.sort();
    Some(format!("{lines:?}"))
}

/// A line of a membership without ports and epoch number.
pub(crate) fn member(line: &str) -> String {
    if let Some(version) = line.strip_prefix("version=") {
        let epoch = version.strip_suffix("00000000").is_some_and(|epoch| !epoch.is_empty());
        return if epoch { "version=(an epoch)".into() } else { line.to_owned() };
    }
    let port = |part: &str| part.len() == 5 && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = line.split(':').map(|part| if port(part) { "port" } else { part });
    parts.collect::<Vec<_>>().join(":")
}

fn trailing(reader: JuteReader<'_>) -> String {
    if reader.is_empty() { String::new() } else { format!(" and then {}", hex(reader.rest())) }
}

fn text(reader: &mut JuteReader<'_>) -> Decoded<String> {
    Ok(reader.buffer()?.map_or("null".into(), |bytes| match std::str::from_utf8(bytes) {
        Ok(text) if text.len() <= 200 => format!("{text:?}"),
        _ => show_data(Some(bytes)),
    }))
}

fn created(reader: &mut JuteReader<'_>, learned: &mut Learned) -> Decoded<String> {
    let mut copy = *reader;
    learned.created = copy.string()?.map(std::borrow::Cow::into_owned);
    text(reader)
}

fn names(reader: &mut JuteReader<'_>) -> Decoded<Vec<String>> {
    let mut names = reader.vector(text)?;
    names.sort();
    Ok(names)
}

fn identities(reader: &mut JuteReader<'_>) -> Decoded<Vec<String>> {
    let mut ids = reader.vector(|reader| Ok(format!("{}:{}", text(reader)?, text(reader)?)))?;
    ids.sort();
    Ok(ids)
}

/// The order of an ACL matters, except where Apache expanded `auth` to the ids of the connection, which it
/// keeps in a hash set: runs of digest entries with equal permissions are sorted.
fn acl(reader: &mut JuteReader<'_>) -> Decoded<String> {
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
