//! Tests of znodes against a plain map, and of edge cases.

use std::collections::BTreeMap;
use std::sync::Arc;

use herdsman_proto::txn::Data;
use herdsman_proto::{StatPersisted, Zxid};
use proptest::prelude::*;

use super::*;
use crate::acls::AclSlot;

fn new(data: &Data, stat: StatPersisted) -> NewZnode<'_> {
    NewZnode { data: data.into(), stat, acl: AclSlot::OPEN, digest: 0 }
}

fn plain() -> NewZnode<'static> {
    new(&None, StatPersisted::default())
}

/// A random change of a znode.
#[derive(Clone, Debug)]
enum Change {
    Put(Data, StatPersisted),
    Remove,
}

/// No data, empty data, small data in a few lengths so that some lengths repeat, and data large enough to
/// be shared.
fn data() -> impl Strategy<Value = Data> {
    let bytes = prop_oneof![Just(0usize), 1..4usize, 99..102usize, 4090..4100usize];
    prop::option::of((bytes, any::<u8>()).prop_map(|(len, byte)| Arc::from(vec![byte; len])))
}

/// Stats of ordinary leaves, and of all other znodes.
fn stat() -> impl Strategy<Value = StatPersisted> {
    let ordinary = (1..9i64).prop_map(|zxid| StatPersisted::created(Zxid(zxid), zxid, 0));
    let number = || prop_oneof![Just(0), any::<i32>()];
    let long = || prop_oneof![Just(0), any::<i64>()];
    let any = (ordinary, [number(), number(), number()], [long(), long(), long(), long()]);
    any.prop_map(|(ordinary, [version, cversion, aversion], [owner, mzxid, mtime, pzxid])| {
        let pzxid = if pzxid == 0 { ordinary.czxid } else { Zxid(pzxid) };
        let mzxid = Zxid(mzxid);
        let ephemeral_owner = owner;
        StatPersisted {
            version,
            cversion,
            aversion,
            ephemeral_owner,
            mzxid,
            mtime,
            pzxid,
            ..ordinary
        }
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (data(), stat()).prop_map(|(data, stat)| Change::Put(data, stat)),
        1 => Just(Change::Remove),
    ]
}

/// The expected content of the znodes, as a plain map.
type Model = BTreeMap<String, (Data, StatPersisted)>;

fn put(nodes: &mut Nodes, model: &mut Model, path: &str, (data, stat): (Data, StatPersisted)) {
    let (parent, name) = herdsman_proto::path::split(path).expect("absolute");
    if let Some(id) = nodes.find(path) {
        nodes.set_data(id, (&data).into());
        nodes.change_stat(id, |old| *old = stat);
    } else {
        let parent = nodes.find(parent).expect("put before");
        nodes.insert(parent, name, &new(&data, stat));
    }
    model.insert(path.to_owned(), (data, stat));
}

fn check(nodes: &Nodes, model: &Model) {
    assert_eq!(nodes.len(), model.len() + 1);
    for (path, (data, stat)) in model {
        let id = nodes.find(path).expect("in the model");
        let node = nodes.get(id);
        let mut spelled = String::new();
        nodes.path_into(id, &mut spelled);
        assert_eq!(&spelled, path);
        assert_eq!((node.data(), node.stat()), (data.as_deref(), *stat), "{path}");
        assert_eq!(
            (node.to_data(), node.data_len()),
            (data.clone(), data.iter().map(|d| d.len()).sum())
        );
        let siblings = nodes.get(nodes.parent(id)).children();
        assert_eq!(siblings[node.slot.slot_in_parent as usize], id);
        let below = format!("{path}/");
        let children = model.keys().filter(|path| path.starts_with(&below)).count();
        assert_eq!(node.children().len(), children, "{path}");
        assert_eq!(node.below(), totals(model, &below), "{path}");
    }
    assert_eq!(nodes.get(NodeId::ROOT).below(), totals(model, "/"));
}

/// The totals of all znodes whose paths begin like this.
fn totals(model: &Model, prefix: &str) -> Totals {
    let below = model.iter().filter(|(path, _)| path.starts_with(prefix));
    below.fold(Totals::default(), |sum, (_, (data, _))| Totals {
        znodes: sum.znodes + 1,
        bytes: sum.bytes + data.iter().map(|data| data.len() as u64).sum::<u64>(),
    })
}

proptest! {
    /// After any changes, the same paths exist with the same data and stat, and each parent lists exactly
    /// its children.
    #[test]
    fn behaves_like_a_map_of_paths(
        changes in prop::collection::vec((0u8..6, 0u8..6, change()), 0..200),
    ) {
        let mut nodes = Nodes::new(7, &plain());
        let mut model = Model::new();
        for (a, b, change) in changes {
            let (top, path) = (format!("/{a}"), format!("/{a}/näme{b}"));
            match change {
                Change::Put(data, stat) if b == 0 => put(&mut nodes, &mut model, &top, (data, stat)),
                Change::Put(data, stat) => {
                    if !model.contains_key(&top) {
                        put(&mut nodes, &mut model, &top, Default::default());
                    }
                    put(&mut nodes, &mut model, &path, (data, stat));
                }
                Change::Remove => {
                    let path = if model.contains_key(&path) { path } else { top };
                    let leaf = nodes.find(&path).filter(|&id| nodes.get(id).children().is_empty());
                    if let Some(id) = leaf {
                        nodes.remove(id);
                        model.remove(&path);
                    }
                }
            }
        }
        check(&nodes, &model);
    }
}

#[test]
fn all_are_found_while_the_index_grows_and_shrinks() {
    let mut nodes = Nodes::new(3, &plain());
    let parent = nodes.insert(NodeId::ROOT, "parent", &plain());
    let name = |number: u32| format!("n{number:07}");
    let ids: Vec<_> = (0..50_000).map(|i| nodes.insert(parent, &name(i), &plain())).collect();
    let found = |nodes: &Nodes, i| nodes.child(parent, &name(i));
    assert!((0..50_000).all(|i| found(&nodes, i) == Some(ids[i as usize])));
    assert_eq!(found(&nodes, 50_000), None);
    for i in (0..50_000).filter(|i| i % 10 != 0) {
        nodes.remove(ids[i as usize]);
    }
    let expected = |i| (i % 10 == 0).then(|| ids[i as usize]);
    assert!((0..50_000).all(|i| found(&nodes, i) == expected(i)));
    assert_eq!(nodes.get(parent).children().len(), 5_000);
}

#[test]
fn a_very_deep_path_is_spelled_without_recursion() {
    let mut nodes = Nodes::new(7, &plain());
    // Without an index, so that it does not take the time of as many requests.
    let deepest = (0..200_000).fold(NodeId::ROOT, |id, _| nodes.put("a", (id, 0), &plain()));
    let mut path = String::new();
    nodes.path_into(deepest, &mut path);
    assert_eq!(path.len(), 400_000);
}

#[test]
fn only_exact_paths_are_found() {
    let mut nodes = Nodes::new(1, &plain());
    nodes.insert(NodeId::ROOT, "a", &plain());
    assert_eq!((nodes.find(""), nodes.find("/")), (Some(NodeId::ROOT), Some(NodeId::ROOT)));
    assert!(nodes.find("/a").is_some());
    for wrong in ["a", "/a/", "//a", "/b", "/a/b", "//"] {
        assert_eq!(nodes.find(wrong), None, "{wrong}");
    }
}
