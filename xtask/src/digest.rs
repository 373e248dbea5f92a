//! The digest of a tree, computed from what clients can see. Independent of `crates/tree`.

use crate::listing::{Node, Nodes};

/// The digest, version 2: the sum of the nodes' digests, without the service's inner nodes. Container and
/// TTL nodes hide a stored field from clients, so the tree must have none.
pub fn of(nodes: &Nodes) -> i64 {
    let counted = nodes.iter().filter(|(path, _)| !path.starts_with("/zookeeper/"));
    counted.map(|(path, node)| of_node(path, node)).fold(0, i64::wrapping_add)
}

fn of_node(path: &str, node: &Node) -> i64 {
    let stat = &node.stat;
    let [czxid, mzxid, ctime, mtime] = stat.head;
    let [version, seen_cversion, aversion] = stat.versions;
    // Clients see the number of creates and deletes; only creates are stored.
    let cversion = (seen_cversion + stat.sizes[1]) / 2;
    let mut bytes = Vec::new();
    bytes.extend(if path == "/" { "" } else { path }.as_bytes());
    bytes.extend(node.data.as_deref().unwrap_or_default());
    for number in [czxid, mzxid, stat.pzxid, ctime, mtime] {
        bytes.extend(number.to_be_bytes());
    }
    for number in [version, cversion, aversion] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(stat.owner.to_be_bytes());
    i64::from(crc32(&bytes))
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            let low = crc & 1;
            crc = (crc >> 1) ^ (0xEDB8_8320 * low);
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }
}
