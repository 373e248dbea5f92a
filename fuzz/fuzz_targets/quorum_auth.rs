//! libFuzzer entry point of `targets::quorum_auth`.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| herdsman_fuzz::targets::quorum_auth::run(bytes));

#[cfg(not(fuzzing))]
fn main() {}
