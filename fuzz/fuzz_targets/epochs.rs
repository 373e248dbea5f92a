//! libFuzzer entry point of `targets::epochs`.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| herdsman_fuzz::targets::epochs::run(bytes));

#[cfg(not(fuzzing))]
fn main() {}
