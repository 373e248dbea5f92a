//! Changes of whole subtrees.
//!
//! First a plan is made: the subtree is walked with the caller's permissions. If something in it may not be read or not
//! be changed, or it is too large, the request is rejected and nothing is changed. Then the plan is carried out
//! from the leaves up, to its end, even if the client closes its connection meanwhile. Znodes that were created since
//! the plan was made stay, even under a path that is in the plan: a znode is identified by its path and its czxid.
//!
//! A deletion uses transactions of up to [`DELETIONS_PER_TXN`] znodes, so a small subtree is deleted as a
//! whole or not at all. The protocol has no transaction for ACLs: they are replaced one by one, with many
//! requests in flight. A failure half-way, which after the plan is a change by another client or the loss
//! of the server, stops the work; the response has the number of completed changes (`deleted`, `changed`). The same
//! request again continues from there, unless the new ACLs prevent the caller from doing so.

use axum::http::StatusCode;
use herdsman_client::{Acl, ErrorKind, Op, Outcome};
use herdsman_proto::path::{ROOT, ZOOKEEPER, is_special, split};
use herdsman_proto::{ErrorCode, Id, Perms, Stat, Zxid};
use herdsman_server::ServerHandle;
use herdsman_tree::auth::SUPER;
use herdsman_tree::{VisitedZnode, WalkAction};

use super::limits::Permit;
use super::query::ANY_VERSION;
use super::shapes::acl_bytes;
use super::steps::{SteppedWalk, TreeReader};
use super::write::with_stat;
use crate::caller_sessions::CallerSession;
use crate::error::ApiError;
use crate::identity::Identity;
use crate::state::AdminState;

/// Most znodes that one request may change.
const ZNODES_MAX: usize = 100_000;
/// Most bytes of their paths. Up to 8 plans exist at a time.
const PLAN_BYTES_MAX: usize = 16 << 20;
/// Most bytes of ACLs that one request may write: znodes times the length of the list.
const ACL_BYTES_MAX: usize = 256 << 20;
/// Most of these in flight.
const ACL_BYTES_IN_FLIGHT_MAX: usize = 4 << 20;
/// Most znodes deleted in one transaction.
const DELETIONS_PER_TXN: usize = 500;
/// The size of a deletion in a request, without its path.
const DELETION_EXTRA_BYTES: usize = 32;
/// Most requests in flight.
const PIPELINE: usize = 128;

/// The result of a change of ACLs.
pub(super) struct AclsSet {
    pub(super) changed: usize,
    /// The service's own znodes, if they were skipped.
    pub(super) skipped: Vec<&'static str>,
}

/// Deletes a znode and everything below it. Returns the number of deleted znodes.
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
    let nothing_done = |error: ApiError| error.with("deleted", 0);
    check_parent(state, identity, path).map_err(nothing_done)?;
    let plan = Plan::make(state, identity, path, may_lose_children).await.map_err(nothing_done)?;
    let txn_bytes_max = state.server.config().limits.frame_bytes_max as usize / 2;
    let work = Work::new(state, identity, plan).await?;
    run_to_completion(work.delete(txn_bytes_max)).await
}

/// Replaces the ACL of a znode and of everything below it.
pub(super) async fn set_acl(
    state: &AdminState,
    identity: &Identity,
    path: &str,
    version: i32,
    acl: Vec<Acl>,
) -> Result<AclsSet, ApiError> {
    check_version(state, identity, path, version, |stat| stat.aversion)?;
    let plan = Plan::make(state, identity, path, may_be_administered).await;
    let plan = plan.map_err(|error| error.with("changed", 0))?;
    check_acl_bytes(plan.rest.len(), acl_bytes(&acl)).map_err(|error| error.with("changed", 0))?;
    let skipped = plan.skipped.clone();
    let work = Work::new(state, identity, plan).await?;
    let changed = run_to_completion(work.set_acl(acl)).await?;
    Ok(AclsSet { changed, skipped })
}

/// Completes the work even if the client closes its connection.
async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::spawn(work).await.unwrap_or_else(|_| {
        let message =
            "the operation ended early: some of it may have been done; check before you retry";
        Err(ApiError::new(StatusCode::GATEWAY_TIMEOUT, "Unknown", message))
    })
}

