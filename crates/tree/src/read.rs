//! Reads: request → reply body, encoded straight from the tree. Apache: `FinalRequestProcessor`.
//!
//! The caller holds a read guard of the tree throughout, so a watch is registered before any later
//! change. Permission is checked before the watch, as in Apache: a client that may not read gets no events. A read
//! whose watch is refused fails as a whole: a client that believed it had the watch would wait forever.

use std::borrow::Cow;

use herdsman_proto::event::ZXID_OF_LATE_EVENTS;
use herdsman_proto::multi::{MultiHeader, encode_error_result};
use herdsman_proto::request::{SetWatches, Text};
use herdsman_proto::{
    Acl, ErrorCode, EventType, Id, JuteWrite, OpCode, Perms, ReadRequest, SessionId, WatchedEvent,
    path,
};

use crate::acl_list::ProvenIds;
use crate::auth::DIGEST;
use crate::nodes::Znode;
use crate::tree::Tree;
use crate::watches::{TableKind, WatchMode, Watcher};

/// The client of a read.
#[derive(Clone, Copy, Debug)]
pub struct ReadCaller<'a> {
    /// The session, for its own ephemerals.
    pub session: SessionId,
    /// The connection, for its watches.
    pub watcher: Watcher,
    /// The ids of the connection.
    pub ids: &'a [Id],
}

/// The client of a read, with its ids prepared for all checks of one request.
#[derive(Clone, Copy)]
struct ReadContext<'a> {
    session: SessionId,
    watcher: Watcher,
    ids: &'a ProvenIds<'a>,
}

type Reply = Result<(), ErrorCode>;

/// The error of a read whose reply would be larger than `reply_bytes_max`.
pub const REPLY_TOO_LARGE: ErrorCode = ErrorCode::MarshallingError;

impl Tree {
    /// Executes a read and appends the body of its reply to `out`.
    pub fn read(
        &self,
        reader: ReadCaller<'_>,
        request: &ReadRequest<'_>,
        out: &mut Vec<u8>,
    ) -> Reply {
        let ReadCaller { session, watcher, ids } = reader;
        self.read_as(ReadContext { session, watcher, ids: &ProvenIds::new(ids) }, request, out)
    }

    fn read_as(
        &self,
        reader: ReadContext<'_>,
        request: &ReadRequest<'_>,
        out: &mut Vec<u8>,
    ) -> Reply {
        match request {
            ReadRequest::Exists { path, watch } => self.read_exists(reader, path, *watch, out),
            ReadRequest::GetData { path, watch } => self.read_data(reader, path, *watch, out),
            ReadRequest::GetAcl { path } => self.read_acl(reader, path, out),
            ReadRequest::GetChildren { path, watch, with_stat } => {
                let node = self.read_children(reader, path, *watch, out)?;
                if *with_stat {
                    self.stat(node).encode(out);
                }
                Ok(())
            }
            ReadRequest::GetAllChildrenNumber { path } => self.read_descendants(reader, path, out),
            ReadRequest::GetEphemerals { prefix } => {
                self.read_ephemerals(reader.session, prefix.as_deref().unwrap_or_default(), out)
            }
            ReadRequest::CheckWatches { path, kind } => {
                found(self.watches().contains(path, *kind, reader.watcher))
            }
            ReadRequest::RemoveWatches { path, kind } => {
                found(self.watches().remove(path, *kind, reader.watcher))
            }
            ReadRequest::AddWatch { path, recursive } => {
                let mode =
                    if *recursive { WatchMode::PersistentRecursive } else { WatchMode::Persistent };
                self.watches().add_persistent(path, reader.watcher, mode)?;
                out.put_int(0);
                Ok(())
            }
            ReadRequest::MultiRead(reads) => self.read_multi(reader, reads, out),
            ReadRequest::WhoAmI => {
                self.read_who_am_i(reader.ids.as_slice(), out);
                Ok(())
            }
            // Its events precede its reply, so it is not a body: see `set_watches`.
            ReadRequest::SetWatches(_) => Ok(()),
        }
    }

    /// Whether the data or the names in a reply would take at most `bytes_max` now. False if the answer would need to
    /// read more than this many bytes of one znode.
    #[must_use]
    pub fn reply_fits(&self, request: &ReadRequest<'_>, bytes_max: usize) -> bool {
        let znode = |path: &str| self.nodes.find(path).map(|id| self.nodes.get(id));
        match request {
            ReadRequest::Exists { .. } => true,
            ReadRequest::GetData { path, .. } => {
                znode(path).and_then(Znode::data).is_none_or(|data| data.len() <= bytes_max)
            }
            ReadRequest::GetChildren { path, .. } => {
                znode(path).is_none_or(|node| self.names_bytes(node, bytes_max) <= bytes_max)
            }
            _ => false,
        }
    }

