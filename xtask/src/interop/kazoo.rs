//! kazoo's own test suite, unchanged, against a single server, and its tests that need more servers against
//! an ensemble of three.
//!
//! kazoo's harness starts servers by running `java … QuorumPeerMain zoo.cfg`; for Herdsman,
//! `interop/kazoo/java` comes first in PATH and starts it instead. The tests skipped with one server, and
//! the reasons, are in `interop/kazoo/excluded.txt`; the tests run with three servers are in
//! `ensemble.txt`. A test that fails is run once more alone, because the suite has many short timeouts; it
//! must pass then, and is named in the output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::paths;
use crate::ports;
use crate::run;
use crate::server::{self, Program};

const TEST_SECONDS_MAX: u32 = 120;
/// The harness gives a server five ports, and each further server ten more.
const PORTS: u16 = 5;
const PORTS_FURTHER: u16 = 10;
const ENSEMBLE: u16 = 3;
const SECOND_TRIES_MAX: usize = 5;

/// Runs the suite with one server.
pub fn run(program: Program) -> Result<()> {
    let suite = Suite::find(program, 1)?;
    let excluded = suite.named_in("excluded.txt")?;
    let deselect = excluded.iter().map(|id| format!("--deselect={id}"));
    let mut pytest = suite.pytest()?;
    pytest.args(["-rfE", "--pyargs", "kazoo.tests"]).args(deselect);
    suite.judge(&mut pytest)
}

/// Runs the tests that need three servers.
pub fn run_ensemble(program: Program) -> Result<()> {
    let suite = Suite::find(program, ENSEMBLE)?;
    let chosen = suite.named_in("ensemble.txt")?;
    let mut pytest = suite.pytest()?;
    pytest.arg("-rfE").args(chosen.iter().map(|id| suite.tests.join(id)));
    suite.judge(&mut pytest)
}

/// Runs the tests that need a Kerberos realm, whose settings must be in this process's environment.
pub fn run_with_kerberos(program: Program) -> Result<()> {
    let suite = Suite::find(program, 1)?;
    let chosen = suite.named_in("kerberos.txt")?;
    let mut pytest = suite.pytest()?;
    pytest.arg("-rfEs").args(chosen.iter().map(|id| suite.tests.join(id)));
    let done = run::all_output(&mut pytest, "")?;
    let printed = without_chatter(&done.printed);
    // Without the realm or the library that they need, the tests are skipped.
    let is_right = done.success && !printed.contains("skipped");
    ensure!(is_right, "kazoo's tests with Kerberos:\n{printed}");
    Ok(())
}

struct Suite {
    program: Program,
    servers: u16,
    python: PathBuf,
    tests: PathBuf,
    work: PathBuf,
}

impl Suite {
    fn find(program: Program, servers: u16) -> Result<Suite> {
        let python = paths::peers("venv").join("bin/python");
        let mut where_is = Command::new(&python);
        where_is.args(["-c", "import kazoo.tests as t; print(t.__path__[0])"]);
        let tests = run::output(&mut where_is).context("kazoo is not installed")?;
        let work = paths::fresh_dir(&format!("kazoo-{}-{servers}", program.name()))?;
        Ok(Suite { program, servers, python, tests: PathBuf::from(tests.trim()), work })
    }

    /// pytest, with the environment that kazoo's harness reads.
    fn pytest(&self) -> Result<Command> {
        let mut pytest = Command::new(&self.python);
        pytest.current_dir(&self.work).arg("-m").arg("pytest");
        pytest.args(["-q", "-p", "no:cacheprovider", "--disable-warnings"]);
        pytest.arg(format!("--timeout={TEST_SECONDS_MAX}"));
        pytest.arg(format!("--rootdir={}", self.tests.display()));
        pytest.env("CI", "1").env("ZOOKEEPER_VERSION", "3.9.5");
        pytest.env("ZOOKEEPER_CLUSTER_SIZE", self.servers.to_string());
        let ports = PORTS + PORTS_FURTHER * (self.servers - 1);
        pytest.env("ZOOKEEPER_PORT_OFFSET", ports::free_ports(ports)?.to_string());
        pytest.env("ZOOKEEPER_CLASSPATH", server::apache_classpath());
        pytest.env("TMPDIR", &self.work);
        if self.program == Program::Herdsman {
            pytest.env("HERDSMAN", paths::herdsman());
            pytest.env("PATH", path_with(&paths::root().join("interop/kazoo"))?);
        }
        Ok(pytest)
    }

