//! What a node promises: whole scenarios as text scripts, and properties over random inputs.

mod cluster;
mod crowds;
mod driver;
mod durability;
mod ensemble;
mod golden;
mod lifetimes;
mod replies;
mod script;
mod transcript;
#[path = "../../../tree/tests/tree/words.rs"]
mod words;
