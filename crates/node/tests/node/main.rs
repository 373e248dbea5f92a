//! What a node promises: whole scenarios as text scripts, and properties over random inputs.

mod driver;
mod durability;
mod script;
#[path = "../../../tree/tests/tree/words.rs"]
mod words;
