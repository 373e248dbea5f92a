//! `herdsman recipe` as processes: their output and exit codes.

mod barrier;
mod config;
mod counter;
mod discovery;
mod dispatch;
mod election;
mod examples;
mod group;
mod ids;
mod lock;
mod locks;
mod master_worker;
mod mistakes;
mod monitor;
mod partition;
mod queue;
mod semaphore;
mod terminal;
