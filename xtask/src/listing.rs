//! The content of a server: every node as clients see it, and the same as text with one line per node, so
//! that two servers are compared with `==` and shown with a diff.
//!
//! A line has, separated by tabs: path; data in base64 (`-` absent, `=` empty); the Stat as clients
//! see it (czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeralOwner, dataLength,
//! numChildren, pzxid); the ACL as `perms:scheme:id` joined by commas. Lines are sorted by path.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::server::SUPER_AUTH;
use crate::wire::{self, Acl, Decoder, Op, Reply, Session, Stat};

/// Path to line.
pub type Listing = BTreeMap<String, String>;
/// Path to node.
pub type Nodes = BTreeMap<String, Node>;

/// How many requests are sent before the first reply is read.
const ASKED_AT_ONCE: usize = 64;

/// One node as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The data, if it has any.
    pub data: Option<Vec<u8>>,
    /// The Stat.
    pub stat: Stat,
    /// The ACL.
    pub acl: Vec<Acl>,
}

/// Reads every node of a server as lines, as the super user.
pub fn read_all(address: &str) -> Result<Listing> {
    Ok(lines(&read_nodes(address)?))
}

/// Reads every node of a server, as the super user; in an ensemble, after the server has applied everything
/// that was committed when this began.
pub fn read_nodes(address: &str) -> Result<Nodes> {
    let mut session = Session::connect(address, 30_000)?;
    session.add_auth("digest", SUPER_AUTH)?;
    session.sync()?;
    let mut nodes = Nodes::new();
    let mut waiting = vec!["/".to_string()];
    while !waiting.is_empty() {
        let asked = waiting.split_off(waiting.len().saturating_sub(ASKED_AT_ONCE));
        for path in &asked {
            session.send(&Op::get_data(path))?;
            session.send(&Op::get_acl(path))?;
            session.send(&Op::get_children(path))?;
        }
        for path in asked {
            let (data, stat) = wire::decode_data(&good(session.receive()?, &path)?)?;
            let acl = good(session.receive()?, &path)?;
            let acl = wire::decode_acl(&mut Decoder::new(&acl.body))?;
            let below = if path == "/" { "" } else { &path };
            let children = wire::decode_children(&good(session.receive()?, &path)?)?;
            waiting.extend(children.iter().map(|name| format!("{below}/{name}")));
            nodes.insert(path, Node { data, stat, acl });
        }
    }
    session.close()?;
    Ok(nodes)
}

fn good(reply: Reply, path: &str) -> Result<Reply> {
    ensure!(reply.err == 0, "reading {path}: error code {}", reply.err);
    Ok(reply)
}

/// The nodes as text.
pub fn lines(nodes: &Nodes) -> Listing {
    nodes.iter().map(|(path, node)| (path.clone(), line(path, node))).collect()
}

fn line(path: &str, Node { data, stat, acl }: &Node) -> String {
    let mut fields = vec![path.to_string(), data_text(data.as_deref())];
    fields.extend(stat.head.map(|number| number.to_string()));
    fields.extend(stat.versions.map(|number| number.to_string()));
    fields.push(format!("{:#x}", stat.owner));
    fields.extend(stat.sizes.map(|number| number.to_string()));
    fields.push(stat.pzxid.to_string());
    fields.push(acl_text(acl));
    fields.join("\t")
}

/// Data in the form of a listing.
pub fn data_text(data: Option<&[u8]>) -> String {
    match data {
        None => "-".into(),
        Some([]) => "=".into(),
        Some(data) => STANDARD.encode(data),
    }
}

fn acl_text(acl: &[Acl]) -> String {
    let entry = |entry: &Acl| format!("{}:{}:{}", entry.perms, entry.scheme, entry.id);
    acl.iter().map(entry).collect::<Vec<_>>().join(",")
}

/// Fails with the differing lines, at most a screenful.
pub fn ensure_equal(what: &str, expected: &Listing, actual: &Listing) -> Result<()> {
    let differences = differences(expected, actual);
    let shown = differences.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    ensure!(differences.is_empty(), "{what}: {} lines differ\n{shown}", differences.len());
    Ok(())
}

fn differences(expected: &Listing, actual: &Listing) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, line) in expected {
        if actual.get(path) != Some(line) {
            lines.push(format!("- {line}"));
            lines.extend(actual.get(path).map(|line| format!("+ {line}")));
        }
    }
    let added = actual.iter().filter(|(path, _)| !expected.contains_key(*path));
    lines.extend(added.map(|(_, line)| format!("+ {line}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(lines: &[(&str, &str)]) -> Listing {
        lines.iter().map(|(path, line)| (path.to_string(), line.to_string())).collect()
    }

    #[test]
    fn differences_name_changed_missing_and_added_nodes() {
        let expected = listing(&[("/a", "a1"), ("/b", "b")]);
        let actual = listing(&[("/a", "a2"), ("/c", "c")]);
        assert_eq!(differences(&expected, &actual), ["- a1", "+ a2", "- b", "+ c"]);
        assert!(ensure_equal("same", &expected, &expected).is_ok());
        assert!(ensure_equal("other", &expected, &actual).is_err());
    }

    #[test]
    fn absent_and_empty_data_differ() {
        assert_eq!(data_text(None), "-");
        assert_eq!(data_text(Some(b"")), "=");
        assert_eq!(data_text(Some(b"x")), "eA==");
    }
}
