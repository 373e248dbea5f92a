//! Runs other programs: a failure is an error with the end of their output.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::paths;

/// Set in the environment of commands for which all programs of this workspace are already built.
pub const BUILT_VARIABLE: &str = "HERDSMAN_BUILT";

/// Runs a program to completion and returns its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let name = name_of(command);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("running {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{name} ended with {}:\n{}",
            output.status,
            last_lines(&format!("{text}{errors}"), 40)
        );
    }
    Ok(text)
}

/// The result of a program.
pub struct Done {
    /// Its output, both streams in order.
    pub printed: String,
    /// Whether it succeeded.
    pub success: bool,
}

/// Runs a program with this text as its standard input, whatever its exit code.
pub fn all_output(command: &mut Command, input: &str) -> Result<Done> {
    let name = name_of(command);
    let (mut reader, writer) = std::io::pipe()?;
    command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("running {name}"))?;
    // The command holds the write end of the pipe, which must be closed so that the reader sees the end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut stdin = child.stdin.take().context("standard input is a pipe")?;
    let input = input.to_string();
    let feeder = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes)?;
    let success = child.wait()?.success();
    // A program that stops reading early is judged by its output, not by this pipe.
    let _ = feeder.join();
    Ok(Done { printed: String::from_utf8_lossy(&bytes).into_owned(), success })
}

/// Runs a program whose output goes to that of this process.
pub fn inherit(command: &mut Command) -> Result<()> {
    let name = name_of(command);
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("running {name}"))?;
    if !status.success() {
        bail!("{name} ended with {status}");
    }
    Ok(())
}

/// Returns the path of the program that a package of this workspace has under its own name. It is built
/// now, unless the caller of this process has built everything and set [`BUILT_VARIABLE`].
pub fn workspace_program(package: &str) -> Result<Command> {
    if std::env::var_os(BUILT_VARIABLE).is_none() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--package", package]).current_dir(paths::root());
        inherit(&mut build).with_context(|| format!("building {package}"))?;
    }
    let mut command = Command::new(paths::built(package));
    command.current_dir(paths::root());
    Ok(command)
}

/// Whether a program can be started.
pub fn exists(program: &str) -> bool {
    let probe = Command::new("sh").args(["-c", "command -v \"$0\" >/dev/null", program]).status();
    probe.is_ok_and(|status| status.success())
}

/// The last lines of a file, or the error from reading it.
pub fn tail(path: &Path, lines: usize) -> String {
    match fs::read(path) {
        Ok(bytes) => last_lines(&String::from_utf8_lossy(&bytes), lines),
        Err(error) => format!("(no {}: {error})", path.display()),
    }
}

fn last_lines(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn name_of(command: &Command) -> String {
    Path::new(command.get_program()).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_failed_program_has_its_output() {
        let error = output(Command::new("sh").args(["-c", "echo why; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("why"), "{error}");
    }

    #[test]
    fn both_streams_are_captured_in_order() {
        let mut sh = Command::new("sh");
        sh.args(["-c", "read word; echo $word; echo two >&2; echo three; exit 1"]);
        let done = all_output(&mut sh, "one\n").unwrap();
        assert_eq!(done.printed, "one\ntwo\nthree\n");
        assert!(!done.success);
    }

    #[test]
    fn the_tail_is_the_last_lines() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("a\n", 2), "a");
    }
}
