//! What a server that repairs itself logs: the damage, the repair, and the txns that it waits for.

/// What a waiting server says of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It has not answered.
    NotAnswered,
    /// The txn is damaged there, too.
    Damaged,
    /// It does not have the txn, or another one.
    Other,
}

/// Txns that a server waits for.
#[derive(Debug, PartialEq, Eq)]
struct Missing {
    first: i64,
    last: i64,
    /// What was found at each other server.
    peers: Vec<(usize, Finding)>,
}

/// What a server waits for, according to its last message about that.
#[derive(Debug, PartialEq, Eq)]
pub struct Waiting(Vec<Missing>);

/// Whether the server has found damage that it cannot repair by itself.
pub fn found_damage(log: &str) -> bool {
    damages_found(log) > 0
}

/// How often the server has found such damage.
pub fn damages_found(log: &str) -> usize {
    log.matches("the files of this server are damaged").count()
}

/// How many records the server has put into its log, in all repairs.
pub fn records_spliced(log: &str) -> usize {
    let count = |line: &str| {
        let rest = line.split_once("put ")?.1;
        let (count, rest) = rest.split_once(' ')?;
        rest.starts_with("records into the log").then(|| count.parse::<usize>().ok())?
    };
    log.lines().filter_map(count).sum()
}

/// Whether the server has joined a leader without a vote, to take everything from it.
pub fn joined_without_vote(log: &str) -> bool {
    joins(log) > 0
}

/// How often the server has done that.
pub fn joins(log: &str) -> usize {
    log.matches("joining that leader without a vote").count()
}

/// How often the server has used an older snapshot, because the newest one was damaged.
pub fn older_snapshots_used(log: &str) -> usize {
    log.matches("from an older snapshot").count()
}

impl Waiting {
    /// Reads the last message of this kind, if there is one.
    pub fn last(log: &str) -> Option<Waiting> {
        log.lines().rev().find_map(Waiting::parse)
    }

    fn parse(line: &str) -> Option<Waiting> {
        let (_, rest) = line.split_once("waiting (")?;
        let (_, rest) = rest.split_once(" s so far) for ")?;
        let (txns, _) = rest.split_once(". server ")?;
        txns.split("; ").map(Missing::parse).collect::<Option<_>>().map(Waiting)
    }

    /// Whether the server waits for this txn.
    pub fn is_for(&self, zxid: i64) -> bool {
        self.about(zxid).is_some()
    }

    /// What it has found of this txn at another server; `None` if it does not name that one.
    pub fn found_at(&self, zxid: i64, peer: usize) -> Option<Finding> {
        let named = self.about(zxid)?.peers.iter().find(|(id, _)| *id == peer);
        named.map(|(_, finding)| *finding)
    }

    fn about(&self, zxid: i64) -> Option<&Missing> {
        self.0.iter().find(|it| (it.first..=it.last).contains(&zxid))
    }
}

impl Missing {
    fn parse(text: &str) -> Option<Missing> {
        let (txns, peers) = text.split_once(": damaged here")?;
        let (first, last) = range(txns)?;
        let peers = peers.split(", ").filter(|peer| !peer.is_empty()).map(|peer| {
            let (what, id) = peer.rsplit_once(' ')?;
            let finding = match what {
                "not answered by" => Finding::NotAnswered,
                "damaged on" => Finding::Damaged,
                "missing on" | "different on" => Finding::Other,
                _ => return None,
            };
            Some((id.parse().ok()?, finding))
        });
        Some(Missing { first, last, peers: peers.collect::<Option<_>>()? })
    }
}

/// The first and the last txn of `txn A`, `txns A to B`, `all txns between A and B` or `all txns after A`.
fn range(text: &str) -> Option<(i64, i64)> {
    let zxid = |text: &str| i64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    if let Some(one) = text.strip_prefix("txn ") {
        return zxid(one).map(|it| (it, it));
    }
    if let Some((first, last)) = text.strip_prefix("txns ").and_then(|it| it.split_once(" to ")) {
        return Some((zxid(first)?, zxid(last)?));
    }
    if let Some(after) = text.strip_prefix("all txns after ") {
        return Some((zxid(after)? + 1, i64::MAX));
    }
    let (after, before) = text.strip_prefix("all txns between ")?.split_once(" and ")?;
    Some((zxid(after)? + 1, zxid(before)? - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "WARN waiting (20 s so far) for txn 0x100000001: damaged here, damaged on 2, not answered by 3; \
        txns 0x100000003 to 0x100000005: damaged here, missing on 2, damaged on 3. server 2: repairing itself; \
        server 3: not reachable (connection refused)";

    #[test]
    fn the_txns_and_servers_of_a_message_are_read() {
        let waiting = Waiting::last(&format!("a\n{LINE}\nb\n")).unwrap();
        assert_eq!(waiting.found_at(0x1_0000_0001, 2), Some(Finding::Damaged));
        assert_eq!(waiting.found_at(0x1_0000_0001, 3), Some(Finding::NotAnswered));
        assert_eq!(waiting.found_at(0x1_0000_0001, 1), None);
        assert!(!waiting.is_for(0x1_0000_0002) && waiting.is_for(0x1_0000_0004));
        assert_eq!(waiting.found_at(0x1_0000_0005, 2), Some(Finding::Other));
        assert_eq!(range("all txns between 0x3 and 0x5"), Some((4, 4)));
        assert_eq!(range("all txns after 0x3"), Some((4, i64::MAX)));
        assert_eq!(Waiting::last("waiting (1 s so far) for a leader with a quorum: …"), None);
    }

    #[test]
    fn repairs_are_counted() {
        let log =
            "INFO put 3 records into the log: log.1\nINFO put 1 records into the log: log.2\n";
        assert_eq!(records_spliced(log), 4);
        assert_eq!(records_spliced("the input 3 records"), 0);
    }
}