    /// The length of the list in the reply to a getChildren, without a limit; `None` for other reads.
    #[must_use]
    pub fn children_bytes(&self, request: &ReadRequest<'_>) -> Option<usize> {
        let ReadRequest::GetChildren { path, .. } = request else { return None };
        let node = self.nodes.get(self.nodes.find(path)?);
        Some(self.names_bytes(node, usize::MAX))
    }

    /// The length of the list of a znode's children in a reply. Stops counting above `bytes_max`.
    fn names_bytes(&self, node: Znode<'_>, bytes_max: usize) -> usize {
        let mut bytes = 4;
        for &child in node.children() {
            bytes += 4 + self.nodes.get(child).name_len();
            if bytes > bytes_max {
                break;
            }
        }
        bytes
    }

    /// Fails if a reply has become too large since `start`, before it takes more memory.
    fn check_reply(&self, start: usize, out: &[u8]) -> Reply {
        match out.len() - start > self.options.reply_bytes_max {
            true => Err(REPLY_TOO_LARGE),
            false => Ok(()),
        }
    }

    /// Whether the number of watches of a connection is limited.
    #[must_use]
    pub fn limits_watches(&self) -> bool {
        self.options.watches_per_watcher_max.is_some()
    }

    fn readable(&self, reader: ReadContext<'_>, path: &str) -> Result<Znode<'_>, ErrorCode> {
        self.readable_by(reader.ids, path)
    }

    pub(crate) fn readable_by(
        &self,
        ids: &ProvenIds<'_>,
        path: &str,
    ) -> Result<Znode<'_>, ErrorCode> {
        let node = self.nodes.get(self.nodes.find(path).ok_or(ErrorCode::NoNode)?);
        self.check_acl(self.acls.get(node.acl()), Perms::READ, ids)?;
        Ok(node)
    }

    fn read_exists(
        &self,
        reader: ReadContext<'_>,
        path: &str,
        watch: bool,
        out: &mut Vec<u8>,
    ) -> Reply {
        if path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        let node = match self.readable(reader, path) {
            Err(ErrorCode::NoNode) => None,
            other => Some(other?),
        };
        if watch {
            self.watches().add(TableKind::Data, path, reader.watcher)?;
        }
        self.stat(node.ok_or(ErrorCode::NoNode)?).encode(out);
        Ok(())
    }

    fn read_data(
        &self,
        reader: ReadContext<'_>,
        path: &str,
        watch: bool,
        out: &mut Vec<u8>,
    ) -> Reply {
        let node = self.readable(reader, path)?;
        if watch {
            self.watches().add(TableKind::Data, path, reader.watcher)?;
        }
        out.put_buffer(node.data());
        self.stat(node).encode(out);
        Ok(())
    }

