//! The checks of an ensemble after faults, when all servers are connected again.
//!
//! In: the ensemble, all servers serving, and a check of its nodes. Checked while it runs: every server has
//! the same nodes, they pass that check, no ephemeral node is left, no server counts a digest mismatch, and
//! the digests of their own trees agree. Then the servers are stopped, and the digests in their logs and
//! the errors in Apache's logs are checked.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::digest;
use crate::ensemble::{Ensemble, Member};
use crate::listing::{self, Nodes};
use crate::server::Program;
use crate::server_log;
use crate::txnlog;
use crate::wire::{Op, Session};

/// The longest session timeout that a load requests, plus a margin.
const EPHEMERALS_GONE_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(200);
/// Servers keep their digest at every zxid that is a multiple of this.
const REMEMBERED_EVERY: i64 = 128;
/// Contains the membership. Each server writes it at its own start, so the order of its lines and the
/// timestamps differ.
pub const CONFIG_NODE: &str = "/zookeeper/config";

/// The severity of the faults, which determines what Apache's log may report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Servers were restarted one at a time, and no learner got a snapshot during writes: Apache's log may
    /// have no error at all.
    OneAtATime,
    /// The same under load. A leader that was stopped may have logged txns that no other server has, and
    /// Apache sends a snapshot to such a learner during writes: it reports different digests until the
    /// learner has caught up.
    UnderLoad,
    /// Any fault may have happened at any time. Apache then reports different digests until a learner has
    /// caught up with a snapshot, and leaders that their followers refuse.
    Faults,
}

/// Fails at the first violation, including `check` of the nodes. Stops the servers.
pub fn judge(
    ensemble: &mut Ensemble,
    severity: Severity,
    check: impl FnOnce(&Nodes) -> Result<()>,
) -> Result<()> {
    ensemble.await_serving()?;
    await_no_ephemerals(ensemble)?;
    let remembered = pass_a_remembered_zxid(ensemble)?;
    let nodes = equal_nodes(ensemble)?;
    check(&nodes)?;
    equal_hashes(ensemble, remembered)?;
    for member in without_excuse(ensemble, severity)? {
        no_mismatch_counted(member).with_context(|| member.to_string())?;
    }
    ensemble.stop_all()?;
    equal_log_digests(ensemble, digest::of(&nodes))?;
    ensemble.ids().try_for_each(|id| quiet_log(ensemble.member(id), severity))
}

/// The servers that must not have found any digest mismatch.
fn without_excuse(ensemble: &Ensemble, severity: Severity) -> Result<Vec<&Member>> {
    let mut judged = Vec::new();
    for member in ensemble.ids().map(|id| ensemble.member(id)) {
        let excused = severity != Severity::OneAtATime
            && member.program() == Program::Apache
            && !server_log::mismatches(&member.log()?).is_empty();
        if !excused {
            judged.push(member);
        }
    }
    Ok(judged)
}

/// Sessions that could not be closed must expire first.
fn await_no_ephemerals(ensemble: &Ensemble) -> Result<()> {
    let deadline = Instant::now() + EPHEMERALS_GONE_MAX;
    let address = ensemble.member(1).address();
    loop {
        let left = ephemerals(&listing::read_nodes(address)?);
        if left.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "ephemeral nodes outlive their sessions: {left:?}");
        std::thread::sleep(POLL);
    }
}

fn ephemerals(nodes: &Nodes) -> Vec<String> {
    let owned = nodes.iter().filter(|(_, node)| node.stat.owner != 0);
    owned.map(|(path, node)| format!("{path} of {:#x}", node.stat.owner)).collect()
}

/// The nodes of all servers, which must be equal.
pub fn equal_nodes(ensemble: &Ensemble) -> Result<Nodes> {
    let mut first: Option<Nodes> = None;
    for id in ensemble.ids() {
        let member = ensemble.member(id);
        let nodes = listing::read_nodes(member.address()).with_context(|| member.to_string())?;
        let nodes = with_common_config(nodes);
        match &first {
            None => first = Some(nodes),
            Some(first) => listing::ensure_equal(
                &format!("{} (-) and {member} (+)", ensemble.member(1)),
                &listing::lines(first),
                &listing::lines(&nodes),
            )?,
        }
    }
    first.context("an ensemble without servers")
}

