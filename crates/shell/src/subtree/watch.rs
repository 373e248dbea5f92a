//! Follows the changes of a subtree.
//!
//! In: a client and a path. Out: each change as it happens, with the znode's data if requested. After a
//! lost connection, or if changes arrive faster than they are read, a gap is reported: changes may have
//! been missed.

use herdsman_client::{Client, ErrorKind, EventType, Node, PersistentWatch, WatchUpdate, Zxid};
use serde_json::{Map, Value, json};

use super::error::Result;
use super::human;
use super::record::as_text;
use crate::format::{Encoding, data_json, printable};

/// Longest text of a znode's data on a line.
const SHOWN_CHARS_MAX: usize = 200;

/// The scope of the watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// The znode and everything below it.
    #[default]
    Recursive,
    /// The znode's data and its list of children.
    Alone,
}

/// Whether the data is read after a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithData {
    /// It is not.
    #[default]
    No,
    /// It is; it may be newer than the change.
    Yes,
}

/// A change of the subtree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When the event arrived, in milliseconds since 1970.
    pub time_ms: i64,
    /// What happened.
    pub kind: ChangeKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Changes may have been missed.
    Gap,
    /// A znode changed.
    Znode {
        /// How.
        event: EventType,
        /// Its path.
        path: String,
        /// The zxid of the change, if the server sends it.
        zxid: Option<Zxid>,
        /// The znode after the change, if it was requested and still exists.
        node: Option<Node>,
    },
}

/// The changes of a subtree.
pub struct SubtreeChanges {
    client: Client,
    watch: PersistentWatch,
    with_data: WithData,
}

impl SubtreeChanges {
    /// Sets the watch. Every change after this returns is reported.
    pub async fn start(
        client: &Client,
        path: &str,
        reach: Reach,
        with_data: WithData,
    ) -> Result<Self> {
        let call = client.watch(path);
        let watch = match reach {
            Reach::Recursive => call.recursive().await?,
            Reach::Alone => call.await?,
        };
        Ok(SubtreeChanges { client: client.clone(), watch, with_data })
    }

    /// Waits for the next change; `None` if the client was closed.
    pub async fn next(&mut self) -> Result<Option<Change>> {
        loop {
            let Some(update) = self.watch.next().await else {
                return Ok(None);
            };
            let time_ms = human::now_ms();
            let kind = match update {
                WatchUpdate::Event(event) => {
                    let node = self.read(event.kind, &event.path).await?;
                    ChangeKind::Znode {
                        event: event.kind,
                        path: event.path,
                        zxid: event.zxid,
                        node,
                    }
                }
                WatchUpdate::Gap => ChangeKind::Gap,
                // Kinds that a newer client may report.
                _ => continue,
            };
            return Ok(Some(Change { time_ms, kind }));
        }
    }

    async fn read(&self, event: EventType, path: &str) -> Result<Option<Node>> {
        let has_data = matches!(event, EventType::NodeCreated | EventType::NodeDataChanged);
        if self.with_data == WithData::No || !has_data {
            return Ok(None);
        }
        match self.client.get(path).await {
            Ok(node) => Ok(Some(node)),
            Err(error) if matches!(error.kind(), ErrorKind::NoNode | ErrorKind::NoAuth) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The name of an event.
#[must_use]
pub fn event_name(event: EventType) -> &'static str {
    match event {
        EventType::NodeCreated => "created",
        EventType::NodeDeleted => "deleted",
        EventType::NodeDataChanged => "changed",
        EventType::NodeChildrenChanged => "children",
    }
}

impl Change {
    /// The change as a line of text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let time = human::time(self.time_ms);
        let (event, path, node) = match &self.kind {
            ChangeKind::Gap => {
                return format!("{time} gap: changes may have been missed; read again");
            }
            ChangeKind::Znode { event, path, node, .. } => (event, path, node),
        };
        let data = node.as_ref().map(|node| format!("  {}", preview(&node.data)));
        let path = printable(path);
        format!("{time} {:<8} {path}{}", event_name(*event), data.unwrap_or_default())
    }

    /// The change as a JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let time = human::time(self.time_ms);
        match &self.kind {
            ChangeKind::Gap => json!({"time": time, "event": "gap"}),
            ChangeKind::Znode { event, path, zxid, node } => {
                let mut object = Map::new();
                object.insert("time".to_owned(), time.into());
                object.insert("event".to_owned(), event_name(*event).into());
                object.insert("path".to_owned(), path.as_str().into());
                object.insert("zxid".to_owned(), zxid.map(|zxid| human::hex(zxid.0)).into());
                if let Some(node) = node {
                    object.insert("version".to_owned(), node.stat.version.into());
                    data_json(&mut object, &node.data, Encoding::Text);
                }
                Value::Object(object)
            }
        }
    }
}

/// The beginning of the data, on one line and safe to print; the size of data that is not text.
#[must_use]
pub fn preview(data: &[u8]) -> String {
    let Some(text) = as_text(data) else {
        return format!("({} of binary data)", human::count(data.len() as u64, "byte"));
    };
    let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    printable(&shown.replace('\n', "⏎")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: ChangeKind) -> Change {
        Change { time_ms: 0, kind }
    }

    #[test]
    fn changes_are_printed_on_one_line() {
        let node = Node { data: "a\nb\x7f".into(), stat: herdsman_client::Stat::default() };
        let created = change(ChangeKind::Znode {
            event: EventType::NodeCreated,
            path: "/a".to_owned(),
            zxid: Some(Zxid(0x1a)),
            node: Some(Node { data: "a\nb".into(), ..node }),
        });
        assert_eq!(created.to_text(), "1970-01-01T00:00:00.000Z created  /a  a⏎b");
        assert_eq!(
            created.to_json(),
            json!({
                "time": "1970-01-01T00:00:00.000Z", "event": "created", "path": "/a",
                "zxid": "0x1a", "version": 0, "data": "a\nb", "encoding": "utf8",
            })
        );
        let gap = change(ChangeKind::Gap);
        assert!(gap.to_text().ends_with("gap: changes may have been missed; read again"));
        assert_eq!(gap.to_json()["event"], "gap");
    }

    #[test]
    fn previews_are_short_and_safe() {
        assert_eq!(preview(b"\x1b[2J"), "(4 bytes of binary data)");
        assert_eq!(preview("é".repeat(300).as_bytes()).chars().count(), SHOWN_CHARS_MAX + 1);
    }
}
