//! Znodes for classification: plain values, reduced to what it uses.

use bytes::Bytes;
use herdsman_proto::{SessionId, Zxid};
use herdsman_tree::VisibleZnode;
use herdsman_tree::owner::Owner;

/// Longer data is not read. A service instance with more data is not recognised.
const DATA_BYTES_MAX: usize = 4096;
/// The longest payload that is shown.
const PREVIEW_BYTES_MAX: usize = 200;

/// A znode with those of its children that may be read.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// Its path.
    pub path: String,
    /// Its data, if that is short.
    pub data: Bytes,
    /// When it was created, in milliseconds since 1970.
    pub since_ms: i64,
    /// Its children.
    pub children: Vec<Child>,
}

/// A child of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Child {
    /// Its name.
    pub name: String,
    /// The session that owns it, if it is ephemeral.
    pub session: Option<SessionId>,
    /// When it was created, in milliseconds since 1970.
    pub since_ms: i64,
    /// The txn that created it.
    pub czxid: Zxid,
    /// Its data, or the beginning of it. For persistent znodes, only data that may be meaningful.
    pub data: Bytes,
    /// The number of its children.
    pub children: i32,
}

impl Directory {
    /// Reads it from the tree, without its children.
    pub fn read(path: &str, znode: VisibleZnode<'_>) -> Self {
        let data = znode.data().unwrap_or_default();
        Directory {
            path: path.to_owned(),
            data: Bytes::copy_from_slice(if data.len() <= DATA_BYTES_MAX { data } else { &[] }),
            since_ms: znode.stat().ctime,
            children: Vec::new(),
        }
    }

    /// The last component of its path.
    pub fn name(&self) -> &str {
        last_name(&self.path)
    }

    /// The path of a child.
    pub fn child_path(&self, name: &str) -> String {
        format!("{}/{name}", self.path.trim_end_matches('/'))
    }
}

impl Child {
    /// Reads it from the tree.
    pub fn read(znode: VisibleZnode<'_>) -> Self {
        let stat = znode.stat();
        let session = match znode.owner() {
            Owner::Session(session) => Some(session),
            _ => None,
        };
        let data = znode.data().unwrap_or_default();
        // Items of queues can be large and many, and only their names matter.
        let may_matter =
            session.is_some() || data.first() == Some(&b'{') || (1..24).contains(&data.len());
        let kept = if may_matter { &data[..data.len().min(DATA_BYTES_MAX)] } else { &[] };
        Child {
            name: znode.name().to_owned(),
            session,
            since_ms: stat.ctime,
            czxid: stat.czxid,
            data: Bytes::copy_from_slice(kept),
            children: stat.num_children,
        }
    }
}

/// The last component of a path.
pub fn last_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// The path without its last component.
pub fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The beginning of the data as text that is safe to show: without control characters, and with bytes that are not
/// text escaped.
pub fn preview(data: &[u8]) -> Option<String> {
    if data.is_empty() {
        return None;
    }
    let head = &data[..data.len().min(PREVIEW_BYTES_MAX)];
    let text = match std::str::from_utf8(head) {
        Ok(text) => text.to_owned(),
        // Cut in the middle of a character.
        Err(error) if error.error_len().is_none() => {
            String::from_utf8_lossy(&head[..error.valid_up_to()]).into_owned()
        }
        Err(_) => head.escape_ascii().to_string(),
    };
    let is_hidden = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    let mut shown: String =
        text.chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect();
    let mut end = PREVIEW_BYTES_MAX.min(shown.len());
    while !shown.is_char_boundary(end) {
        end -= 1;
    }
    if end < shown.len() || head.len() < data.len() {
        shown.truncate(end);
        shown.push('…');
    }
    Some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previews_are_short_and_safe() {
        let check = |data: &[u8], expected: Option<&str>| {
            assert_eq!(preview(data).as_deref(), expected);
        };
        check(b"", None);
        check(b"host-1/42", Some("host-1/42"));
        check("Zürich\n".as_bytes(), Some("Zürich\n"));
        check(b"a\x1b[31mb", Some("a\u{fffd}[31mb"));
        check(&[0xff, b'a', 0], Some("\\xffa\\x00"));
        let long = preview("ä".repeat(500).as_bytes()).unwrap();
        assert_eq!(long, "ä".repeat(100) + "…");
        let odd = preview(format!("x{}", "ä".repeat(500)).as_bytes()).unwrap();
        assert_eq!(odd, format!("x{}…", "ä".repeat(99)));
        let bytes = preview(&[0xff; 500]).unwrap();
        assert!(bytes.len() <= PREVIEW_BYTES_MAX + '…'.len_utf8() && bytes.ends_with('…'));
    }

    #[test]
    fn paths_are_taken_apart() {
        assert_eq!((last_name("/a/b"), parent("/a/b")), ("b", "/a"));
        assert_eq!((last_name("/a"), parent("/a")), ("a", ""));
        let root = Directory { path: "/".to_owned(), ..Directory::default() };
        assert_eq!((root.name(), root.child_path("x")), ("", "/x".to_owned()));
    }
}
