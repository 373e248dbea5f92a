//! libFuzzer entry point of `targets::connect`.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| herdsman_fuzz::targets::connect::run(bytes));

#[cfg(not(fuzzing))]
fn main() {}
