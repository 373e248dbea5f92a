//! One znode, in as few bytes as possible: a server may hold millions.
//!
//! Its name and data are in [`Texts`], and what an ordinary leaf never has (children, an owner,
//! a changed ACL, large data) is separate, in [`Extra`]. The interface is a [`Znode`], its stat a
//! [`StatPersisted`] and its data a slice; no other module knows where the parts are stored.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use herdsman_proto::txn::Data;
use herdsman_proto::{StatPersisted, Zxid};

use super::NodeId;
use super::texts::{RowId, Texts};
use crate::acls::AclSlot;
use crate::digest::{digest_after, text_crc, znode_digest};

/// Data of this size or more is shared with the txn that set it: a copy would cost more time
/// than it saves bytes, and readers can keep a reference at no cost.
const SHARED_BYTES_MIN: usize = 4096;

/// A reference to a znode.
#[derive(Clone, Copy, Debug)]
pub struct Znode<'a> {
    pub(super) slot: &'a Slot,
    pub(super) texts: &'a Texts,
}

impl<'a> Znode<'a> {
    /// The last component of its path; empty for the root.
    #[must_use]
    pub fn name(self) -> &'a str {
        str::from_utf8(self.name_bytes()).expect("a name was text when it came in")
    }

    /// The bytes of its name, without a UTF-8 check.
    #[must_use]
    #[inline]
    pub fn name_bytes(self) -> &'a [u8] {
        self.text(0..self.slot.name.bytes())
    }

    /// The length of its name. Cheaper than reading the name, which is stored elsewhere.
    #[must_use]
    pub fn name_len(self) -> usize {
        self.slot.name_bytes()
    }

    /// Its children, in no particular order.
    #[must_use]
    pub fn children(self) -> &'a [NodeId] {
        self.slot.children()
    }

    /// The totals of what is below it.
    #[must_use]
    pub fn below(self) -> Totals {
        self.slot.below().map_or(Totals::default(), |below| below.totals)
    }

    /// Its data.
    #[must_use]
    pub fn data(self) -> Option<&'a [u8]> {
        if !self.slot.name.has_data() {
            return None;
        }
        match self.slot.shared_data() {
            Some(shared) => Some(&shared.bytes),
            None => Some(self.text(self.slot.name.bytes()..self.slot.text_bytes())),
        }
    }

    /// Bytes of data.
    #[must_use]
    pub fn data_len(self) -> usize {
        self.slot.shared_data().map_or(self.slot.data_bytes as usize, |shared| shared.bytes.len())
    }

    /// Its data as an owned value. Only small data is copied.
    #[must_use]
    pub fn to_data(self) -> Data {
        let shared = self.slot.shared_data().map(|shared| Arc::clone(&shared.bytes));
        shared.or_else(|| self.data().map(Arc::from))
    }

    /// Its stat, without the fields that are counted.
    #[must_use]
    #[inline]
    pub fn stat(self) -> StatPersisted {
        self.slot.stat()
    }

    /// The digest that it has at this path, which is its own, and with this stat. Large data is read only the first
    /// time.
    #[must_use]
    pub fn digest_with(self, path: &str, stat: &StatPersisted) -> u32 {
        match self.slot.shared_data() {
            Some(shared) => {
                let crc = shared.crc.get_or_init(|| text_crc(path, &shared.bytes));
                digest_after(*crc, path, stat)
            }
            None => znode_digest(path, self.data(), stat),
        }
    }

    /// Its ACL.
    #[must_use]
    pub fn acl(self) -> AclSlot {
        self.slot.acl
    }

    /// Its share of the tree digest.
    #[must_use]
    pub fn digest(self) -> u32 {
        self.slot.digest
    }

    #[inline]
    fn text(self, part: Range<usize>) -> &'a [u8] {
        self.texts.get(self.slot.place, self.slot.text_bytes(), part)
    }
}

/// New data for a znode.
#[derive(Clone, Copy, Debug)]
pub enum NewData<'a> {
    /// No data.
    None,
    /// Bytes that are copied.
    Bytes(&'a [u8]),
    /// Bytes that the tree may share.
    Shared(&'a Arc<[u8]>),
}

impl<'a> From<&'a Data> for NewData<'a> {
    fn from(data: &'a Data) -> Self {
        data.as_ref().map_or(NewData::None, NewData::Shared)
    }
}

