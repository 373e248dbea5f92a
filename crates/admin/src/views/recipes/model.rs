//! The JSON of the recipes view.

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
    /// Services for discovery.
    pub services: Vec<ServiceView>,
    /// Groups: other znodes with ephemeral children.
    pub groups: Vec<GroupView>,
    /// Deadlocks.
    pub deadlocks: Vec<DeadlockView>,
    /// The number of scanned znodes.
    pub scanned: usize,
    /// Whether there is more than is shown.
    pub truncated: bool,
}

/// A node of a recipe.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeView {
    /// The name of the node.
    pub node: String,
    /// The session that owns it.
    pub session: Option<String>,
    /// When it was created, in milliseconds since 1970.
    pub since_ms: i64,
    /// The beginning of its data.
    pub payload: Option<String>,
    /// The address of its client, if it is connected to this server.
    pub peer: Option<String>,
    /// The mode of a lock that can be shared.
    pub mode: Option<&'static str>,
}

/// A waiting client.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WaiterView {
    /// Its node.
    #[serde(flatten)]
    pub place: NodeView,
    /// The nodes that must be deleted first: all of them, or any of them for a semaphore.
    pub waits_for: Vec<String>,
}

/// A lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LockView {
    /// Its path.
    pub path: String,
    /// The library whose layout its nodes have.
    pub layout: &'static str,
    /// The kind of lock.
    pub kind: &'static str,
    /// The first holders.
    pub holders: Vec<NodeView>,
    /// The number of holders.
    pub holders_total: usize,
    /// The first waiters.
    pub waiters: Vec<WaiterView>,
    /// The number of waiters.
    pub waiters_total: usize,
}

/// An election.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ElectionView {
    /// Its path.
    pub path: String,
    /// The library whose layout its nodes have.
    pub layout: &'static str,
    /// The leader.
    pub leader: Option<NodeView>,
    /// The first candidates.
    pub candidates: Vec<WaiterView>,
    /// The number of candidates.
    pub candidates_total: usize,
}

/// A barrier.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BarrierView {
    /// Its path.
    pub path: String,
    /// `barrier`, `double barrier` or `count-down latch`.
    pub kind: &'static str,
    /// The number of clients it is for, if that is stored.
    pub size: Option<u32>,
    /// The number of clients that are there or were counted.
    pub members: usize,
    /// Whether waiting clients may proceed.
    pub open: bool,
    /// When it was created, in milliseconds since 1970.
    pub since_ms: i64,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueueView {
    /// Its path.
    pub path: String,
    /// The kind of queue.
    pub kind: &'static str,
    /// The number of items, or of tickets.
    pub depth: usize,
    /// When the oldest item was created.
    pub oldest_ms: Option<i64>,
    /// The number of items in work, if that is visible.
    pub taken: Option<usize>,
    /// The number of waiting consumers.
    pub consumers_waiting: usize,
}

/// A service.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServiceView {
    /// The path of its instances.
    pub path: String,
    /// Its name.
    pub name: String,
    /// The first instances.
    pub instances: Vec<InstanceView>,
    /// Their number.
    pub instances_total: usize,
}

/// An instance of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct InstanceView {
    /// Its id.
    pub id: String,
    /// Its address.
    pub address: Option<String>,
    /// Its port.
    pub port: Option<u16>,
    /// Its port for TLS.
    pub ssl_port: Option<u16>,
    /// Whether clients may use it.
    pub enabled: bool,
    /// The session that owns it; `None` if it is static.
    pub session: Option<String>,
    /// When it was created, in milliseconds since 1970.
    pub since_ms: i64,
    /// The beginning of its payload.
    pub payload: Option<String>,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupView {
    /// Its path.
    pub path: String,
    /// The first members.
    pub members: Vec<NodeView>,
    /// Their number.
    pub members_total: usize,
}

/// A deadlock: owners that wait for each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeadlockView {
    /// Each waits for the next one, and the last one for the first.
    pub cycle: Vec<DeadlockStep>,
    /// The number of other owners that wait for them.
    pub also_stuck: usize,
    /// A description.
    pub text: String,
}

/// An owner in a deadlock.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeadlockStep {
    /// Its session.
    pub session: String,
    /// The lock that it holds.
    pub holds: String,
    /// The lock for which it waits.
    pub waits_for: String,
}
