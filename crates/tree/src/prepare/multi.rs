//! multi: all or none, under one zxid. A failed multi is still a multi txn, in which the failed
//! operation and those after it are errors; those before it stay as they were prepared and are
//! ignored when it is applied.

use herdsman_proto::{ErrorCode, Txn, WriteRequest};

use super::Prepare;

impl Prepare<'_> {
    pub(super) fn multi(&mut self, writes: &[WriteRequest<'_>]) -> Result<Txn, ErrorCode> {
        let savepoint = self.overlay.savepoint();
        let mut failed = false;
        let mut txns = Vec::with_capacity(writes.len());
        let mut bytes = 0;
        for write in writes {
            let txn = if failed {
                Txn::error(ErrorCode::RuntimeInconsistency)
            } else {
                self.single(write).unwrap_or_else(|code| {
                    failed = true;
                    self.overlay.roll_back(&savepoint);
                    Txn::error(code)
                })
            };
            // A multi that will be too long for the log must not take memory until then.
            bytes += txn.encoded_len();
            if bytes > self.tree.options.txn_bytes_max {
                self.overlay.roll_back(&savepoint);
                return Err(ErrorCode::BadArguments);
            }
            txns.push(txn);
        }
        Ok(Txn::Multi(txns))
    }
}
