//! The task of one member.
//!
//! One loop in each session: wait until something is due, decide with [`super::plan`], do it. As soon as the session
//! cannot be trusted any more, the items are forgotten and reported as lost, whatever the task waits for at that
//! moment: a server, or a user that does not read updates. If the session turns out to be alive, its owner nodes are
//! found again and adopted. When the user leaves, all owner nodes of this partitioner are searched for and removed,
//! because there may be some that it does not know of: a reply was lost, or the session was believed dead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use herdsman_client::{Client, Session, Zxid};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::plan::{Held, Owner, Plan, Situation};
use super::{Holdings, OwnerRecord, Release, Update, owned, owner_of};
use crate::contact::{live_session, session_lost};
use crate::membership::roster::Snapshot;
use crate::messaging::envelope::to_json;
use crate::owned_node::OwnedNode;
use crate::path::child;
use crate::persistent_node::PersistentNode;
use crate::retrying::retrying;

/// The pause before another attempt at a request that a server rejected.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The directories in the tree.
#[derive(Clone, Debug)]
pub(super) struct Directories {
    pub(super) members: String,
    pub(super) owners: String,
}

impl Directories {
    pub(super) fn below(path: &str) -> Self {
        Directories { members: child(path, "members"), owners: child(path, "owners") }
    }
}

/// Items, and [`Held::generation`] of each.
pub(super) type Generations = BTreeMap<String, u64>;

/// Confirms that the user no longer works on these items. An item may have been lost and acquired again since the user
/// was asked, even with the same owner node.
#[derive(Debug)]
pub(super) struct Acknowledged(pub(super) Generations);

/// Why the loop of a session ends.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    /// The user has left.
    Left,
    SessionLost,
}

pub(super) struct Divider {
    client: Client,
    /// The data of this partitioner's owner nodes.
    identity: OwnerRecord,
    items: BTreeSet<String>,
    directories: Directories,
    members: watch::Receiver<Snapshot<i64>>,
    owners: watch::Receiver<Snapshot<Owner>>,
    updates: mpsc::Sender<Update>,
    owned: watch::Sender<Holdings>,
    confirm: mpsc::UnboundedSender<Acknowledged>,
    confirmed: mpsc::UnboundedReceiver<Acknowledged>,
    held: BTreeMap<String, Held>,
    /// How often items were acquired so far.
    generation: u64,
    deleting: BTreeMap<String, Zxid>,
    /// Updates that the user has not received yet. Nothing else is done while there are any, so the queue stays
    /// short.
    pending_updates: VecDeque<Update>,
}

impl Divider {
    pub(super) fn new(
        client: Client,
        member: String,
        items: BTreeSet<String>,
        directories: Directories,
    ) -> Self {
        let (confirm, confirmed) = mpsc::unbounded_channel();
        let identity = OwnerRecord { member, nonce: Uuid::new_v4().to_string() };
        Divider {
            client,
            identity,
            items,
            directories,
            members: watch::channel(Snapshot::empty()).1,
            owners: watch::channel(Snapshot::empty()).1,
            updates: mpsc::channel(1).0,
            owned: watch::channel(Holdings::default()).0,
            confirm,
            confirmed,
            held: BTreeMap::new(),
            generation: 0,
            deleting: BTreeMap::new(),
            pending_updates: VecDeque::new(),
        }
    }

    /// Sets the snapshots that it reads.
    pub(super) fn with_snapshots(
        self,
        members: watch::Receiver<Snapshot<i64>>,
        owners: watch::Receiver<Snapshot<Owner>>,
    ) -> Self {
        Divider { members, owners, ..self }
    }

    /// Sets the channels to which it sends updates.
    pub(super) fn with_senders(
        self,
        updates: mpsc::Sender<Update>,
        owned: watch::Sender<Holdings>,
    ) -> Self {
        Divider { updates, owned, ..self }
    }

    /// Runs until the user leaves or the client is closed.
    pub(super) async fn run(mut self, node: PersistentNode, settle: Duration) {
        let updates = self.updates.clone();
        let mut latest: Option<Session> = None;
        loop {
            let session = tokio::select! {
                session = live_session(&self.client) => session,
                () = updates.closed() => break,
                Ok(place) = updates.reserve(), if !self.pending_updates.is_empty() => {
                    self.send_next(place);
                    continue;
                }
            };
            let Ok(session) = session else {
                return;
            };
            let ending = self.divide_in(&session, settle).await;
            latest = Some(session);
            match ending {
                Ending::Left => break,
                Ending::SessionLost => self.lose_all(),
            }
        }
        if let Some(session) = latest {
            self.give_up_all(&session).await;
        }
        // Without a connection the node is deleted later, or ends with its session.
        if let Err(error) = node.close().await {
            tracing::debug!(%error, "the member's node was not deleted on leaving a partition");
        }
    }

