//! The number of members, as it is stored in the barrier's own node.
//!
//! In: the data of the node. Out: whether it agrees with this member's size, or the size for members that were given
//! none. Curator and kazoo store no size, leave the data empty and never read it, so their members and ours can meet
//! at one path; members with a size then notice when they disagree.

use bytes::Bytes;
use herdsman_client::{Client, ErrorKind, Lifetime, Node};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::retrying::is_overtaken;
use crate::until_known::unless;

/// The number of members of a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(u32);

impl Size {
    pub(crate) fn new(size: u32) -> Result<Self> {
        match size {
            0 => Err(Error::invalid("a barrier needs at least one member")),
            _ => Ok(Size(size)),
        }
    }

    pub(crate) fn is_reached_by(self, members: usize) -> bool {
        members >= self.0 as usize
    }

    /// Encodes it as decimal text, as the node stores it.
    pub(crate) fn encode(self) -> Bytes {
        self.0.to_string().into()
    }

    /// Decodes it. `None` if the data is not a size: the node was created by another implementation.
    pub(crate) fn decode(data: &[u8]) -> Option<Self> {
        std::str::from_utf8(data).ok()?.parse().ok().map(Size)
    }

    pub(crate) fn members(self) -> u32 {
        self.0
    }

    /// Returns the size in the node, for a member that relies on it; `None` if the data is empty.
    pub(crate) fn of_node(path: &str, node: &Node) -> Result<Option<Self>> {
        match Size::decode(&node.data) {
            Some(size @ Size(1..)) => Ok(Some(size)),
            _ if node.data.is_empty() => Ok(None),
            _ => Err(Error::Codec {
                path: path.to_owned(),
                reason: format!("\"{}\" is not a number of members", node.data.escape_ascii()),
            }),
        }
    }

    /// Reads the node and returns its size; `None` also if there is no node.
    pub(crate) async fn read(client: &Client, path: &str) -> Result<Option<Self>> {
        match client.get(path).await {
            Err(error) if error.is_no_node() => Ok(None),
            read => Size::of_node(path, &read?),
        }
    }

    /// Waits until the node exists and has a size.
    pub(crate) async fn wait_for(client: &Client, path: &str) -> Result<()> {
        while Size::read(client, path).await?.is_none() {
            let (_, on_change) = client.exists(path).watch().await?;
            // It may have been written before the watch was set.
            if Size::read(client, path).await?.is_some() {
                break;
            }
            on_change.await?;
        }
        Ok(())
    }

    /// Fails if the members so far expect another number.
    pub(crate) fn check(self, path: &str, node: &Node) -> Result<()> {
        match Size::decode(&node.data) {
            Some(other) if other != self => Err(Error::invalid(format!(
                "the barrier {path} is for {} members, not for {}",
                other.0, self.0
            ))),
            _ => Ok(()),
        }
    }

    /// Makes sure that the node exists and that its size, if it has one, is ours. While no member is inside, the size
    /// is from an earlier use, and is replaced.
    pub(crate) async fn settle(self, client: &Client, path: &str) -> Result<()> {
        loop {
            let node = match client.get(path).await {
                Err(error) if error.is_no_node() => {
                    self.create_node(client, path).await?;
                    continue;
                }
                read => read?,
            };
            let kept = Size::decode(&node.data);
            let is_free =
                node.data.is_empty() || (kept.is_some() && is_empty(client, path).await?);
            if kept == Some(self) || !is_free {
                return self.check(path, &node);
            }
            match client.set(path, self.encode()).version(node.stat.version).await {
                Ok(_) => return Ok(()),
                // Another client was faster, the empty container was just removed, or the reply was lost: read again.
                Err(error) if is_overtaken(&error) || error.is_retriable() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn create_node(self, client: &Client, path: &str) -> Result<()> {
        let create = client.create(path, self.encode()).lifetime(Lifetime::Container);
        match unless(create.container_parents().await.map(drop), &ErrorKind::NodeExists) {
            Err(error) if error.is_retriable() => Ok(()),
            other => Ok(other?),
        }
    }
}

/// Returns whether a child of a double barrier's node is a member. Members are named by a UUID, with dashes (Curator,
/// ours) or without (kazoo).
#[must_use]
pub fn is_member(name: &str) -> bool {
    Uuid::try_parse(name).is_ok()
}

/// Returns the members among the children, in the order of their names; other children do not count.
pub(crate) fn members(names: Vec<String>) -> Vec<String> {
    let mut members: Vec<_> = names.into_iter().filter(|name| is_member(name)).collect();
    members.sort_unstable();
    members
}

async fn is_empty(client: &Client, path: &str) -> Result<bool> {
    match client.children(path).await {
        Err(error) if error.is_no_node() => Ok(true),
        children => Ok(members(children?.names).is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_other_programs_is_not_a_size() {
        assert_eq!(Size::decode(b""), None);
        assert_eq!(Size::decode(b"10.0.0.5"), None);
        assert_eq!(Size::decode(b"-3"), None);
        assert_eq!(Size::decode(&[0xff]), None);
        assert_eq!(Size::decode(&Size(12).encode()), Some(Size(12)));
    }

    #[test]
    fn members_are_named_by_a_uuid() {
        let curator = "53345f98-9423-4e0c-a7b5-9f819e3ec2e1";
        let kazoo = "1fcc1adf1e4b4dbb9a3ad36b0d4a6fd1";
        let names = [curator, "ready", kazoo, "README"].map(str::to_owned).to_vec();
        assert_eq!(members(names), [kazoo, curator]);
    }

    #[test]
    fn a_size_of_zero_is_refused() {
        assert!(matches!(Size::new(0), Err(Error::InvalidArgument(_))));
        let size = Size::new(2).unwrap();
        assert!(!size.is_reached_by(1) && size.is_reached_by(2) && size.is_reached_by(3));
    }
}