fn with_common_config(mut nodes: Nodes) -> Nodes {
    if let Some(node) = nodes.get_mut(CONFIG_NODE) {
        let text = String::from_utf8_lossy(node.data.as_deref().unwrap_or_default()).into_owned();
        let mut lines: Vec<_> = text.lines().collect();
        lines.sort_unstable();
        node.data = Some(lines.join("\n").into_bytes());
        let [.., mtime] = &mut node.stat.head;
        *mtime = 0;
    }
    nodes
}

fn no_mismatch_counted(member: &Member) -> Result<()> {
    let mntr = member.word("mntr")?;
    let count = mntr.lines().find_map(|line| line.strip_prefix("zk_digest_mismatches_count\t"));
    ensure!(count == Some("0"), "it counts {count:?} digest mismatches");
    Ok(())
}

/// Makes enough writes that every server keeps the digest of its own tree at some zxid; returns that zxid.
fn pass_a_remembered_zxid(ensemble: &Ensemble) -> Result<i64> {
    let mut session = Session::connect(ensemble.member(1).address(), 30_000)?;
    for _ in 0..REMEMBERED_EVERY {
        session.send(&Op::set_data("/", Some(b"the end"), -1))?;
    }
    let mut last = 0;
    for _ in 0..REMEMBERED_EVERY {
        let reply = session.receive()?;
        ensure!(reply.err == 0, "a write at the end failed with {}", reply.err);
        last = reply.zxid;
    }
    session.close()?;
    Ok(last - last % REMEMBERED_EVERY)
}

/// `hash` returns the digests that each server computed for its tree. Those from before the end of all
/// faults do not count: a server that replays its log over a snapshot goes through states that never
/// existed.
fn equal_hashes(ensemble: &Ensemble, zxid: i64) -> Result<()> {
    let mut by_digest: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for member in ensemble.ids().map(|id| ensemble.member(id)) {
        let hash = member.word("hash")?;
        let start = format!("{zxid:x}: ");
        let digest = hash.lines().find_map(|line| line.strip_prefix(&start));
        let digest = digest.unwrap_or("none").to_string();
        by_digest.entry(digest).or_default().push(member.to_string());
    }
    ensure!(by_digest.len() == 1, "digests at {zxid:#x} differ: {by_digest:?}");
    ensure!(!by_digest.contains_key("none"), "no server remembers its digest at {zxid:#x}");
    Ok(())
}

/// Records of the same zxid are equal on all servers, and the digest in the last one is that of the nodes
/// that clients see.
fn equal_log_digests(ensemble: &Ensemble, seen: i64) -> Result<()> {
    let mut all = txnlog::Digests::new();
    for id in ensemble.ids() {
        let member = ensemble.member(id);
        let digests = txnlog::digests(&member.data_dir())?;
        let (zxid, last) = digests.last_key_value().context("a log without digests")?;
        ensure!(
            *last == seen,
            "{member}: the log's last digest, at {zxid:#x}, is {last}; that of its nodes is {seen}"
        );
        for (zxid, digest) in digests {
            let known = *all.entry(zxid).or_insert(digest);
            ensure!(
                known == digest,
                "{member}: at {zxid:#x} the log has digest {digest}, another server's has {known}"
            );
        }
    }
    Ok(())
}

/// Apache must not have reported any problem with digests or with messages.
fn quiet_log(member: &Member, severity: Severity) -> Result<()> {
    let path = member.dir().join(format!("{}.log", Program::Apache.name()));
    let Ok(log) = fs::read(&path) else {
        return Ok(());
    };
    let log = String::from_utf8_lossy(&log);
    let (mismatches, complaints) = match severity {
        Severity::OneAtATime => (server_log::mismatches(&log), server_log::complaints(&log)),
        Severity::UnderLoad => {
            (server_log::unexcused_mismatches(&log), server_log::complaints(&log))
        }
        Severity::Faults => {
            (server_log::unexcused_mismatches(&log), server_log::protocol_warnings(&log))
        }
    };
    let said: Vec<_> = mismatches.into_iter().chain(complaints).take(10).collect();
    ensure!(said.is_empty(), "the log of {} has:\n{}", path.display(), said.join("\n"));
    Ok(())
}