impl<'a> From<Option<&'a [u8]>> for NewData<'a> {
    fn from(data: Option<&'a [u8]>) -> Self {
        data.map_or(NewData::None, NewData::Bytes)
    }
}

impl<'a> NewData<'a> {
    /// The bytes.
    #[must_use]
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            NewData::None => None,
            NewData::Bytes(bytes) => Some(bytes),
            NewData::Shared(shared) => Some(shared),
        }
    }

    fn shared(self) -> Option<Box<SharedData>> {
        let bytes = match self {
            NewData::Bytes(bytes) if bytes.len() >= SHARED_BYTES_MIN => Arc::from(bytes),
            NewData::Shared(shared) if shared.len() >= SHARED_BYTES_MIN => Arc::clone(shared),
            NewData::None | NewData::Bytes(_) | NewData::Shared(_) => return None,
        };
        Some(Box::new(SharedData { bytes, crc: OnceLock::new() }))
    }

    /// The data that is stored after the name: all of it or none.
    pub(super) fn unshared(self) -> &'a [u8] {
        self.bytes().filter(|bytes| bytes.len() < SHARED_BYTES_MIN).unwrap_or_default()
    }
}

/// The initial values of a znode.
#[derive(Clone, Copy, Debug)]
pub struct NewZnode<'a> {
    /// Its data.
    pub data: NewData<'a>,
    /// Its stat.
    pub stat: StatPersisted,
    /// Its ACL.
    pub acl: AclSlot,
    /// Its share of the tree digest.
    pub digest: u32,
}

/// A znode as stored in the arena.
#[derive(Debug)]
pub(super) struct Slot {
    /// The row of its text: the name, followed by the data, if it has any that is not shared.
    pub place: RowId,
    name: NameLen,
    data_bytes: u32,
    pub parent: NodeId,
    pub slot_in_parent: u32,
    pub acl: AclSlot,
    pub digest: u32,
    version: i32,
    czxid: Zxid,
    mzxid: Zxid,
    ctime: i64,
    mtime: i64,
    extra: Option<Box<Extra>>,
}

// Every field counts a million times. A free slot costs no more, because a place is never 0.
const _: () = assert!(size_of::<Option<Slot>>() == 72, "a slot of the arena has grown");

/// Numbers of znodes and bytes of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Znodes.
    pub znodes: u64,
    /// Bytes of their data.
    pub bytes: u64,
}

/// What only a znode with children has. The totals are kept up to date with every change below it, so that nobody needs
/// to visit all descendants to count them.
#[derive(Debug, Default)]
struct Below {
    children: Vec<NodeId>,
    totals: Totals,
}

/// Large data, and the CRC of its znode's path with it, once a digest has needed it.
#[derive(Debug)]
struct SharedData {
    bytes: Arc<[u8]>,
    crc: OnceLock<u32>,
}

/// The fields that most leaves do not have. Without it a znode has no children and no shared data, its pzxid is
/// its czxid, and all other numbers of this kind are 0.
#[derive(Debug, Default)]
struct Extra {
    below: Option<Box<Below>>,
    shared_data: Option<Box<SharedData>>,
    pzxid: Zxid,
    ephemeral_owner: i64,
    cversion: i32,
    aversion: i32,
}

/// Bytes of the name, and in the highest bit whether there is data: no data differs from empty data.
#[derive(Clone, Copy, Debug)]
struct NameLen(u32);

impl NameLen {
    const HAS_DATA: u32 = 1 << 31;

    fn new(name: &str) -> Self {
        let bytes = i32::try_from(name.len()).expect("lengths are 31 bits in all protocols");
        NameLen(bytes.cast_unsigned())
    }

    fn bytes(self) -> usize {
        (self.0 & !Self::HAS_DATA) as usize
    }

    fn has_data(self) -> bool {
        self.0 & Self::HAS_DATA != 0
    }

    fn set_has_data(&mut self, has_data: bool) {
        self.0 = if has_data { self.0 | Self::HAS_DATA } else { self.0 & !Self::HAS_DATA };
    }
}

impl Slot {
    /// Creates a znode with its text in this row, as the last child of its parent.
    pub(super) fn new(place: RowId, name: &str, parent: (NodeId, u32), new: &NewZnode<'_>) -> Self {
        let stat = &new.stat;
        let mut slot = Slot {
            place,
            name: NameLen::new(name),
            data_bytes: 0,
            parent: parent.0,
            slot_in_parent: parent.1,
            acl: new.acl,
            digest: new.digest,
            version: stat.version,
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            ctime: stat.ctime,
            mtime: stat.mtime,
            extra: None,
        };
        slot.set_extra_stat(stat);
        slot.set_data(new.data, place);
        slot
    }

