//! Logins with Kerberos in a separate realm, with Apache's programs, kazoo and ours.
//!
//! In `clients`, Apache's zkCli, kazoo and our shell log in to Apache's server and to ours, and the
//! resulting names are compared. In `quorum`, servers of both programs form an ensemble. Both also check
//! that others are rejected. `--server apache` runs the same with Apache's servers only.
//!
//! The server is a debug build with the feature `kerberos`, copied out of cargo's output directory so that
//! other builds neither use nor overwrite it. Everything runs in a second process of this program, which
//! has the realm in its environment and so passes it to all programs that it starts; nothing here changes
//! `/etc/krb5.conf` or the system's key table.

mod clients;
mod quorum;
mod realm;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::interop::kazoo;
use crate::paths;
use crate::peers::Peer;
use crate::run;
use crate::server::Program;
use realm::Realm;

/// Set in the second process: the directory with the realm's files. The name is the one in kazoo's tests,
/// which look for key tables there, too.
const REALM_VARIABLE: &str = "KRB5_TEST_ENV";

/// Runs everything.
pub fn run(program: Program) -> Result<()> {
    Program::Apache.ensure_here()?;
    let work = match std::env::var_os(REALM_VARIABLE) {
        Some(realm) => return within(program, Path::new(&realm)),
        None => paths::fresh_dir(&format!("kerberos-{}", program.name()))?,
    };
    Peer::Kerberos.ensure()?;
    Peer::SecureCClient.ensure()?;
    check_library()?;
    let server = build(&work)?;
    let realm = Realm::start(&work.join("realm")).context("starting a realm")?;
    let mut again = Command::new(std::env::current_exe()?);
    again.args(["interop", "kerberos", "--server"]).arg(value_name(program));
    again.envs(realm.environment()).env(REALM_VARIABLE, realm.folder()).env("HERDSMAN", server);
    run::inherit(&mut again)
}

fn within(program: Program, realm: &Path) -> Result<()> {
    let work = realm.parent().context("the realm is in the folder of this run")?;
    clients::run(program, work, realm)?;
    kazoo::run_with_kerberos(program)?;
    println!("ok      kazoo's own tests with Kerberos");
    quorum::run(program, work, realm)
}

fn value_name(program: Program) -> &'static str {
    match program {
        Program::Herdsman => "herdsman",
        Program::Apache | Program::Apache38 => "apache",
    }
}

/// Runs lints and tests of the crate that is compiled differently with the feature.
fn check_library() -> Result<()> {
    let package = ["--quiet", "--package", "herdsman-gssapi", "--features", "kerberos"];
    let with = |first: &'static str, more: &[&'static str]| [&[first], &package[..], more].concat();
    cargo(&with("clippy", &["--all-targets", "--", "-D", "warnings"])).context("lints")?;
    cargo(&with("test", &[])).context("tests")
}

/// Builds the program with the feature and copies it.
fn build(work: &Path) -> Result<PathBuf> {
    let words = ["build", "--quiet", "--package", "herdsman", "--features", "kerberos"];
    cargo(&words).context("the build with Kerberos")?;
    let (built, copy) = (paths::target().join("debug/herdsman"), work.join("herdsman"));
    fs::copy(&built, &copy).with_context(|| format!("copying {}", built.display()))?;
    let help = run::output(Command::new(&copy).args(["shell", "--help"]))?;
    ensure!(help.contains("--sasl-kerberos"), "{} is not a build of this source", copy.display());
    Ok(copy)
}

fn cargo(words: &[&str]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run::inherit(Command::new(cargo).args(words).current_dir(paths::root()))
}