/// Checks the version of the first znode in advance: a change of many znodes cannot guarantee it.
fn check_version(
    state: &AdminState,
    identity: &Identity,
    path: &str,
    expected: i32,
    version_of: impl Fn(&Stat) -> i32,
) -> Result<(), ApiError> {
    let reader = TreeReader::new(&state.server, &identity.ids);
    let stat = reader.read(|visible| visible.znode(path).map(|znode| znode.stat()))?;
    let stat = stat.map_err(|code| ApiError::refused(code, path))?;
    if expected == ANY_VERSION || expected == version_of(&stat) {
        return Ok(());
    }
    Err(with_stat(ApiError::refused(ErrorCode::BadVersion, path), state, identity, path))
}

/// Checks the permission to delete, which the parent's ACL grants.
fn check_parent(state: &AdminState, identity: &Identity, path: &str) -> Result<(), ApiError> {
    let parent =
        split(path).map_or(ROOT, |(parent, _)| if parent.is_empty() { ROOT } else { parent });
    let reader = TreeReader::new(&state.server, &identity.ids);
    reader
        .read(|visible| visible.check(parent, Perms::DELETE))?
        .map_err(|code| unchanged(ApiError::refused(code, parent)))
}

fn may_lose_children(visit: &VisitedZnode<'_>) -> bool {
    let mut znode = visit.znode.into_iter();
    znode.all(|znode| znode.stat().num_children == 0 || znode.allows(Perms::DELETE))
}

fn may_be_administered(visit: &VisitedZnode<'_>) -> bool {
    visit.znode.is_some_and(|znode| znode.allows(Perms::ADMIN))
}

fn unchanged(mut error: ApiError) -> ApiError {
    error.message.push_str("; nothing was changed");
    error
}

fn check_acl_bytes(znodes: usize, acl_bytes: usize) -> Result<(), ApiError> {
    if znodes.saturating_mul(acl_bytes) <= ACL_BYTES_MAX {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "{znodes} znodes with an ACL of {acl_bytes} bytes each are more than {ACL_BYTES_MAX} bytes; nothing was \
         changed; use smaller subtrees"
    )))
}

/// A znode to be changed.
#[derive(Clone, Debug)]
struct Planned {
    path: String,
    czxid: Zxid,
}

/// The znodes to be changed.
#[derive(Debug)]
struct Plan {
    /// Parents first; processed from the end.
    rest: Vec<Planned>,
    skipped: Vec<&'static str>,
    _permit: Permit,
}

impl Plan {
    async fn make(
        state: &AdminState,
        identity: &Identity,
        root: &str,
        may_be_changed: fn(&VisitedZnode<'_>) -> bool,
    ) -> Result<Self, ApiError> {
        let permit = state.limits.walk(identity.peer.ip())?;
        let mut walk = SteppedWalk::start(&state.server, &identity.ids, root)?;
        let mut plan = Plan { rest: Vec::new(), skipped: Vec::new(), _permit: permit };
        let mut bytes = 0;
        let mut refused = None;
        let mut has_more = true;
        while has_more {
            has_more = walk
                .step(|visit| {
                    // Some of these znodes cannot be changed at all.
                    if root == ROOT && visit.path == ZOOKEEPER {
                        plan.skipped.push(ZOOKEEPER);
                        return WalkAction::SkipSubtree;
                    }
                    if !may_be_changed(&visit) || visit.znode.is_none() {
                        refused.get_or_insert_with(|| visit.path.to_owned());
                    }
                    let czxid = visit.znode.map_or(Zxid::ZERO, |znode| znode.stat().czxid);
                    bytes += visit.path.len();
                    plan.rest.push(Planned { path: visit.path.to_owned(), czxid });
                    WalkAction::Descend
                })
                .await?;
            if let Some(path) = refused {
                return Err(unchanged(ApiError::refused(ErrorCode::NoAuth, &path)));
            }
            if plan.rest.len() > ZNODES_MAX || bytes > PLAN_BYTES_MAX {
                return Err(ApiError::bad_request(format!(
                    "more than {ZNODES_MAX} znodes, or {PLAN_BYTES_MAX} bytes of paths, are too many for one \
                     request; nothing was changed; use smaller subtrees, or `herdsman shell`"
                )));
            }
        }
        Ok(plan)
    }

    /// Removes the last znodes from the plan, as many as one transaction can delete; the deepest first.
    fn next_deletions(&mut self, bytes_max: usize) -> Vec<Planned> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(Planned { path, .. }) = self.rest.last() {
            bytes += path.len() + DELETION_EXTRA_BYTES;
            if !batch.is_empty() && (batch.len() == DELETIONS_PER_TXN || bytes > bytes_max) {
                break;
            }
            batch.extend(self.rest.pop());
        }
        batch
    }
}