    /// Returns the tests (or prefixes of their ids) that a file next to the shim names.
    fn named_in(&self, file: &str) -> Result<Vec<String>> {
        let text = fs::read_to_string(paths::root().join("interop/kazoo").join(file))?;
        let ids = ids(&text).with_context(|| file.to_string())?;
        check_ids(file, &ids, &self.collect()?)?;
        Ok(ids)
    }

    /// Runs pytest, and failed tests once more.
    fn judge(&self, pytest: &mut Command) -> Result<()> {
        let done = run::all_output(pytest, "")?;
        let printed = without_chatter(&done.printed);
        println!("{printed}");
        if done.success {
            return Ok(());
        }
        let failed = failed(&printed);
        ensure!(!failed.is_empty(), "pytest did not finish");
        ensure!(
            failed.len() <= SECOND_TRIES_MAX,
            "{} tests failed:\n{}",
            failed.len(),
            failed.join("\n")
        );
        self.second_try(&failed)
    }

    fn collect(&self) -> Result<Vec<String>> {
        let mut pytest = self.pytest()?;
        pytest.args(["--collect-only", "--pyargs", "kazoo.tests"]);
        let printed = run::output(&mut pytest)?;
        Ok(printed.lines().filter(|line| line.contains("::")).map(Into::into).collect())
    }

    fn second_try(&self, failed: &[String]) -> Result<()> {
        for id in failed {
            let mut pytest = self.pytest()?;
            pytest.arg(self.tests.join(id));
            let done = run::all_output(&mut pytest, "")?;
            if !done.success {
                bail!("{id} failed twice:\n{}", without_chatter(&done.printed));
            }
        }
        println!("passed with retries: {}", failed.join(", "));
        Ok(())
    }
}

/// Removes the log lines of kazoo's clients after pytest's summary.
fn without_chatter(printed: &str) -> String {
    let chatter = ["Connection dropped:", "Transition to "];
    let is_result = |line: &&str| !chatter.iter().any(|start| line.starts_with(start));
    printed.lines().filter(is_result).map(|line| format!("{line}\n")).collect()
}

fn path_with(first: &Path) -> Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let rest = std::env::split_paths(&path);
    Ok(std::env::join_paths(std::iter::once(first.to_path_buf()).chain(rest))?)
}

/// Parses a list of tests; each must have a reason.
fn ids(text: &str) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let (id, reason) = line.split_once(' ').with_context(|| format!("no reason: {line}"))?;
        ensure!(!reason.trim().is_empty(), "no reason: {line}");
        ids.push(id.to_string());
    }
    Ok(ids)
}

fn check_ids(file: &str, ids: &[String], all: &[String]) -> Result<()> {
    ensure!(!all.is_empty(), "pytest found no tests");
    for id in ids {
        let known = all.iter().any(|test| test.starts_with(id.as_str()));
        ensure!(
            known,
            "interop/kazoo/{file} names `{id}`, which is not a test of this version of kazoo"
        );
    }
    Ok(())
}

/// Returns the ids after `FAILED` and `ERROR` in pytest's short summary, which names files relative to the working
/// directory, as ids relative to the folder of the tests.
fn failed(printed: &str) -> Vec<String> {
    let id = |line: &str| {
        let rest = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "))?;
        let id = rest.split(" - ").next()?.trim();
        let id = id.rsplit_once("kazoo/tests/").map_or(id, |(_, id)| id);
        id.contains("::").then(|| id.to_string())
    };
    printed.lines().filter_map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_test_needs_a_reason_and_must_exist() {
        let named = ids("# why\n\na.py::T::x   needs TLS\n").unwrap();
        assert_eq!(named, ["a.py::T::x"]);
        assert!(ids("a.py::T::x\n").is_err());
        assert!(check_ids("f", &named, &["a.py::T::x".into()]).is_ok());
        assert!(check_ids("f", &named, &["a.py::T::y".into()]).is_err());
        assert!(check_ids("f", &named, &[]).is_err());
    }

    #[test]
    fn failures_are_read_from_the_summary() {
        let printed = "....F\nERROR    kazoo.client:client.py:545 Error\nFAILED a.py::T::x - boom - y\n1 failed";
        assert_eq!(failed(printed), ["a.py::T::x"]);
        let relative = "FAILED ../../venv/site-packages/kazoo/tests/a.py::T::x - boom";
        assert_eq!(failed(relative), ["a.py::T::x"]);
    }
}
