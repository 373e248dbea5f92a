//! What a node promises: whole scenarios as text scripts, and properties over random inputs.

mod crowds;
mod driver;
mod durability;
mod ensemble;
mod golden;
mod lifetimes;
mod replies;
mod room;
mod script;
mod transcript;
#[path = "../../../tree/tests/tree/words.rs"]
mod words;
