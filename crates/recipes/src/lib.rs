//! Ready-made recipes for ZooKeeper: locks, elections, queues, barriers, counters, ids, caches, configuration,
//! naming, discovery, membership, partitioning and master–worker.
//!
//! All recipes run over [`herdsman_client`] against Herdsman or Apache ZooKeeper, keep working through the loss of a
//! connection, and leave no node behind when a reply is lost. Node layouts are Curator's where Curator has the
//! recipe. The project's `docs/recipes.md` describes for each recipe what it guarantees, what it does not, and what
//! it costs. Guards share the trait [`Guard`] and the settings [`HoldOptions`]; recipes report events as a stream,
//! [`Events`].

pub mod balance;
pub mod barrier;
pub mod cache;
mod claim;
pub mod codec;
mod conditional_set;
pub mod config;
mod contact;
pub mod counter;
pub mod discovery;
pub mod election;
mod error;
mod events;
mod guard;
mod hold;
mod hold_options;
pub mod ids;
mod line;
pub mod lock;
pub mod master_worker;
pub mod membership;
pub mod messaging;
pub mod monitor;
pub mod naming;
mod owned_node;
pub mod partition;
pub mod partitioner;
mod path;
pub mod persistent_node;
pub mod queue;
mod retrying;
pub mod semaphore;
pub mod sequence;
pub mod shared_value;
pub mod snowflake;
mod stable_hash;
mod tagged_node;
mod until_known;
pub mod versioned_cell;
pub mod wait_for;
mod witness;
pub mod worker_id;

pub use barrier::{Barrier, CountDownLatch, DoubleBarrier, Inside};
pub use cache::{CacheEvent, ChildrenCache, NodeCache, TreeCache};
pub use config::{Config, ConfigOptions, ConfigUpdate, Publisher, Versioned};
pub use counter::{AtomicInt, AtomicLong, Change, Counter};
pub use discovery::{Registration, Registry, ServiceCache, ServiceInstance, ServiceProvider};
pub use election::{Election, LeaderLatch, Leadership, Race, Selector};
pub use error::{Error, Result};
pub use events::Events;
pub use guard::Guard;
pub use hold::Hold;
pub use hold_options::{HoldOptions, LostWhen};
pub use line::Layout;
pub use lock::{
    LeaseGuard, LeaseLock, Lock, LockGuard, MultiGuard, MultiLock, NaiveGuard, NaiveLock,
    ReadGuard, ReentrantGuard, ReentrantLock, ReentrantRwGuard, ReentrantRwLock, RwLock,
    WriteGuard,
};
pub use master_worker::{Master, Submitter, Worker};
pub use membership::{Group, Membership, ShallowGroup};
pub use messaging::{CommandClient, Dispatcher, Heartbeat, HeartbeatMonitor};
pub use monitor::{Monitor, Reporter};
pub use naming::NameRegistry;
pub use partitioner::Partitioner;
pub use persistent_node::PersistentNode;
pub use queue::{
    DelayQueue, IdQueue, PriorityQueue, Queue, ShardedQueue, Ticket, TicketQueue, WorkItem,
    WorkQueue,
};
pub use semaphore::{Permit, Semaphore};
pub use shared_value::{Shared, SharedCount, SharedValue};
pub use versioned_cell::VersionedCell;
pub use worker_id::{WorkerIds, WorkerLease};

/// The examples of the README, which are compiled with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
