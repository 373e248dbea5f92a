//! Txns, as in the log and in a leader's proposals.

use herdsman_proto::txn::Entry;

/// In: a txn's payload.
pub fn run(bytes: &[u8]) {
    let Ok(entry) = Entry::decode(bytes) else {
        return;
    };
    let mut out = Vec::new();
    entry.encode(&mut out);
    assert_eq!(Entry::decode(&out).as_ref(), Ok(&entry));
}