    async fn divide_in(&mut self, session: &Session, settle: Duration) -> Ending {
        let client = self.client.bound_to(session);
        let updates = self.updates.clone();
        let mut due = Some(Instant::now() + settle);
        loop {
            tokio::select! {
                biased;
                () = self.updates.closed() => return Ending::Left,
                () = session_lost(session) => return Ending::SessionLost,
                Some(acknowledged) = self.confirmed.recv() => self.give_up(&client, acknowledged),
                Ok(()) = self.members.changed() => due = Some(Instant::now() + settle),
                Ok(()) = self.owners.changed() => due = due.or(Some(Instant::now())),
                Ok(place) = updates.reserve(), if !self.pending_updates.is_empty() => self.send_next(place),
                () = sleep_until_some(due), if self.pending_updates.is_empty() => {
                    due = tokio::select! {
                        biased;
                        () = session_lost(session) => return Ending::SessionLost,
                        next = self.act(&client, session) => next,
                    };
                }
            }
        }
    }

    /// Does what is due. Returns the time at which to try again, if something failed. May be dropped at any moment:
    /// an owner node that was created by then is found again.
    async fn act(&mut self, client: &Client, session: &Session) -> Option<Instant> {
        let plan = self.plan(session);
        let in_a_moment = || Some(Instant::now() + RETRY_PAUSE);
        let Ok(lost) = self.find_lost(client, &plan.doubtful).await else {
            return in_a_moment();
        };
        self.discard(client, &plan.discard);
        let (mut acquired, is_complete) = self.acquire(client, &plan.acquire).await;
        acquired.extend(plan.adopt);
        self.generation += 1;
        let generation = self.generation;
        let holds = |(item, czxid): (&String, &Zxid)| {
            (item.clone(), Held { czxid: *czxid, generation, is_leaving: false })
        };
        self.forget(&lost);
        self.held.extend(acquired.iter().map(holds));
        let release = self.begin_release(&plan.release);
        self.owned.send_modify(|owned| owned.session = Some(session.clone()));
        self.publish_owned();
        // Items that were lost are free, or will be: the plan did not know that yet.
        let next = if lost.is_empty() { None } else { Some(Instant::now()) };
        self.note_updates(lost, &acquired, release);
        if is_complete { next } else { in_a_moment() }
    }

    fn plan(&mut self, session: &Session) -> Plan {
        let members = self.members.borrow_and_update().clone();
        let members = members.iter().map(|(id, owner)| (id.to_owned(), **owner)).collect();
        let owners = self.owners.borrow_and_update().clone();
        let owners = owners.iter().map(|(item, owner)| (item.to_owned(), (**owner).clone()));
        let owners: BTreeMap<String, Owner> = owners.collect();
        let is_seen = |item: &String, czxid: &mut Zxid| {
            owners.get(item).is_some_and(|owner| owner.czxid == *czxid)
        };
        self.deleting.retain(is_seen);
        let situation = Situation {
            member: &self.identity.member,
            nonce: &self.identity.nonce,
            session: session.id().0,
            items: &self.items,
            members: &members,
            owners: &owners,
            held: &self.held,
            deleting: &self.deleting,
        };
        situation.plan()
    }

    /// Returns the doubtful items whose owner node is really not ours any more.
    async fn find_lost(
        &self,
        client: &Client,
        doubtful: &BTreeSet<String>,
    ) -> herdsman_client::Result<BTreeSet<String>> {
        let mut lost = BTreeSet::new();
        for item in doubtful {
            let stat = client.exists(&child(&self.directories.owners, item)).await?;
            let held = self.held.get(item).map(|held| held.czxid);
            if stat.map(|stat| stat.czxid) != held {
                lost.insert(item.clone());
            }
        }
        Ok(lost)
    }

    /// Creates owner nodes. Items with another owner are skipped; a node that was created although its reply was lost
    /// will be seen. Returns false if something should be tried again.
    async fn acquire(
        &self,
        client: &Client,
        items: &BTreeSet<String>,
    ) -> (BTreeMap<String, Zxid>, bool) {
        let create = |item: &String| {
            let path = child(&self.directories.owners, item);
            client.create(&path, to_json(&self.identity)).ephemeral().container_parents().send()
        };
        let sent: Vec<_> = items.iter().map(|item| (item, create(item))).collect();
        let (mut acquired, mut is_complete) = (BTreeMap::new(), true);
        for (item, created) in sent {
            match created.await {
                Ok(created) => drop(acquired.insert(item.clone(), created.stat.czxid)),
                Err(error) if error.is_node_exists() => {}
                Err(error) => {
                    tracing::debug!(%error, item, "an item was not acquired; trying again");
                    is_complete = false;
                }
            }
        }
        (acquired, is_complete)
    }

