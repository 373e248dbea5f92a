//! The task that looks after a persistent node.
//!
//! One loop: look at the node, with a watch; do the one thing that is missing; look again. A write
//! whose reply was lost needs no care of its own: the next look shows whether it happened, and whose
//! the node is. Everything is done with a client bound to one session, so that nothing meant for
//! one session lands in the next.

use herdsman_client::{
    Client, Error, ErrorKind, Op, OpResult, Outcome, Result, Session, Stat, Watch, Zxid,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::pace::Pace;
use super::spec::Spec;
use super::{End, OnForeignNode, Presence, Report, Wish};
use crate::patient::session_lost;

pub(super) struct Keeper {
    pub(super) client: Client,
    pub(super) spec: Spec,
    wishes: watch::Receiver<Wish>,
    pub(super) reports: watch::Sender<Report>,
    /// Where the node is; of a sequential one this is known when it was created.
    pub(super) path: Option<String>,
    /// Which revision of the data we know to be in which incarnation of the node.
    written: Option<(Zxid, u64)>,
    /// When that was.
    written_at: Option<Instant>,
    /// A sequential create went out, and no reply has come.
    may_have_created: bool,
    pub(super) pace: Pace,
}

impl Keeper {
    pub(super) fn new(
        client: Client,
        spec: Spec,
        wishes: watch::Receiver<Wish>,
        reports: watch::Sender<Report>,
    ) -> Self {
        let path = (!spec.is_sequential).then(|| spec.path.clone());
        Keeper {
            client,
            spec,
            wishes,
            reports,
            path,
            written: None,
            written_at: None,
            may_have_created: false,
            pace: Pace::default(),
        }
    }

    pub(super) async fn run(mut self) {
        let ended = self.keep().await;
        // A session that is over has taken its ephemerals with it.
        let is_over =
            |error: &Error| is_end_of_client(error) || *error.kind() == ErrorKind::SessionExpired;
        let failure = match ended {
            Ok(End::Delete) => self.remove().await.err().filter(|error| !is_over(error)),
            Ok(End::LeaveInPlace) => None,
            Ok(End::MakePersistent) => self.make_persistent().await.err(),
            Err(error) => Some(error).filter(|error| !is_over(error)),
        };
        if let Some(error) = &failure {
            tracing::warn!(path = self.spec.path, %error, "the persistent node may stay behind");
        }
        self.reports.send_modify(|report| {
            report.presence = Presence::Ended;
            report.failure = failure;
        });
    }

    /// Keeps the node in one session after the other, until somebody ends it.
    async fn keep(&mut self) -> Result<End> {
        loop {
            // From here on every new wish wakes whoever waits for `changed`, until it is looked at
            // here. So no wish is overlooked, least of all the one to end.
            if let Some(end) = self.wishes.borrow_and_update().end {
                return Ok(end);
            }
            let connected = self.client.connected_session();
            let session = tokio::select! {
                session = connected => session?,
                _ = self.wishes.changed() => continue,
            };
            let kept = tokio::select! {
                biased;
                // Whatever is waited for, the node can no longer be believed in.
                () = session_lost(&session) => {
                    self.tell(Presence::Absent);
                    continue;
                }
                kept = self.keep_in(&session) => kept,
            };
            if let Err(error) = kept {
                self.cope_with(error).await?;
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
                self.meet_foreign(&client, &path, &stat, watch).await
            }
            Some(stat) => self.hold(&client, &path, &stat, watch).await,
        }
    }

    async fn create(&mut self, client: &Client, path: &str) -> Result<()> {
        self.tell(Presence::Absent);
        self.pause().await;
        let wish = self.wish();
        let create =
            client.create(path, wish.data).lifetime(self.spec.lifetime()).container_parents();
        match self.spec.with_acl(create).await {
            Ok(created) => self.note_written(created.stat.czxid, wish.revision),
            Err(error) if *error.kind() == ErrorKind::NodeExists => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn create_sequential(&mut self, client: &Client, session: &Session) -> Result<()> {
        if self.may_have_created {
            self.path = find_numbered(client, session, &self.spec.path).await?;
            self.may_have_created = false;
            return Ok(());
        }
        self.pause().await;
        let wish = self.wish();
        let create =
            client.create(&self.spec.path, wish.data).ephemeral().sequential().container_parents();
        let create = self.spec.with_acl(create);
        // Until it is known otherwise: this future may be dropped before the reply comes.
        self.may_have_created = true;
        let created = create.await;
        self.may_have_created =
            created.as_ref().is_err_and(|error| error.outcome() == Outcome::Unknown);
        let created = created?;
        self.note_written(created.stat.czxid, wish.revision);
        self.path = Some(created.path);
        Ok(())
    }

    async fn meet_foreign(
        &mut self,
        client: &Client,
        path: &str,
        stat: &Stat,
        watch: Watch,
    ) -> Result<()> {
        let is_leftover = stat.ephemeral_owner == 0 && self.written.is_none();
        let is_replaced = self.spec.replaces_leftover && is_leftover;
        if self.spec.on_foreign_node == OnForeignNode::Wait && !is_replaced {
            self.tell(Presence::Occupied);
            tokio::select! {
                event = watch => drop(event),
                _ = self.wishes.changed() => {}
            }
            return Ok(());
        }
        self.tell(Presence::Absent);
        self.pause().await;
        tracing::info!(path, owner = stat.ephemeral_owner, "replacing a node of another session");
        let wish = self.wish();
        let create = Op::create(path, wish.data).lifetime(self.spec.lifetime());
        let create = self.spec.op_with_acl(create);
        // In one transaction, so that those who watch do not see the node vanish for good.
        let replaced = client.transaction([Op::delete(path).version(stat.version), create]).await;
        match replaced {
            Ok(results) => {
                if let Some(OpResult::Created(created)) = results.last() {
                    self.note_written(created.stat.czxid, wish.revision);
                }
                Ok(())
            }
            // Somebody was faster; the next look tells.
            Err(error) if is_race(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The node is there and ours: sees to its data, and waits until something happens.
    async fn hold(
        &mut self,
        client: &Client,
        path: &str,
        stat: &Stat,
        mut watch: Watch,
    ) -> Result<()> {
        let mut wish = self.wish();
        while self.written == Some((stat.czxid, wish.revision)) {
            self.tell_present(path, wish.revision);
            tokio::select! {
                biased;
                // Whatever happened, even the end of the session: the next look tells.
                _ = &mut watch => return Ok(()),
                _ = self.wishes.changed() => wish = self.wish(),
            }
            if wish.end.is_some() {
                return Ok(());
            }
        }
        if !self.may_write_after_interval(path, &mut watch).await {
            return Ok(());
        }
        let wish = self.wish();
        // This also fires the watch, so it need not be removed.
        match client.set(path, wish.data).await {
            Ok(_) => self.note_written(stat.czxid, wish.revision),
            Err(error) if *error.kind() == ErrorKind::NoNode => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Waits until the data may be written again; false if something else has happened first.
    async fn may_write_after_interval(&mut self, path: &str, watch: &mut Watch) -> bool {
        let due = self.written_at.map(|last| last + self.spec.write_interval);
        let Some(due) = due.filter(|due| *due > Instant::now()) else {
            return true;
        };
        self.tell(Presence::Present { path: path.to_owned() });
        let end = self.wishes.wait_for(|wish| wish.end.is_some());
        tokio::select! {
            () = sleep_until(due) => true,
            event = watch => { drop(event); false }
            _ = end => false,
        }
    }

    fn note_written(&mut self, czxid: Zxid, revision: u64) {
        self.written = Some((czxid, revision));
        self.written_at = Some(Instant::now());
    }

    /// Fails only if there is nothing left to try.
    async fn cope_with(&mut self, error: Error) -> Result<()> {
        if is_end_of_client(&error) {
            return Err(error);
        }
        if *error.kind() == ErrorKind::SessionExpired {
            self.tell(Presence::Absent);
            return Ok(());
        }
        if is_passing(&error) {
            tracing::debug!(%error, "looking after a persistent node");
        } else {
            tracing::warn!(%error, "a persistent node is refused");
            self.tell(Presence::Refused(error));
        }
        self.pause().await;
        Ok(())
    }

    /// Deletes the node if it is ours.
    async fn remove(&mut self) -> Result<()> {
        // Nothing was ever sent: no need to wait for a connection.
        if self.pace.is_untouched() && self.written.is_none() {
            return Ok(());
        }
        loop {
            let session = self.client.connected_session().await?;
            match self.remove_in(&session).await {
                Ok(()) => return Ok(()),
                Err(error) if is_end_of_client(&error) => return Err(error),
                Err(error) if is_passing(&error) || is_race(&error) => {}
                Err(error) => return Err(error),
            }
            sleep(self.pace.pause_before_attempt(Instant::now())).await;
        }
    }

    async fn remove_in(&mut self, session: &Session) -> Result<()> {
        let client = self.client.bound_to(session);
        if self.may_have_created {
            self.path = find_numbered(&client, session, &self.spec.path).await?;
        }
        let Some(path) = &self.path else {
            return Ok(());
        };
        // An earlier attempt may have succeeded and somebody else be in the place: a server that is
        // behind must not show us what was before.
        client.sync(path).await?;
        match client.exists(path).await? {
            Some(stat) if self.spec.is_ours(&stat, session) => {
                client.delete(path).version(stat.version).await
            }
            _ => Ok(()),
        }
    }

    pub(super) fn wish(&self) -> Wish {
        self.wishes.borrow().clone()
    }

    /// Waits before an attempt, if there were many; cut short by the wish to end.
    async fn pause(&mut self) {
        let pause = self.pace.pause_before_attempt(Instant::now());
        if pause.is_zero() {
            return;
        }
        let end = self.wishes.wait_for(|wish| wish.end.is_some());
        tokio::select! {
            () = sleep(pause) => {}
            _ = end => {}
        }
    }

    fn tell(&self, presence: Presence) {
        self.reports.send_if_modified(|report| {
            let is_new = report.presence != presence;
            report.presence = presence;
            is_new
        });
    }

    fn tell_present(&self, path: &str, revision: u64) {
        self.reports.send_if_modified(|report| {
            let presence = Presence::Present { path: path.to_owned() };
            let is_new = report.presence != presence || report.written != Some(revision);
            report.presence = presence;
            report.written = Some(revision);
            is_new
        });
    }
}

/// The node that this session has made from a sequential `path`, if it did.
async fn find_numbered(client: &Client, session: &Session, path: &str) -> Result<Option<String>> {
    // This server may be another one than before, and not have heard of the node yet.
    client.sync(path).await?;
    let (parent, prefix) = path.rsplit_once('/').unwrap_or(("", path));
    let listed = client.children(if parent.is_empty() { "/" } else { parent }).await;
    let names = match listed {
        Ok(children) => children.names,
        Err(error) if *error.kind() == ErrorKind::NoNode => return Ok(None),
        Err(error) => return Err(error),
    };
    for name in names {
        let is_numbered = name.strip_prefix(prefix).is_some_and(|number| number.len() >= 10);
        if !is_numbered {
            continue;
        }
        let path = format!("{parent}/{name}");
        let stat = client.exists(&path).await?;
        if stat.is_some_and(|stat| stat.ephemeral_owner == session.id().0) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Nothing is wrong with the call, only with the time. A client's deadline is meant for single calls
/// and does not end our care; a server without a quorum will have one again.
pub(super) fn is_passing(error: &Error) -> bool {
    let kind = error.kind();
    error.is_retriable() || matches!(kind, ErrorKind::DeadlineExceeded | ErrorKind::ReadOnly)
}

pub(super) fn is_end_of_client(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Closed | ErrorKind::AuthFailed)
}

pub(super) fn is_race(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NoNode | ErrorKind::NodeExists | ErrorKind::BadVersion)
}
