//! Does one operation of the server so many times, under a tool that counts instructions.
//!
//! In: the name of a case and a number of iterations. Out: nothing but the instructions. Run with N
//! and with 2 N iterations, the difference is what N operations cost: start-up, set-up and whatever
//! happens only once cancel out. `cargo xtask instructions` does that with callgrind, for every case,
//! and compares with `baseline.txt`.
//!
//! So that two runs count the same: hash tables have fixed seeds, data is made up here, there is one
//! thread and no clock, and nothing that a set-up does depends on the number of iterations.
//! Deliberately not here: sockets, system calls, threads waking each other. What those cost is not
//! told by instructions; `herdsman bench` measures it.

mod cases;
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
        // Now, without dropping what the operations have built up: the more iterations, the more
        // there would be to drop, and it is not part of the operation.
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

/// A line for each case: its name, N, and what it does.
fn list() {
    for Case { name, iterations, about, .. } in CASES {
        println!("{name} {iterations} {about}");
    }
}

fn run(name: &str, iterations: &str) -> Result<()> {
    let case = CASES.iter().find(|case| case.name == name);
    let case = case.with_context(|| format!("no case is called `{name}`; --list shows them"))?;
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
        assert_eq!(
            said(&["digest-znodes", "1"]),
            "no case is called `digest-znodes`; --list shows them"
        );
        assert!(said(&["digest-znode", "many"]).contains("`many` is not a number"));
        assert!(said(&["digest-znode", "1000000"]).contains("not for 1000000"));
    }
}
