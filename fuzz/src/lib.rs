//! Fuzz targets for every decoder of untrusted bytes: the wire, the disk.
//!
//! A target is a function that must return for all inputs, and that asserts more than
//! that: a decoded value is encoded and decoded again, and must be equal. The same functions run
//! in two ways.
//! - With libFuzzer: `cargo +nightly fuzz run request fuzz/corpus/request fuzz/seeds/request`. What it
//!   finds goes to `corpus/`, which is not committed; a finding worth keeping is added to the seeds.
//! - Without: `cargo test -p herdsman-fuzz` runs every seed and a fixed number of
//!   deterministic mutations of them on a stable compiler. CI does that.
//!
//! `cargo xtask fuzz --minutes N` looks for new inputs, with libFuzzer if a nightly toolchain and cargo-fuzz are
//! installed, else with random mutations.
//!
//! The seeds in `seeds/` come from our own encoders: `cargo run -p herdsman-fuzz --bin
//! seeds` writes them, and a test fails if they do not match the code.

pub mod inputs;
pub mod mutate;
pub mod seeds;
pub mod targets;