/// A plan that is being carried out.
struct Work {
    server: ServerHandle,
    session: CallerSession,
    plan: Plan,
}

impl Work {
    async fn new(state: &AdminState, identity: &Identity, plan: Plan) -> Result<Self, ApiError> {
        let server = state.server.clone();
        Ok(Work { server, session: state.caller_sessions.of(identity).await?, plan })
    }

    async fn delete(mut self, txn_bytes_max: usize) -> Result<usize, ApiError> {
        let mut deleted = 0;
        while !self.plan.rest.is_empty() {
            let batch = self.plan.next_deletions(txn_bytes_max);
            let done = self.delete_batch(batch).await;
            deleted += done.map_err(|error| partial_failure(error, "deleted", deleted))?;
        }
        Ok(deleted)
    }

    /// Deletes a batch: all or none of the znodes that still exist.
    async fn delete_batch(&self, mut batch: Vec<Planned>) -> Result<usize, herdsman_client::Error> {
        loop {
            self.drop_missing(&mut batch).await?;
            if batch.is_empty() {
                return Ok(0);
            }
            let ops = batch.iter().map(|one| Op::delete(&one.path));
            let Err(error) = self.session.client().transaction(ops).await else {
                return Ok(batch.len());
            };
            match error.failed_op().filter(|_| *error.kind() == ErrorKind::NoNode) {
                // Another client deletes in the same subtree. This server's tree shows by now what was deleted, and
                // all of that is dropped at once: one attempt for each znode would cost a txn for each.
                Some(index) => _ = batch.remove(index),
                None => return Err(error),
            }
        }
    }

    async fn set_acl(mut self, acl: Vec<Acl>) -> Result<usize, ApiError> {
        let mut changed = 0;
        let at_once = (ACL_BYTES_IN_FLIGHT_MAX / acl_bytes(&acl).max(1)).clamp(1, PIPELINE);
        while !self.plan.rest.is_empty() {
            let from = self.plan.rest.len().saturating_sub(at_once);
            let mut batch = self.plan.rest.split_off(from);
            let dropped = self.drop_missing(&mut batch).await;
            dropped.map_err(|error| partial_failure(error, "changed", changed))?;
            let client = self.session.client();
            let sent = batch.iter().rev().map(|one| client.set_acl(&one.path, &acl[..]).send());
            let mut failure: Option<herdsman_client::Error> = None;
            for reply in sent.collect::<Vec<_>>() {
                match reply.await {
                    Ok(_) => changed += 1,
                    // A znode that was deleted meanwhile needs no ACL.
                    Err(error) if *error.kind() == ErrorKind::NoNode => {}
                    Err(error) if failure.is_none() || error.outcome() == Outcome::Unknown => {
                        failure = Some(error);
                    }
                    Err(_) => {}
                }
            }
            if let Some(error) = failure {
                return Err(partial_failure(error, "changed", changed));
            }
        }
        Ok(changed)
    }

    /// Drops znodes that no longer exist or were replaced by another one. A follower syncs first, because its tree may
    /// lag. ACLs are ignored: a znode that was created again must stay even if the caller may not read it. Nothing of
    /// it is shown.
    async fn drop_missing(&self, batch: &mut Vec<Planned>) -> Result<(), herdsman_client::Error> {
        let Some(first) = batch.first() else { return Ok(()) };
        self.session.client().sync(&first.path).await?;
        let everything = [Id::new(SUPER, "")];
        let tree = self.server.core().tree();
        let visible = tree.visible_to(&everything);
        batch.retain(|one| visible.znode(&one.path).is_ok_and(|now| now.stat().czxid == one.czxid));
        Ok(())
    }
}

