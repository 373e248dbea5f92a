//! `herdsman recipe` as a user meets it: processes, what they print, and how they end.

mod barrier;
mod config;
mod discovery;
mod election;
mod ids;
mod lock;
mod locks;
mod mistakes;
mod queue;
mod terminal;
