//! What the view of recipes shows, in the words of the HTTP contract.

use serde::Serialize;

/// All recipes that were found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Recipes {
    /// Locks, shared locks and semaphores.
    pub locks: Vec<LockView>,
    /// Elections.
    pub elections: Vec<ElectionView>,
    /// Barriers.
    pub barriers: Vec<BarrierView>,
    /// Queues.
    pub queues: Vec<QueueView>,
    /// Services that others discover.
    pub services: Vec<ServiceView>,
    /// Other znodes whose children go with their sessions: members of groups.
    pub groups: Vec<GroupView>,
    /// Owners that wait for each other.
    pub deadlocks: Vec<DeadlockView>,
    /// Znodes that were looked at.
    pub scanned: usize,
    /// There is more than is shown.
    pub truncated: bool,
}

/// Somebody's node in a recipe.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlaceView {
    /// The name of the node.
    pub node: String,
    /// Whose it is.
    pub session: Option<String>,
    /// Since when it is there.
    pub since_ms: i64,
    /// The beginning of its data.
    pub payload: Option<String>,
    /// Where its client is connected from, if to this server.
    pub peer: Option<String>,
    /// How it wants a lock that can be shared.
    pub mode: Option<&'static str>,
}

/// Somebody who waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WaiterView {
    /// Who.
    #[serde(flatten)]
    pub place: PlaceView,
    /// For which nodes to go: all of them, or any of them if it is a semaphore.
    pub waits_for: Vec<String>,
}

/// A lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LockView {
    /// Where.
    pub path: String,
    /// Whose names its nodes have.
    pub layout: &'static str,
    /// What sort of lock.
    pub kind: &'static str,
    /// Who holds it, the first ones.
    pub holders: Vec<PlaceView>,
    /// How many hold it.
    pub holders_total: usize,
    /// Who waits for it, the first ones.
    pub waiters: Vec<WaiterView>,
    /// How many wait for it.
    pub waiters_total: usize,
}

/// An election.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ElectionView {
    /// Where.
    pub path: String,
    /// Whose names its nodes have.
    pub layout: &'static str,
    /// Who leads.
    pub leader: Option<PlaceView>,
    /// Who would lead next, the first ones.
    pub candidates: Vec<WaiterView>,
    /// How many would.
    pub candidates_total: usize,
}

/// A barrier.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BarrierView {
    /// Where.
    pub path: String,
    /// `barrier`, `double barrier` or `count-down latch`.
    pub kind: &'static str,
    /// For how many it is, where that is kept.
    pub size: Option<u32>,
    /// How many are there, or were counted.
    pub members: usize,
    /// Whether who waits may go on.
    pub open: bool,
    /// Since when it is there.
    pub since_ms: i64,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueueView {
    /// Where.
    pub path: String,
    /// What sort of queue.
    pub kind: &'static str,
    /// How many items there are, or who waits for a turn.
    pub depth: usize,
    /// When the oldest of them came.
    pub oldest_ms: Option<i64>,
    /// How many of them somebody works on, where that can be seen.
    pub taken: Option<usize>,
    /// How many consumers stand in line for an item.
    pub consumers_waiting: usize,
}

/// A service.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServiceView {
    /// Where its instances are.
    pub path: String,
    /// Its name.
    pub name: String,
    /// Its instances, the first ones.
    pub instances: Vec<InstanceView>,
    /// How many there are.
    pub instances_total: usize,
}

/// An instance of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct InstanceView {
    /// Its id.
    pub id: String,
    /// Where it is.
    pub address: Option<String>,
    /// Its port.
    pub port: Option<u16>,
    /// Its port for TLS.
    pub ssl_port: Option<u16>,
    /// Whether it may be picked.
    pub enabled: bool,
    /// Whose it is; nobody's if it stays when its program goes.
    pub session: Option<String>,
    /// Since when it is there.
    pub since_ms: i64,
    /// The beginning of what it says of itself.
    pub payload: Option<String>,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupView {
    /// Where.
    pub path: String,
    /// Its members, the first ones.
    pub members: Vec<PlaceView>,
    /// How many there are.
    pub members_total: usize,
}

/// Owners that wait for each other, so that none of them can go on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeadlockView {
    /// Each waits for the next one, and the last one for the first.
    pub cycle: Vec<StuckView>,
    /// How many others wait for them.
    pub also_stuck: usize,
    /// The same in a sentence.
    pub text: String,
}

/// One of those who wait for each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StuckView {
    /// Whose session.
    pub session: String,
    /// Where the one before waits for it.
    pub holds: String,
    /// Where it waits.
    pub waits_for: String,
}
