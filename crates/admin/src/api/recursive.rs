//! Changes of whole subtrees.
//!
//! First the subtree is walked as the asker may see it; where something in it may not be read, or there
//! is too much of it, nothing is changed. Then it is changed from the leaves up, and what was created
//! meanwhile stays.
//!
//! A deletion goes in transactions of up to [`DELETIONS_PER_TXN`] znodes, so a small subtree goes as a
//! whole or not at all. The protocol has no transaction for ACLs: they are replaced one by one, many
//! requests under way at a time. A failure half-way stops the work, and the answer says how much was
//! done (`deleted`, `changed`); asking again goes on from there.

use herdsman_client::{Acl, Client, ErrorKind, Op};
use herdsman_proto::path::is_special;
use herdsman_proto::{ErrorCode, Stat};
use herdsman_tree::Onward;

use super::query::ANY_VERSION;
use super::steps::{Looker, SteppedWalk};
use super::write::with_stat;
use crate::error::ApiError;
use crate::identity::Identity;
use crate::state::AdminState;

/// Znodes that one request may change.
const ZNODES_MAX: usize = 100_000;
/// Znodes that go at once.
const DELETIONS_PER_TXN: usize = 500;
/// What a deletion takes of a request besides its path.
const DELETION_EXTRA_BYTES: usize = 32;
/// Requests that are under way at once.
const PIPELINE: usize = 128;

/// Deletes a znode and all that is below it. Tells how many that were.
pub(super) async fn delete(
    state: &AdminState,
    identity: &Identity,
    path: &str,
    version: i32,
) -> Result<usize, ApiError> {
    if is_special(path) {
        return Err(ApiError::bad_request("the service's own znodes cannot be deleted").at(path));
    }
    check_version(state, identity, path, version, |stat| stat.version)?;
    let mut rest = list(state, identity, path).await?;
    let stand_in = state.stand_ins.of(identity).await?;
    let txn_bytes_max = state.server.config().limits.frame_bytes_max as usize / 2;
    let mut deleted = 0;
    while !rest.is_empty() {
        let batch = last_batch(&mut rest, txn_bytes_max);
        let done = delete_batch(stand_in.client(), batch).await;
        deleted += done.map_err(|error| error.with("deleted", deleted))?;
    }
    Ok(deleted)
}

/// Replaces the ACL of a znode and of all that is below it. Tells how many that were.
pub(super) async fn set_acl(
    state: &AdminState,
    identity: &Identity,
    path: &str,
    version: i32,
    acl: &[Acl],
) -> Result<usize, ApiError> {
    check_version(state, identity, path, version, |stat| stat.aversion)?;
    let mut rest = list(state, identity, path).await?;
    let stand_in = state.stand_ins.of(identity).await?;
    let mut changed = 0;
    while !rest.is_empty() {
        let batch = rest.split_off(rest.len().saturating_sub(PIPELINE));
        let sent = batch.iter().rev().map(|path| stand_in.client().set_acl(path, acl).send());
        let mut failure = None;
        for reply in sent.collect::<Vec<_>>() {
            match reply.await {
                Ok(_) => changed += 1,
                // What has gone meanwhile needs no ACL.
                Err(error) if *error.kind() == ErrorKind::NoNode => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if let Some(error) = failure {
            return Err(ApiError::from(error).with("changed", changed));
        }
    }
    Ok(changed)
}

/// A change of many znodes cannot expect a version of its first one for sure, but it can look.
fn check_version(
    state: &AdminState,
    identity: &Identity,
    path: &str,
    expected: i32,
    version_of: impl Fn(&Stat) -> i32,
) -> Result<(), ApiError> {
    let looker = Looker::new(&state.server, &identity.ids);
    let stat = looker.look(|sight| sight.znode(path).map(|znode| znode.stat()))?;
    let stat = stat.map_err(|code| ApiError::refused(code, path))?;
    if expected == ANY_VERSION || expected == version_of(&stat) {
        return Ok(());
    }
    Err(with_stat(ApiError::refused(ErrorCode::BadVersion, path), state, identity, path))
}

/// All paths of a subtree, parents first.
async fn list(
    state: &AdminState,
    identity: &Identity,
    path: &str,
) -> Result<Vec<String>, ApiError> {
    let _permit = state.limits.walk()?;
    let mut walk = SteppedWalk::start(&state.server, &identity.ids, path)?;
    let mut all = Vec::new();
    let mut unreadable = None;
    let mut has_more = true;
    while has_more {
        has_more = walk
            .step(|visit| {
                if visit.znode.is_none() && unreadable.is_none() {
                    unreadable = Some(visit.path.to_owned());
                }
                all.push(visit.path.to_owned());
                Onward::Into
            })
            .await?;
        if let Some(path) = unreadable {
            return Err(ApiError::refused(ErrorCode::NoAuth, &path));
        }
        if all.len() > ZNODES_MAX {
            return Err(ApiError::bad_request(format!(
                "more than {ZNODES_MAX} znodes are too many for one request; nothing was changed; \
                 take smaller subtrees, or `herdsman shell`"
            )));
        }
    }
    Ok(all)
}

/// Takes the last paths, as many as one transaction can delete; the deepest first.
fn last_batch(rest: &mut Vec<String>, bytes_max: usize) -> Vec<String> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    while let Some(path) = rest.last() {
        bytes += path.len() + DELETION_EXTRA_BYTES;
        if !batch.is_empty() && (batch.len() == DELETIONS_PER_TXN || bytes > bytes_max) {
            break;
        }
        batch.extend(rest.pop());
    }
    batch
}

/// Deletes these, all or none of those that are still there.
async fn delete_batch(client: &Client, mut batch: Vec<String>) -> Result<usize, ApiError> {
    while !batch.is_empty() {
        let Err(error) = client.transaction(batch.iter().map(|path| Op::delete(path))).await else {
            break;
        };
        match error.failed_op().filter(|_| *error.kind() == ErrorKind::NoNode) {
            // Somebody was faster.
            Some(gone) => _ = batch.remove(gone),
            None => return Err(error.into()),
        }
    }
    Ok(batch.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_bounded_in_number_and_bytes() {
        let mut rest: Vec<_> = (0..1201).map(|n| format!("/{n:04}")).collect();
        let mut sizes = Vec::new();
        let mut order = Vec::new();
        while !rest.is_empty() {
            let batch = last_batch(&mut rest, 1 << 20);
            sizes.push(batch.len());
            order.extend(batch);
        }
        assert_eq!(sizes, [500, 500, 201]);
        assert!(order.is_sorted_by(|a, b| a > b));
        let mut long = vec!["/x".repeat(500); 3];
        assert_eq!(last_batch(&mut long, 2100).len(), 2);
        assert_eq!(last_batch(&mut long, 10).len(), 1);
    }
}
