//! Znodes as classification sees them: plain values, cut to what it can make use of.

use bytes::Bytes;
use herdsman_proto::{SessionId, Zxid};
use herdsman_tree::VisibleZnode;
use herdsman_tree::owner::Owner;

/// Data beyond this is not looked at. A service that says more of itself is not recognised.
const DATA_BYTES_MAX: usize = 4096;
/// A text of a payload is cut here.
const PREVIEW_BYTES_MAX: usize = 200;

/// A znode with those of its children that may be read.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// Where it is.
    pub path: String,
    /// Its data, if that is short.
    pub data: Bytes,
    /// Since when it is there.
    pub since_ms: i64,
    /// Its children.
    pub children: Vec<Child>,
}

/// A child of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Child {
    /// Its name.
    pub name: String,
    /// The session with which it goes.
    pub session: Option<SessionId>,
    /// When it was made, in milliseconds since 1970.
    pub since_ms: i64,
    /// The txn that made it.
    pub czxid: Zxid,
    /// Its data, or the beginning of it. Of znodes that stay, only what may mean something.
    pub data: Bytes,
    /// How many children it has.
    pub children: i32,
}

impl Directory {
    /// From the tree; its children come later.
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
    /// From the tree.
    pub fn read(znode: VisibleZnode<'_>) -> Self {
        let stat = znode.stat();
        let session = match znode.owner() {
            Owner::Session(session) => Some(session),
            _ => None,
        };
        let data = znode.data().unwrap_or_default();
        // Items of queues can be large and many, and only their names are of interest.
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

/// The beginning of some data as text that is safe to show: no control characters, and what is not
/// text is spelled out.
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
