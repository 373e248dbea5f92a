//! Any history, prepared ahead of what is applied: outcomes, digests and the tree itself must equal those
//! of the naive model.

use std::collections::BTreeMap;

use herdsman_proto::{SessionId, Stat, Txn};
use herdsman_tree::read::ReadCaller;
use herdsman_tree::{Dump, Outcome, Tree, Watcher};
use proptest::prelude::*;

use crate::model::{Model, ModelNode};
use crate::scripts::{InFlight, Run, options, steps};
use crate::words;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_tree_equals_the_model(steps in steps(80), extended_types: bool) {
        let mut run = Run::new(options(extended_types), &mut check);
        for step in &steps {
            run.step(step, &mut check);
        }
        run.drain(0, &mut check_reads);
        prop_assert!(run.overlay().is_empty());
    }
}

/// Compares after each txn: its outcome, its digest, and everything in a snapshot.
fn check(tree: &Tree, applied: &InFlight, outcome: &Outcome) {
    let InFlight { entry, expected, after } = applied;
    assert_eq!(outcome, expected, "{:?}", entry.txn);
    let tells_digest = !matches!(entry.txn, Txn::Error(_));
    assert_eq!(entry.digest.is_some(), tells_digest);
    if let Some(digest) = entry.digest {
        assert_eq!(digest.tree_digest, tree.digest(), "{:?}", entry.txn);
    }
    assert_eq!(tree.last_zxid(), entry.header.zxid);
    assert_eq!(nodes(tree), after.nodes, "after {:?}", entry.txn);
    assert!(tree.sessions().eq(after.sessions.clone()));
}

/// Compares at the end through the reads of clients as well.
fn check_reads(tree: &Tree, applied: &InFlight, outcome: &Outcome) {
    check(tree, applied, outcome);
    let model = &applied.after;
    for path in model.nodes.keys() {
        assert_eq!(exists(tree, path), model.stat(path), "{path}");
        assert_eq!(children(tree, path), model.children(path), "{path}");
    }
    check_ephemerals(tree, model);
}

fn check_ephemerals(tree: &Tree, model: &Model) {
    let mut owners = Vec::new();
    let mut count = 0;
    for &session in model.sessions.keys() {
        let expected = model.ephemerals(session);
        let found: Vec<_> = tree.ephemerals(session).map(|path| path.to_string()).collect();
        assert_eq!(found, expected);
        count += expected.len();
        owners.extend((!expected.is_empty()).then_some(session));
    }
    assert_eq!(tree.ephemeral_count(), count);
    assert_eq!(tree.ephemeral_owners(), owners);
    assert!(tree.orphan_ephemeral_owners().is_empty());
}

/// All znodes, as in a snapshot.
pub fn nodes(tree: &Tree) -> BTreeMap<String, ModelNode> {
    let mut dump = Dump::start(tree);
    let acls: BTreeMap<_, _> = dump.acls().iter().cloned().collect();
    let open = words::acl("world:anyone:rwcda");
    let mut nodes = BTreeMap::new();
    dump.step(tree, usize::MAX, &mut |path, data, acl, &stat| {
        let path = if path.is_empty() { "/" } else { path };
        let acl = acls.get(&acl).map_or(open.clone(), |acl| acl.to_vec());
        let data = data.map(<[u8]>::to_vec);
        nodes.insert(path.to_owned(), ModelNode { data, acl, stat });
    });
    assert_eq!(nodes.len(), tree.node_count());
    nodes
}

fn read(tree: &Tree, line: &str) -> Vec<u8> {
    let request = words::read(line).expect("a read");
    let ids = [herdsman_proto::Id::new("super", "")];
    let reader = ReadCaller { session: SessionId(1), watcher: Watcher(1), ids: &ids };
    let mut out = Vec::new();
    tree.read(reader, &request, &mut out).expect("the znode exists");
    out
}

fn exists(tree: &Tree, path: &str) -> Stat {
    let bytes = read(tree, &format!("exists {path}"));
    Stat::decode(&mut herdsman_proto::JuteReader::new(&bytes)).expect("a stat")
}

fn children(tree: &Tree, path: &str) -> Vec<String> {
    let bytes = read(tree, &format!("ls {path}"));
    let mut reader = herdsman_proto::JuteReader::new(&bytes);
    let names = reader.vector(herdsman_proto::JuteReader::required_string);
    let prefix = path.trim_end_matches('/');
    let names = names.expect("a list");
    let mut paths: Vec<_> = names.iter().map(|name| format!("{prefix}/{name}")).collect();
    paths.sort_unstable();
    paths
}