    /// Bytes of its text.
    #[inline]
    pub(super) fn text_bytes(&self) -> usize {
        self.name.bytes() + self.data_bytes as usize
    }

    /// Bytes of its name.
    pub(super) fn name_bytes(&self) -> usize {
        self.name.bytes()
    }

    /// Replaces the data; its unshared part is in the text of this row now.
    pub(super) fn set_data(&mut self, data: NewData<'_>, place: RowId) {
        self.place = place;
        self.data_bytes = data.unshared().len() as u32;
        self.name.set_has_data(data.bytes().is_some());
        let shared = data.shared();
        if shared.is_some() || self.extra.is_some() {
            self.extra_mut().shared_data = shared;
        }
    }

    /// Its stat, without the fields that are counted.
    #[inline]
    pub(super) fn stat(&self) -> StatPersisted {
        let plain = StatPersisted {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            pzxid: self.czxid,
            ..StatPersisted::default()
        };
        match &self.extra {
            None => plain,
            Some(extra) => StatPersisted {
                cversion: extra.cversion,
                aversion: extra.aversion,
                ephemeral_owner: extra.ephemeral_owner,
                pzxid: extra.pzxid,
                ..plain
            },
        }
    }

    /// Changes its stat.
    #[inline]
    pub(super) fn change_stat(&mut self, change: impl FnOnce(&mut StatPersisted)) {
        let mut stat = self.stat();
        change(&mut stat);
        let StatPersisted { czxid, mzxid, ctime, mtime, version, .. } = stat;
        (self.czxid, self.mzxid) = (czxid, mzxid);
        (self.ctime, self.mtime) = (ctime, mtime);
        self.version = version;
        self.set_extra_stat(&stat);
    }

    pub(super) fn children(&self) -> &[NodeId] {
        self.below().map_or(&[], |below| &below.children)
    }

    fn below(&self) -> Option<&Below> {
        self.extra.as_ref()?.below.as_deref()
    }

    fn below_mut(&mut self) -> &mut Below {
        self.extra_mut().below.get_or_insert_default()
    }

    /// Adds to the totals of what is below it.
    pub(super) fn add_below(&mut self, added: Totals) {
        let totals = &mut self.below_mut().totals;
        totals.znodes += added.znodes;
        totals.bytes += added.bytes;
    }

    /// Subtracts from the totals of what is below it.
    pub(super) fn subtract_below(&mut self, removed: Totals) {
        let totals = &mut self.below_mut().totals;
        totals.znodes -= removed.znodes;
        totals.bytes -= removed.bytes;
    }

    /// Adds a child at the end of the list.
    pub(super) fn push_child(&mut self, child: NodeId) {
        self.below_mut().children.push(child);
    }

    /// Removes the child at this index. Returns the child that is there now, if any.
    pub(super) fn remove_child(&mut self, slot: u32) -> Option<NodeId> {
        let extra = self.extra_mut();
        let children = &mut extra.below.get_or_insert_default().children;
        children.swap_remove(slot as usize);
        if children.is_empty() {
            extra.below = None;
            return None;
        }
        // A list that was long frees its space. It is halved, so that it is seldom moved.
        if children.len() <= children.capacity() / 4 {
            children.shrink_to(children.len() * 2);
        }
        children.get(slot as usize).copied()
    }

    fn shared_data(&self) -> Option<&SharedData> {
        self.extra.as_ref()?.shared_data.as_deref()
    }

    #[inline]
    fn set_extra_stat(&mut self, stat: &StatPersisted) {
        let is_plain = stat.pzxid == stat.czxid
            && (stat.cversion, stat.aversion, stat.ephemeral_owner) == (0, 0, 0);
        if is_plain && self.extra.is_none() {
            return;
        }
        let extra = self.extra_mut();
        extra.pzxid = stat.pzxid;
        extra.ephemeral_owner = stat.ephemeral_owner;
        extra.cversion = stat.cversion;
        extra.aversion = stat.aversion;
    }

    fn extra_mut(&mut self) -> &mut Extra {
        let pzxid = self.czxid;
        self.extra.get_or_insert_with(|| Box::new(Extra { pzxid, ..Extra::default() }))
    }
}