/// Adds to an error what was done before the failure.
fn partial_failure(error: herdsman_client::Error, field: &'static str, count: usize) -> ApiError {
    let outcome = error.outcome();
    let mut error = ApiError::from(error);
    let again = match field {
        "changed" => {
            "the same request again continues with the rest if you may still read and administer the znodes \
             that have the new ACL; otherwise send it as a user who may"
        }
        _ => "the same request again continues with the rest",
    };
    let counted = match (outcome, count) {
        (Outcome::Unknown, _) => {
            format!("; {count} znodes were {field} before, and some more may have been; {again}")
        }
        (Outcome::Applied, _) => {
            format!("; {count} znodes were {field} before that; {again}")
        }
        (Outcome::NotApplied, 0) => "; nothing was changed".to_owned(),
        (Outcome::NotApplied, _) => format!("; {count} znodes were {field} before; {again}"),
    };
    error.message.push_str(&counted);
    error.with(field, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    use axum::http::HeaderMap;
    use herdsman_client::Client;
    use herdsman_testing::TestServer;

    use crate::settings::AdminSettings;

    fn state(server: &TestServer) -> (AdminState, Identity) {
        let state = AdminState::new(server.handle(), AdminSettings::default());
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let identity =
            Identity::prove(state.server.schemes(), &HeaderMap::new(), peer, None).unwrap();
        (state, identity)
    }

    async fn work(state: &AdminState, identity: &Identity, path: &str) -> Work {
        let plan = Plan::make(state, identity, path, may_lose_children).await.unwrap();
        Work::new(state, identity, plan).await.unwrap()
    }

    async fn client(server: &TestServer) -> Client {
        let client = Client::connect(&server.connect_string()).await.unwrap();
        client.create("/app", "").await.unwrap();
        for block in 0..2 {
            let below = (0..600).map(|n| Op::create(&format!("/app/{block}-{n}"), ""));
            client.transaction(below).await.unwrap();
        }
        client
    }

    #[tokio::test]
    async fn batches_are_bounded_in_number_and_bytes() {
        let server = TestServer::start();
        let (state, identity) = state(&server);
        let mut plan = Plan::make(&state, &identity, "/", |_| true).await.unwrap();
        let planned = |path| Planned { path, czxid: Zxid::ZERO };
        plan.rest = (0..1201).map(|n| planned(format!("/{n:04}"))).collect();
        let mut sizes = Vec::new();
        let mut order = Vec::new();
        while !plan.rest.is_empty() {
            let batch = plan.next_deletions(1 << 20);
            sizes.push(batch.len());
            order.extend(batch.into_iter().map(|one| one.path));
        }
        assert_eq!(sizes, [500, 500, 201]);
        assert!(order.is_sorted_by(|a, b| a > b));
        plan.rest = vec![planned("/x".repeat(500)); 3];
        assert_eq!(plan.next_deletions(2100).len(), 2);
        assert_eq!(plan.next_deletions(10).len(), 1);
    }

    /// It used to be one transaction for each znode.
    #[tokio::test]
    async fn znodes_deleted_by_another_client_cost_no_transactions() {
        let server = TestServer::start();
        let client = client(&server).await;
        let (state, identity) = state(&server);
        let (first, second) =
            (work(&state, &identity, "/app").await, work(&state, &identity, "/app").await);
        // Both have the same plan, and one has carried out half of it.
        let half = (0..600).map(|n| Op::delete(&format!("/app/1-{n}")));
        client.transaction(half).await.unwrap();
        let before = server.handle().core().tree().last_zxid().0;
        let (deleted, more) = tokio::join!(first.delete(1 << 19), second.delete(1 << 19));
        assert_eq!(deleted.unwrap() + more.unwrap(), 601);
        let txns = server.handle().core().tree().last_zxid().0 - before;
        assert!(txns <= 12, "{txns} transactions");
        assert!(client.exists("/app").await.unwrap().is_none());
    }

    /// Paths used to be counted, not measured: 100,000 of them could need gigabytes.
    #[tokio::test]
    async fn plans_are_bounded_in_bytes() {
        let server = TestServer::start();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let mut parent = String::new();
        for _ in 0..3 {
            parent = format!("{parent}/{}", "n".repeat(200_000));
            client.create(&parent, "").await.unwrap();
        }
        let (state, identity) = state(&server);
        let plan = async || Plan::make(&state, &identity, &parent, |_| true).await;
        for n in 0..20 {
            client.create(&format!("{parent}/{n}"), "").await.unwrap();
        }
        assert_eq!(plan().await.unwrap().rest.len(), 21);
        for n in 20..30 {
            client.create(&format!("{parent}/{n}"), "").await.unwrap();
        }
        let Err(error) = plan().await else { panic!("it is too large") };
        assert_eq!(error.status.as_u16(), 400);
        assert!(error.message.contains("nothing was changed"), "{}", error.message);
    }

    #[test]
    fn long_acls_are_written_to_fewer_znodes() {
        let acl = vec![Acl::world(Perms::ALL); 1000];
        assert_eq!(acl_bytes(&acl), 23_000);
        assert!(check_acl_bytes(10_000, acl_bytes(&acl)).is_ok());
        let error = check_acl_bytes(100_000, acl_bytes(&acl)).unwrap_err();
        assert_eq!(error.status.as_u16(), 400);
    }

    #[test]
    fn an_interruption_says_what_was_done_and_what_is_not_known() {
        let lost = || herdsman_client::Error::unknown(ErrorKind::ConnectionLoss);
        let error = partial_failure(lost(), "deleted", 500);
        assert_eq!((error.status.as_u16(), &error.details["deleted"]), (504, &500.into()));
        assert!(
            error.message.contains("500 znodes were deleted before, and some more may have been")
        );
        let refused = herdsman_client::Error::not_applied(ErrorKind::NoAuth);
        let error = partial_failure(refused, "changed", 0);
        assert!(error.message.ends_with("; nothing was changed"), "{}", error.message);
    }

    /// The new ACL may remove the caller's own permissions.
    #[test]
    fn an_interrupted_change_of_acls_promises_no_more_than_it_can() {
        let lost = herdsman_client::Error::unknown(ErrorKind::ConnectionLoss);
        let message = partial_failure(lost, "changed", 500).message;
        assert!(message.contains("continues with the rest if you may still read"), "{message}");
    }

    #[tokio::test]
    async fn a_znode_created_meanwhile_under_the_same_path_stays() {
        let server = TestServer::start();
        let client = client(&server).await;
        let (state, identity) = state(&server);
        let planned = work(&state, &identity, "/app").await;
        client.delete("/app/0-7").await.unwrap();
        client.create("/app/0-7", "new").await.unwrap();
        let error = planned.delete(1 << 19).await.unwrap_err();
        assert_eq!((error.status.as_u16(), error.error.as_str()), (409, "NotEmpty"));
        assert_eq!(error.details["deleted"], 999);
        assert!(error.message.contains("999 znodes were deleted before"), "{}", error.message);
        assert_eq!(client.get("/app/0-7").await.unwrap().data, "new");
    }

    /// It used to be deleted, because its czxid was compared only if its ACL allowed the caller to read it.
    #[tokio::test]
    async fn an_unreadable_znode_created_meanwhile_stays() {
        let server = TestServer::start();
        let client = client(&server).await;
        let (state, identity) = state(&server);
        let planned = work(&state, &identity, "/app").await;
        client.delete("/app/0-7").await.unwrap();
        let theirs = vec![Acl { perms: Perms::ALL, id: Id::new("digest", "u:h") }];
        client.create("/app/0-7", "new").acl(theirs).await.unwrap();
        let error = planned.delete(1 << 19).await.unwrap_err();
        assert_eq!((error.status.as_u16(), error.error.as_str()), (409, "NotEmpty"));
        let left = client.children("/app").await.unwrap().names;
        assert!(left.contains(&"0-7".to_owned()), "{left:?}");
    }
}
