//! Live tests of all recipes: one module a recipe, real servers in this process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod apache_elections;
mod apache_locks;
mod barrier;
mod barrier_size;
mod cache;
mod config;
mod connection_count;
mod counter;
mod deadlock;
mod discovery;
mod election;
mod election_faults;
mod election_latch;
mod election_race;
mod election_random;
mod holder_sweeps;
mod ids;
mod lagging_server;
mod lease_lock;
mod live_progress;
mod lock;
mod lock_loss;
mod master_worker;
mod master_worker_chaos;
mod master_worker_keys;
mod membership;
mod messaging;
mod monitor;
mod naming;
mod other_server;
mod partitioner;
mod persistent_node;
mod queue_kinds;
mod queue_older_servers;
mod queue_simple;
mod queue_storm;
mod queue_sweeps;
mod queue_work;
mod read_only;
mod rw_lock;
mod semaphore;
mod shared_value;
mod single_master;
mod world;
