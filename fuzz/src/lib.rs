//! Fuzz targets for every decoder of bytes that come from outside: the wire, the disk.
//!
//! A target is a function over bytes that must return, whatever they are, and that asserts more than
//! that: what was decoded is encoded and decoded again, and must be equal. The same functions run
//! in two ways.
//! - With libFuzzer: `cargo +nightly fuzz run request fuzz/corpus/request fuzz/seeds/request`. What it
//!   finds goes to `corpus/`, which is not kept; a finding worth keeping is put among the seeds.
//! - Without: `cargo test --manifest-path fuzz/Cargo.toml` runs every seed and a fixed number of
//!   deterministic mutations of them on a stable compiler. CI does that. `FUZZ_MUTATIONS=1000000`
//!   makes it longer.
//!
//! The seeds in `seeds/` are made by our own encoders: `cargo run --manifest-path fuzz/Cargo.toml --bin
//! seeds` writes them, and a test fails when they no longer fit the code.

pub mod mutate;
pub mod seeds;
pub mod targets;