    fn begin_release(&mut self, items: &BTreeSet<String>) -> Generations {
        let mut release = Generations::new();
        for item in items {
            if let Some(held) = self.held.get_mut(item) {
                held.is_leaving = true;
                release.insert(item.clone(), held.generation);
            }
        }
        release
    }

    /// Deletes the owner nodes of items on which the user no longer works.
    fn give_up(&mut self, client: &Client, acknowledged: Acknowledged) {
        let Acknowledged(generations) = acknowledged;
        let is_meant =
            |item: &String, held: &mut Held| generations.get(item) == Some(&held.generation);
        let given_up = self.held.extract_if(.., is_meant).map(|(item, held)| (item, held.czxid));
        let given_up = given_up.collect();
        self.publish_owned();
        self.discard(client, &given_up);
    }

    fn discard(&mut self, client: &Client, items: &BTreeMap<String, Zxid>) {
        for (item, czxid) in items {
            let path = child(&self.directories.owners, item);
            OwnedNode::at_reused_path(client.clone(), &path, *czxid).remove_in_background();
            self.deleting.insert(item.clone(), *czxid);
        }
    }

    /// Deletes all owner nodes. Waits until that is done, or the session cannot be trusted any more; it then
    /// continues in the background.
    async fn give_up_all(&mut self, session: &Session) {
        self.held.clear();
        self.publish_owned();
        let search = OwnerSearch {
            client: retrying(&self.client.bound_to(session)),
            session: session.id().0,
            nonce: self.identity.nonce.clone(),
            items: std::mem::take(&mut self.items),
            owners: self.directories.owners.clone(),
        };
        let mut removal = JoinSet::new();
        removal.spawn(async move {
            if let Err(error) = search.remove_all().await {
                tracing::debug!(%error, "the owner nodes were not deleted; they end with their session");
            }
        });
        tokio::select! {
            () = all_of(&mut removal) => {}
            () = session_lost(session) => {}
        }
        removal.detach_all();
    }

    /// Reports all items as lost, because the session cannot be trusted any more.
    fn lose_all(&mut self) {
        let lost = std::mem::take(&mut self.held).into_keys().collect();
        self.publish_owned();
        self.note_updates(lost, &BTreeMap::new(), Generations::new());
    }

    fn forget(&mut self, items: &BTreeSet<String>) {
        self.held.retain(|item, _| !items.contains(item));
    }

    fn publish_owned(&self) {
        let now = self.held.iter().map(|(item, held)| (item.clone(), held.czxid)).collect();
        self.owned.send_modify(|owned| owned.items = now);
    }

    fn send_next(&mut self, place: mpsc::Permit<'_, Update>) {
        if let Some(update) = self.pending_updates.pop_front() {
            place.send(update);
        }
    }

    /// Queues what the user has to learn next.
    fn note_updates(
        &mut self,
        lost: BTreeSet<String>,
        acquired: &BTreeMap<String, Zxid>,
        release: Generations,
    ) {
        if !lost.is_empty() {
            self.pending_updates.push_back(Update::Lost(lost));
        }
        if !acquired.is_empty() {
            let items = acquired.iter().map(|(item, czxid)| owned(item, *czxid)).collect();
            self.pending_updates.push_back(Update::Acquired(items));
        }
        if !release.is_empty() {
            let release = Release { items: release, confirm: self.confirm.clone() };
            self.pending_updates.push_back(Update::Release(release));
        }
    }
}

/// Finds the owner nodes that one partitioner has created in one session.
struct OwnerSearch {
    /// The client, bound to the session and with endless retries.
    client: Client,
    session: i64,
    nonce: String,
    items: BTreeSet<String>,
    owners: String,
}

impl OwnerSearch {
    /// Removes all of them. Fails only if the session has ended or the client is closed.
    async fn remove_all(self) -> herdsman_client::Result<()> {
        // Sent after every request to create one, so it sees all that were applied.
        self.client.sync(&self.owners).await?;
        let paths = self.items.iter().map(|item| child(&self.owners, item));
        let reads: Vec<_> = paths.map(|path| (self.client.get(&path).send(), path)).collect();
        let mut removals = JoinSet::new();
        for (read, path) in reads {
            let owner = match read.await {
                Err(error) if error.is_no_node() => continue,
                read => owner_of(&path, &read?),
            };
            if owner.session == self.session && owner.nonce == self.nonce {
                let node = OwnedNode::at_reused_path(self.client.clone(), &path, owner.czxid);
                // It fails if the node did not exist any more.
                removals.spawn(async move { drop(node.remove().await) });
            }
        }
        all_of(&mut removals).await;
        Ok(())
    }
}

async fn all_of(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

async fn sleep_until_some(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
