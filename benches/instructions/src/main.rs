//! Runs one operation of the server many times, under a tool that counts instructions.
//!
//! In: the name of a case and a number of iterations. Out: only the executed instructions. Run with N
//! and with 2 N iterations, the difference is the cost of N operations: startup, setup and anything that
//! happens only once cancel out. `cargo xtask instructions` does that with callgrind, for every case,
//! and compares with `baseline.txt`.
//!
//! To make runs comparable, hash tables have fixed seeds, all data is generated here, there is one
//! thread and no clock, and no setup depends on the number of iterations.
//! Deliberately not here: sockets, system calls, thread wakeups. Instructions do not show their
//! cost; `herdsman bench` measures it.

mod cases;
mod crowds;
mod decode;
mod encode;
mod fixture;
mod log;
mod node;
mod read;
mod write;

use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use cases::{CASES, Case};

const USAGE: &str = "usage: herdsman-instructions CASE ITERATIONS, or --list";

fn main() -> ExitCode {
    match execute(&std::env::args().skip(1).collect::<Vec<_>>()) {
        // Exit without dropping the results of the operations: the more iterations, the more
        // there would be to drop, and that is not part of the operation.
        Ok(()) => std::process::exit(0),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn execute(arguments: &[String]) -> Result<()> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--list"] => list(),
        [name, iterations] => run(name, iterations)?,
        _ => bail!(USAGE),
    }
    Ok(())
}

/// Prints a line for each case: its name, N, and its description.
fn list() {
    for Case { name, iterations, about, .. } in CASES {
        println!("{name} {iterations} {about}");
    }
}

fn run(name: &str, iterations: &str) -> Result<()> {
    let case = CASES.iter().find(|case| case.name == name);
    let case = case.with_context(|| format!("there is no case `{name}`; see --list"))?;
    let iterations: usize = iterations
        .parse()
        .with_context(|| format!("`{iterations}` is not a number of iterations; {USAGE}"))?;
    ensure!(
        iterations <= case.iterations_max(),
        "{name} is prepared for {} iterations, not for {iterations}",
        case.iterations_max(),
    );
    let mut operation = (case.set_up)();
    for index in 0..iterations {
        operation(index);
    }
    std::mem::forget(operation);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(arguments: &[&str]) -> String {
        let arguments: Vec<_> = arguments.iter().map(ToString::to_string).collect();
        execute(&arguments).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        assert_eq!(said(&[]), USAGE);
        assert_eq!(said(&["digest-znode"]), USAGE);
        assert_eq!(said(&["digest-znodes", "1"]), "there is no case `digest-znodes`; see --list");
        assert!(said(&["digest-znode", "many"]).contains("`many` is not a number"));
        assert!(said(&["digest-znode", "1000000"]).contains("not for 1000000"));
    }
}
