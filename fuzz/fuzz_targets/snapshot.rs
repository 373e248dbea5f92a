//! libFuzzer entry point of `targets::snapshot`.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| herdsman_fuzz::targets::snapshot::run(bytes));

#[cfg(not(fuzzing))]
fn main() {}
