//! Writes: a request → a txn ([`Overlay::prepare`]), a txn → the tree ([`Tree::apply`]).

use std::hint::black_box;

use herdsman_proto::txn::Entry;
use herdsman_proto::{Id, Txn, WriteRequest};
use herdsman_tree::{Caller, Events, Outcome, Overlay, Tree};

use crate::cases::Operation;
use crate::fixture;

/// Znodes that a run of `apply-create` creates and one of `apply-delete` deletes. Few compared with those
/// of the tree, so that no table has to grow.
pub const CHANGED: usize = 200;
/// Different znodes whose data is replaced.
const SET: usize = 64;

/// Prepares a setData.
pub fn prepare_set_data() -> Operation {
    let paths: Vec<String> = fixture::item_paths(SET);
    prepare(paths, |path| fixture::set_data_request(path), |txn| matches!(txn, Txn::SetData { .. }))
}

/// Prepares a create.
pub fn prepare_create() -> Operation {
    let paths = fixture::new_paths(SET);
    prepare(paths, |path| fixture::create_request(path), |txn| matches!(txn, Txn::Create(_)))
}

/// Prepares a request, and drops the change from the overlay as if it had been applied: nothing stays in
/// flight, whatever the number of iterations.
fn prepare(
    paths: Vec<String>,
    request: fn(&'static str) -> WriteRequest<'static>,
    is_expected: fn(&Txn) -> bool,
) -> Operation {
    let tree = fixture::small_tree();
    let mut overlay = Overlay::new(fixture::HASH_SEED);
    let ids = vec![Id::new("ip", "127.0.0.1")];
    // Requests borrow their paths, and both must live in the operation.
    let paths = paths.into_iter().map(|path| &*path.leak());
    let requests: Vec<_> = paths.map(request).collect();
    Box::new(move |index| {
        let header = fixture::txn_header(index);
        let caller = Caller { ids: &ids, refused: None, ephemerals_refused: None };
        let request = black_box(&requests[index % requests.len()]);
        let entry = overlay.prepare(&tree, header, caller, request);
        assert!(is_expected(&black_box(&entry).txn));
        overlay.applied(header.zxid);
        assert!(overlay.is_empty());
    })
}

/// Applies a txn that replaces the data of a znode.
pub fn apply_set_data() -> Operation {
    let paths = fixture::item_paths(SET);
    let entries = entries(&paths, fixture::set_data_entry);
    apply(entries, |outcome| matches!(outcome, Outcome::DataSet(_)))
}

/// Applies a txn that creates a znode.
pub fn apply_create() -> Operation {
    let paths = fixture::new_paths(2 * CHANGED);
    let entries = entries(&paths, fixture::create_entry);
    apply(entries, |outcome| matches!(outcome, Outcome::Created { .. }))
}

/// Applies a txn that deletes a znode.
pub fn apply_delete() -> Operation {
    let paths = fixture::item_paths(2 * CHANGED);
    let entries = entries(&paths, |index, path| {
        fixture::entry(index, Txn::Delete { path: path.into(), container: false })
    });
    apply(entries, |outcome| matches!(outcome, Outcome::Deleted))
}

fn entries(paths: &[String], entry: fn(usize, &str) -> Entry) -> Vec<Entry> {
    paths.iter().enumerate().map(|(index, path)| entry(index, path)).collect()
}

fn apply(entries: Vec<Entry>, is_expected: fn(&Outcome) -> bool) -> Operation {
    let mut tree: Tree = fixture::small_tree();
    let mut events = Events::new();
    Box::new(move |index| {
        let entry = black_box(&entries[index % entries.len()]);
        let outcome = tree.apply(entry, &mut events);
        assert!(is_expected(black_box(&outcome)));
    })
}