    fn read_children(
        &self,
        reader: ReadContext<'_>,
        path: &str,
        watch: bool,
        out: &mut Vec<u8>,
    ) -> Result<Znode<'_>, ErrorCode> {
        let id = self.nodes.find(path).ok_or(ErrorCode::NoNode)?;
        let node = self.nodes.get(id);
        self.check_acl(self.acls.get(node.acl()), Perms::READ, reader.ids)?;
        if !self.nodes.names_into(id, self.options.reply_bytes_max, out) {
            return Err(REPLY_TOO_LARGE);
        }
        // Set the watch only after the reply is complete: a client that gets an error must not have a watch.
        if watch {
            self.watches().add(TableKind::Child, path, reader.watcher)?;
        }
        Ok(node)
    }

    fn read_acl(&self, reader: ReadContext<'_>, path: &str, out: &mut Vec<u8>) -> Reply {
        let node = self.nodes.get(self.nodes.find(path).ok_or(ErrorCode::NoNode)?);
        let acl = self.acl_shown_to(reader.ids, node)?;
        out.put_vector(&acl, |out, entry| entry.encode(out));
        self.stat(node).encode(out);
        Ok(())
    }

    /// The ACL as shown to a client: readers and administrators see the list, only administrators see password hashes.
    pub(crate) fn acl_shown_to(
        &self,
        ids: &ProvenIds<'_>,
        node: Znode<'_>,
    ) -> Result<Cow<'_, [Acl]>, ErrorCode> {
        let acl = self.acls.get(node.acl());
        self.check_acl(acl, Perms::READ.union(Perms::ADMIN), ids)?;
        let may_see_hashes = self.check_acl(acl, Perms::ADMIN, ids).is_ok();
        if may_see_hashes {
            return Ok(Cow::Borrowed(acl.entries()));
        }
        Ok(acl.entries().iter().map(masked).collect())
    }

    fn read_descendants(&self, reader: ReadContext<'_>, path: &str, out: &mut Vec<u8>) -> Reply {
        self.readable(reader, path)?;
        let top = self.nodes.find(path).ok_or(ErrorCode::NoNode)?;
        // Apache has two entries for the root: a request for the empty path also counts the other one.
        let descendants = match path {
            "" => self.nodes.len(),
            _ => usize::try_from(self.nodes.get(top).below().znodes).unwrap_or(usize::MAX),
        };
        out.put_count(descendants);
        Ok(())
    }

    fn read_ephemerals(&self, session: SessionId, prefix: &str, out: &mut Vec<u8>) -> Reply {
        // Java's trim removes control characters too.
        let all = matches!(prefix.trim_matches(|c| c <= ' '), "" | path::ROOT);
        let prefix = if all { "" } else { prefix };
        let start = out.len();
        out.put_count(0);
        let mut count = 0_i32;
        for path in self.ephemerals_with(session, prefix) {
            out.put_string(path);
            self.check_reply(start, out)?;
            count += 1;
        }
        out[start..start + 4].copy_from_slice(&count.to_be_bytes());
        Ok(())
    }

    fn read_multi(
        &self,
        reader: ReadContext<'_>,
        reads: &[ReadRequest<'_>],
        out: &mut Vec<u8>,
    ) -> Reply {
        let all = out.len();
        for read in reads {
            let start = out.len();
            let op = match read {
                ReadRequest::GetData { .. } => OpCode::GetData,
                _ => OpCode::GetChildren,
            };
            MultiHeader::result(op).encode(out);
            match self.read_as(reader, read, out) {
                Err(REPLY_TOO_LARGE) => return Err(REPLY_TOO_LARGE),
                Err(code) => {
                    out.truncate(start);
                    encode_error_result(Some(code), out);
                }
                Ok(()) => {}
            }
            self.check_reply(all, out)?;
        }
        MultiHeader::END.encode(out);
        Ok(())
    }

    fn read_who_am_i(&self, ids: &[Id], out: &mut Vec<u8>) {
        out.put_vector(ids, |out, id| {
            out.put_string(&id.scheme);
            out.put_string(self.options.schemes.user_name(id));
        });
    }

    /// Registers a client's watches again after a reconnect. A change in the meantime becomes
    /// an event at once, appended to `out` as whole frames: they precede the reply.
    ///
    /// # Errors
    /// `QuotaExceeded`: there are too many. No client checks this reply, so the connection must be closed: its
    /// client must not rely on watches that it does not have. Those that were set are removed with it.
    pub fn set_watches(
        &self,
        reader: ReadCaller<'_>,
        request: &SetWatches<'_>,
        out: &mut Vec<u8>,
    ) -> Reply {
        let start = out.len();
        let ReadCaller { session, watcher, ids } = reader;
        let asker = ReadContext { session, watcher, ids: &ProvenIds::new(ids) };
        let set = self.set_each_watch(asker, request, out);
        if set.is_err() {
            out.truncate(start);
        }
        set
    }

    fn set_each_watch(
        &self,
        reader: ReadContext<'_>,
        request: &SetWatches<'_>,
        out: &mut Vec<u8>,
    ) -> Reply {
        let mut watches = self.watches();
        let since = request.relative_zxid;
        let znode = |path: &Text<'_>| self.nodes.find(path).map(|id| self.nodes.get(id));
        let mut late = |kind, path: &Text<'_>| {
            if self.may_get_event(reader, znode(path)) {
                WatchedEvent { kind, path }.encode_frame(ZXID_OF_LATE_EVENTS, out);
            }
        };
        for path in &request.data {
            match znode(path) {
                None => late(EventType::NodeDeleted, path),
                Some(node) if node.stat().mzxid > since => late(EventType::NodeDataChanged, path),
                Some(_) => watches.add(TableKind::Data, path, reader.watcher)?,
            }
        }
        for path in &request.exist {
            match znode(path) {
                Some(_) => late(EventType::NodeCreated, path),
                None => watches.add(TableKind::Data, path, reader.watcher)?,
            }
        }
        for path in &request.child {
            match znode(path) {
                None => late(EventType::NodeDeleted, path),
                Some(node) if node.stat().pzxid > since => {
                    late(EventType::NodeChildrenChanged, path);
                }
                Some(_) => watches.add(TableKind::Child, path, reader.watcher)?,
            }
        }
        for path in &request.persistent {
            watches.add_persistent(path, reader.watcher, WatchMode::Persistent)?;
        }
        for path in &request.persistent_recursive {
            watches.add_persistent(path, reader.watcher, WatchMode::PersistentRecursive)?;
        }
        Ok(())
    }

    /// Events found late are filtered by the znode's ACL like all other events; Apache does not do that
    /// here. A missing znode has no ACL to check.
    fn may_get_event(&self, reader: ReadContext<'_>, node: Option<Znode<'_>>) -> bool {
        node.is_none_or(|node| {
            self.check_acl(self.acls.get(node.acl()), Perms::READ, reader.ids).is_ok()
        })
    }
}

fn found(found: bool) -> Reply {
    if found { Ok(()) } else { Err(ErrorCode::NoWatcher) }
}

/// `digest:user:hash` without the hash.
fn masked(entry: &Acl) -> Acl {
    let mut masked = entry.clone();
    if masked.id.scheme == DIGEST
        && let Some((user, _)) = entry.id.id.split_once(':')
    {
        masked.id.id = format!("{user}:x");
    }
    masked
}
