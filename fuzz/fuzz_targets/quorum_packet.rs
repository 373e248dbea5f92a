//! libFuzzer entry point of `targets::quorum_packet`.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| herdsman_fuzz::targets::quorum_packet::run(bytes));

#[cfg(not(fuzzing))]
fn main() {}
