//! Watch events, server to client.

use crate::ids::{Xid, Zxid};
use crate::jute::{DecodeError, JuteReader, JuteWrite, Result};
use crate::reply::{self, ReplyHeader};

/// The type of a change of a watched znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum EventType {
    /// It was created.
    NodeCreated = 1,
    /// It was deleted.
    NodeDeleted = 2,
    /// Its data was replaced.
    NodeDataChanged = 3,
    /// A child was created or deleted.
    NodeChildrenChanged = 4,
}

impl EventType {
    fn from_code(value: i32) -> Result<Self> {
        match value {
            1 => Ok(EventType::NodeCreated),
            2 => Ok(EventType::NodeDeleted),
            3 => Ok(EventType::NodeDataChanged),
            4 => Ok(EventType::NodeChildrenChanged),
            _ => Err(DecodeError::Undefined { what: "event type", value }),
        }
    }
}

/// A server's events always carry this connection state.
const SYNC_CONNECTED: i32 = 3;

/// An event about one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedEvent<'a> {
    /// The type of the change.
    pub kind: EventType,
    /// The path, as the watcher named it.
    pub path: &'a str,
}

impl<'a> WatchedEvent<'a> {
    /// Appends the whole notification frame. `zxid` is the change's own since 3.9; events found
    /// while watches are registered again carry -1.
    pub fn encode_frame(&self, zxid: Zxid, out: &mut Vec<u8>) {
        reply::frame(out, |out| {
            ReplyHeader { xid: Xid::NOTIFICATION, zxid, error: None }.encode(out);
            out.put_int(self.kind as i32);
            out.put_int(SYNC_CONNECTED);
            out.put_string(self.path);
        });
    }

    /// Reads the body of a notification.
    pub fn decode(reader: &mut JuteReader<'a>) -> Result<(EventType, String)> {
        let kind = EventType::from_code(reader.int()?)?;
        reader.int()?;
        Ok((kind, reader.required_string()?.into_owned()))
    }
}

/// Zxid of events that are found while watches are registered again.
pub const ZXID_OF_LATE_EVENTS: Zxid = Zxid(-1);
