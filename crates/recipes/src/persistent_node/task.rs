//! The task that maintains a persistent node.
//!
//! One loop: read the node, with a watch; do the one thing that is missing; read again. A write whose reply was lost
//! needs no special handling: the next read shows whether it was applied, and whose the node is. Everything is done
//! with a client bound to one session, so that nothing meant for one session is applied in the next.

use herdsman_client::{
    Client, Error, ErrorKind, Op, OpResult, Outcome, Result, Session, Stat, Watch, Zxid,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::pace::Pace;
use super::sequential::SequentialCreation;
use super::spec::Spec;
use super::{Desired, End, OnForeignNode, Presence, Report};
use crate::contact::{live_session, session_lost};
use crate::retrying::is_overtaken;

pub(super) struct NodeTask {
    pub(super) client: Client,
    pub(super) spec: Spec,
    desired: watch::Receiver<Desired>,
    pub(super) reports: watch::Sender<Report>,
    /// The path of the node; that of a sequential one is known when it was created.
    pub(super) path: Option<String>,
    /// The incarnation of the node, and the revision of the data that is known to be in it.
    written: Option<(Zxid, u64)>,
    /// When it was written.
    written_at: Option<Instant>,
    /// There may be a node of ours that is not the one in `written`: no reply has arrived.
    may_have_created: bool,
    /// The creation of a sequential node.
    creation: Option<SequentialCreation>,
    pub(super) pace: Pace,
}

impl NodeTask {
    pub(super) fn new(
        client: Client,
        spec: Spec,
        desired: watch::Receiver<Desired>,
        reports: watch::Sender<Report>,
    ) -> Self {
        let path = (!spec.is_sequential).then(|| spec.path.clone());
        NodeTask {
            client,
            spec,
            desired,
            reports,
            path,
            written: None,
            written_at: None,
            may_have_created: false,
            creation: None,
            pace: Pace::default(),
        }
    }

    pub(super) async fn run(mut self) {
        let ended = self.keep().await;
        // A session that has ended has deleted its ephemerals.
        let is_over =
            |error: &Error| is_end_of_client(error) || *error.kind() == ErrorKind::SessionExpired;
        let failure = match ended {
            Ok(End::Delete) => self.remove().await.err().filter(|error| !is_over(error)),
            Ok(End::LeaveInPlace) => None,
            Ok(End::MakePersistent) => self.make_persistent().await.err(),
            Err(error) => Some(error).filter(|error| !is_over(error)),
        };
        if let Some(error) = &failure {
            tracing::warn!(path = self.spec.path, %error, "the persistent node may not have been deleted");
        }
        self.reports.send_modify(|report| {
            report.presence = Presence::Ended;
            report.failure = failure;
        });
    }

    /// Keeps the node in one session after the other, until it is to end.
    async fn keep(&mut self) -> Result<End> {
        loop {
            // From here on every change of the desired state wakes the waiters for `changed`, until it is read here.
            // So no change is overlooked, least of all the one to end.
            if let Some(end) = self.desired.borrow_and_update().end {
                return Ok(end);
            }
            let connected = live_session(&self.client);
            let session = tokio::select! {
                session = connected => session?,
                _ = self.desired.changed() => continue,
            };
            let kept = tokio::select! {
                biased;
                // Whatever the task waits for, the node can no longer be trusted.
                () = session_lost(&session) => {
                    self.report(Presence::Absent);
                    continue;
                }
                kept = self.keep_in(&session) => kept,
            };
            if let Err(error) = kept {
                self.handle_error(error).await?;
            }
        }
    }

    /// Does the one thing that is missing.
    async fn keep_in(&mut self, session: &Session) -> Result<()> {
        let client = self.client.bound_to(session);
        let Some(path) = self.path.clone() else {
            return self.create_sequential(&client, session).await;
        };
        let (stat, watch) = client.exists(&path).watch().await?;
        match stat {
            None => {
                drop(watch);
                self.create(&client, &path).await
            }
            Some(stat) if !self.spec.is_ours(&stat, session) => {
                self.handle_foreign(&client, &path, &stat, watch).await
            }
            Some(stat) => self.hold(&client, &path, &stat, watch).await,
        }
    }

    async fn create(&mut self, client: &Client, path: &str) -> Result<()> {
        self.report(Presence::Absent);
        self.pause().await;
        let desired = self.desired();
        let create =
            client.create(path, desired.data).lifetime(self.spec.lifetime()).container_parents();
        let create = self.spec.with_acl(create);
        match self.in_doubt_until(create).await {
            Ok(created) => self.note_written(created.stat.czxid, desired.revision),
            Err(error) if error.is_node_exists() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Awaits a call that creates the node. This future may be dropped before the reply arrives.
    async fn in_doubt_until<T>(&mut self, call: impl IntoFuture<Output = Result<T>>) -> Result<T> {
        let was_in_doubt = std::mem::replace(&mut self.may_have_created, true);
        let result = call.await;
        let is_unknown = |error: &Error| error.outcome() == Outcome::Unknown;
        self.may_have_created = was_in_doubt || result.as_ref().is_err_and(is_unknown);
        result
    }

    fn note_written(&mut self, czxid: Zxid, revision: u64) {
        self.written = Some((czxid, revision));
        self.written_at = Some(Instant::now());
        self.may_have_created = false;
    }

    async fn create_sequential(&mut self, client: &Client, session: &Session) -> Result<()> {
        let is_in_progress =
            self.creation.as_ref().is_some_and(|creation| creation.session == session.id());
        if !is_in_progress {
            self.pause().await;
            let (Desired { data, revision, .. }, desired) = (self.desired(), self.desired.clone());
            let is_wanted = move || desired.borrow().end.is_none();
            let creation = (data, revision);
            let creation =
                SequentialCreation::start(client, session, &self.spec, creation, is_wanted);
            self.creation = Some(creation);
        }
        self.finish_creation().await
    }

    /// Waits for the creation of the node, if there is one.
    async fn finish_creation(&mut self) -> Result<()> {
        let Some(creation) = &mut self.creation else {
            return Ok(());
        };
        let (created, revision) = (creation.created().await, creation.revision);
        self.creation = None;
        if let Some(created) = created? {
            self.note_written(created.stat.czxid, revision);
            self.path = Some(created.path);
        }
        Ok(())
    }

    async fn handle_foreign(
        &mut self,
        client: &Client,
        path: &str,
        stat: &Stat,
        watch: Watch,
    ) -> Result<()> {
        let is_leftover = stat.ephemeral_owner == 0 && self.written.is_none();
        let is_replaced = self.spec.replaces_leftover && is_leftover;
        if self.spec.on_foreign_node == OnForeignNode::Wait && !is_replaced {
            self.report(Presence::Occupied);
            tokio::select! {
                event = watch => drop(event),
                _ = self.desired.changed() => {}
            }
            return Ok(());
        }
        self.report(Presence::Absent);
        self.pause().await;
        tracing::info!(path, owner = stat.ephemeral_owner, "replacing a node of another session");
        let desired = self.desired();
        let create = Op::create(path, desired.data).lifetime(self.spec.lifetime());
        let create = self.spec.op_with_acl(create);
        // In one transaction, so that watchers never see the path without a node.
        let replace = client.transaction([Op::delete(path).version(stat.version), create]);
        match self.in_doubt_until(replace).await {
            Ok(results) => {
                if let Some(OpResult::Created(created)) = results.last() {
                    self.note_written(created.stat.czxid, desired.revision);
                }
                Ok(())
            }
            // Another client was faster; read again.
            Err(error) if is_overtaken(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Maintains the data of a node that exists and is ours, and waits until something happens.
    async fn hold(
        &mut self,
        client: &Client,
        path: &str,
        stat: &Stat,
        mut watch: Watch,
    ) -> Result<()> {
        let mut desired = self.desired();
        while self.written == Some((stat.czxid, desired.revision)) {
            self.report_present(path, desired.revision);
            tokio::select! {
                biased;
                // Read again, whatever happened, even after the end of the session.
                _ = &mut watch => return Ok(()),
                _ = self.desired.changed() => desired = self.desired(),
            }
            if desired.end.is_some() {
                return Ok(());
            }
        }
        if !self.may_write_after_interval(path, &mut watch).await {
            return Ok(());
        }
        let desired = self.desired();
        // This also fires the watch, so it need not be removed.
        match client.set(path, desired.data).version(stat.version).await {
            Ok(_) => self.note_written(stat.czxid, desired.revision),
            // It may be another node by now; read again.
            Err(error) if error.is_no_node() || error.is_bad_version() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Waits until the data may be written again; returns false if something else has happened first.
    async fn may_write_after_interval(&mut self, path: &str, watch: &mut Watch) -> bool {
        let due = self.written_at.map(|last| last + self.spec.write_interval);
        let Some(due) = due.filter(|due| *due > Instant::now()) else {
            return true;
        };
        self.report(Presence::Present { path: path.to_owned() });
        let end = self.desired.wait_for(|desired| desired.end.is_some());
        tokio::select! {
            () = sleep_until(due) => true,
            event = watch => { drop(event); false }
            _ = end => false,
        }
    }

    /// Handles a failure. Fails only if there is nothing left to try.
    async fn handle_error(&mut self, error: Error) -> Result<()> {
        if is_end_of_client(&error) {
            return Err(error);
        }
        if *error.kind() == ErrorKind::SessionExpired {
            self.report(Presence::Absent);
            return Ok(());
        }
        if is_transient(&error) {
            tracing::debug!(%error, "maintaining a persistent node failed; trying again");
        } else {
            tracing::warn!(%error, "the server rejects a persistent node");
            self.report(Presence::Refused(error));
        }
        self.pause().await;
        Ok(())
    }

    /// Deletes the node if it is ours.
    async fn remove(&mut self) -> Result<()> {
        // Nothing was ever sent: no need to wait for a connection.
        if self.pace.is_unused() && self.written.is_none() {
            return Ok(());
        }
        loop {
            let session = self.client.connected_session().await?;
            match self.remove_in(&session).await {
                Ok(()) => return Ok(()),
                Err(error) if is_end_of_client(&error) => return Err(error),
                Err(error) if is_transient(&error) || is_overtaken(&error) => {}
                Err(error) => return Err(error),
            }
            sleep(self.pace.pause_before_attempt(Instant::now())).await;
        }
    }

    async fn remove_in(&mut self, session: &Session) -> Result<()> {
        let client = self.client.bound_to(session);
        if let Err(error) = self.finish_creation().await {
            // It was rejected, or its session has ended.
            tracing::debug!(%error, "a persistent node was not created");
        }
        let Some(path) = self.path.clone() else {
            return Ok(());
        };
        // An earlier attempt may have succeeded and another client may have the path: a server that is behind must
        // not show an older state.
        client.sync(&path).await?;
        match client.exists(&path).await? {
            Some(stat) if self.spec.is_ours(&stat, session) && self.has_made(&stat) => {
                // From now on only this node is meant, even if the reply to this is lost.
                self.note_written(stat.czxid, 0);
                client.delete(&path).version(stat.version).await
            }
            _ => Ok(()),
        }
    }

    /// Returns whether it is the very node that this task has created or written, as far as is known. Other code in
    /// this program may have one at the same path and in the same session.
    fn has_made(&self, stat: &Stat) -> bool {
        self.may_have_created || self.written.is_some_and(|(czxid, _)| czxid == stat.czxid)
    }

    pub(super) fn desired(&self) -> Desired {
        self.desired.borrow().clone()
    }

    /// Waits before an attempt, if there were many; the request to end cuts this short.
    async fn pause(&mut self) {
        let pause = self.pace.pause_before_attempt(Instant::now());
        if pause.is_zero() {
            return;
        }
        let end = self.desired.wait_for(|desired| desired.end.is_some());
        tokio::select! {
            () = sleep(pause) => {}
            _ = end => {}
        }
    }

    fn report(&self, presence: Presence) {
        self.reports.send_if_modified(|report| {
            let is_new = report.presence != presence;
            report.presence = presence;
            is_new
        });
    }

    fn report_present(&self, path: &str, revision: u64) {
        self.reports.send_if_modified(|report| {
            let presence = Presence::Present { path: path.to_owned() };
            let is_new = report.presence != presence || report.written != Some(revision);
            report.presence = presence;
            report.written = Some(revision);
            is_new
        });
    }
}

/// Returns whether the call may succeed later. A client's deadline is meant for single calls and does not end the
/// maintenance; a server without a quorum will have one again.
pub(super) fn is_transient(error: &Error) -> bool {
    let kind = error.kind();
    error.is_retriable() || matches!(kind, ErrorKind::DeadlineExceeded | ErrorKind::ReadOnly)
}

pub(super) fn is_end_of_client(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Closed | ErrorKind::AuthFailed)
}
