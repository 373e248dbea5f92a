//! Third-party programs for the interop tests: Apache's server, Curator, kazoo, the C clients, a browser,
//! valgrind.
//!
//! In: the manifests under `interop/` (pom.xml, requirements.txt, package.json). Out: jars, a Python
//! environment and an npm directory in `target/peers/`, and Debian packages where there is no other source.
//! A stamp next to each installation contains its manifest, so that a second run only compares. Nothing
//! that is downloaded is committed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;

use crate::paths;
use crate::run;

const ADVISORY_REPOSITORY: &str = "https://github.com/RustSec/advisory-db";

/// Releases of Apache's Java client that are still widely used: the first by Kafka, the second by
/// BookKeeper.
pub const OLDER_RELEASES: [&str; 2] = ["3.8.4", "3.9.3"];

/// A third-party program that a test step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Peer {
    /// A Java development kit and Maven.
    Java,
    /// Apache ZooKeeper 3.9.5's jars.
    Zookeeper,
    /// The jars of Apache's Java client, of older releases.
    OlderClients,
    /// Curator 5.9.0's jars.
    Curator,
    /// The jars of ZooKeeper's own recipes, which only Debian packages.
    ZookeeperRecipes,
    /// kazoo 2.11.0 in a Python environment.
    Kazoo,
    /// The programs of a Kerberos realm, the library to build with, and kazoo's module for it.
    Kerberos,
    /// A C compiler, ZooKeeper's C client and its cli_mt.
    CClient,
    /// The C client with TLS and SASL; Debian's is built without them.
    SecureCClient,
    /// Apache ZooKeeper 3.8.0, only for making fixtures.
    Zookeeper38,
    /// The program `ip`, with which the chaos test cuts links.
    Iproute,
    /// The library that changes the clock of a program, for the chaos test.
    Faketime,
    /// Chromium and its driver, which test the console.
    Browser,
    /// The program `valgrind`, which counts instructions.
    Valgrind,
    /// The program `rustfmt`.
    Rustfmt,
    /// The program `clippy`.
    Clippy,
    /// RustSec's advisories.
    AdvisoryDatabase,
}

impl Peer {
    /// The programs for tests; `Zookeeper38` is for making fixtures.
    pub const FOR_TESTS: [Peer; 11] = [
        Peer::Java,
        Peer::Zookeeper,
        Peer::OlderClients,
        Peer::Curator,
        Peer::ZookeeperRecipes,
        Peer::Kazoo,
        Peer::Kerberos,
        Peer::CClient,
        Peer::SecureCClient,
        Peer::Browser,
        Peer::Valgrind,
    ];

    /// A name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Peer::Java => "Java and Maven",
            Peer::Zookeeper => "Apache ZooKeeper 3.9.5",
            Peer::OlderClients => "Apache's Java clients 3.8.4 and 3.9.3",
            Peer::Curator => "Curator 5.9.0",
            Peer::ZookeeperRecipes => "ZooKeeper's own recipes",
            Peer::Kazoo => "kazoo 2.11.0",
            Peer::Kerberos => "Kerberos",
            Peer::CClient => "the C client",
            Peer::SecureCClient => "the C client with TLS and SASL",
            Peer::Zookeeper38 => "Apache ZooKeeper 3.8.0",
            Peer::Iproute => "the program ip",
            Peer::Faketime => "the library libfaketime",
            Peer::Browser => "Chromium and its driver",
            Peer::Valgrind => "the program valgrind",
            Peer::Rustfmt => "the program rustfmt",
            Peer::Clippy => "the program clippy",
            Peer::AdvisoryDatabase => "the advisory database",
        }
    }

    /// Instructions for installing it by hand.
    fn by_hand(self) -> &'static str {
        match self {
            Peer::Java => {
                "install a JDK 17 or later and Maven (Debian: default-jdk-headless maven)"
            }
            Peer::Zookeeper | Peer::OlderClients | Peer::Curator => {
                "Maven must be able to reach its repository; see the files pom.xml under interop/"
            }
            Peer::ZookeeperRecipes => {
                "Debian: apt-get download libzookeeper-java, and unpack its zookeeper-recipes-*.jar into target/peers/zookeeper-recipes (Maven's repository does not have them)"
            }
            Peer::Kazoo => {
                "Python 3 with venv and pip must be able to reach its package index (Debian: python3-venv)"
            }
            Peer::Kerberos => {
                "Debian: apt-get install krb5-kdc krb5-admin-server krb5-user libkrb5-dev libclang-dev libsasl2-modules-gssapi-mit gcc python3-dev"
            }
            Peer::CClient => {
                "Debian: apt-get install gcc libc6-dev libzookeeper-mt-dev zookeeper-bin"
            }
            Peer::SecureCClient => {
                "npm must be able to reach its registry; Debian: apt-get install npm g++ make libssl-dev libsasl2-dev libsasl2-modules openssl"
            }
            Peer::Zookeeper38 => "Debian 12: apt-get install zookeeper",
            Peer::Iproute => "Debian: apt-get install iproute2",
            Peer::Faketime => "Debian: apt-get install libfaketime",
            Peer::Browser => "Debian: apt-get install chromium chromium-driver",
            Peer::Valgrind => "Debian: apt-get install valgrind",
            Peer::Rustfmt => "rustup component add rustfmt (Debian: apt-get install rustfmt)",
            Peer::Clippy => "rustup component add clippy (Debian: apt-get install rust-clippy)",
            Peer::AdvisoryDatabase => "git must be able to reach RustSec's repository",
        }
    }

    /// Whether a step that needs it is skipped, even with `--strict`, if it cannot be installed. Without `--strict`
    /// that is so for every program.
    pub fn may_be_missing(self) -> bool {
        self == Peer::AdvisoryDatabase
    }

    /// Installs it unless it is installed.
    pub fn ensure(self) -> Result<()> {
        let installed = match self {
            Peer::Java => java(),
            Peer::Zookeeper => jars("interop/zookeeper/pom.xml", "zookeeper", &[]),
            Peer::OlderClients => older_clients(),
            Peer::Curator => jars("interop/curator/pom.xml", "curator", &[]),
            Peer::ZookeeperRecipes => zookeeper_recipes(),
            Peer::Kazoo => kazoo(),
            Peer::Kerberos => kerberos(),
            Peer::CClient => c_client(),
            Peer::SecureCClient => secure_c_client(),
            Peer::Iproute => debian(&["iproute2"], || run::exists("ip")),
            Peer::Faketime => debian(&["libfaketime"], || faketime().is_some()),
            Peer::Browser => browser(),
            Peer::Valgrind => debian(&["valgrind"], || run::exists("valgrind")),
            Peer::Rustfmt => rust_component("fmt", "rustfmt"),
            Peer::Clippy => rust_component("clippy", "clippy"),
            Peer::AdvisoryDatabase => clone_advisories(),
            Peer::Zookeeper38 => {
                debian(&["zookeeper"], || Path::new("/usr/share/java/zookeeper-3.8.0.jar").exists())
            }
        };
        installed
            .with_context(|| format!("{} could not be installed; {}", self.name(), self.by_hand()))
    }
}

/// Installs these; lists those that could not be installed, and fails if there are any.
pub fn install(peers: &[Peer]) -> Result<()> {
    let mut missing = 0;
    for peer in peers {
        match peer.ensure() {
            Ok(()) => println!("{}: installed", peer.name()),
            Err(error) => {
                missing += 1;
                println!("{error:#}");
            }
        }
    }
    if missing > 0 {
        bail!("{missing} of {} could not be installed", peers.len());
    }
    Ok(())
}

fn java() -> Result<()> {
    let here = || ["java", "javac", "mvn"].iter().all(|program| run::exists(program));
    debian(&["default-jdk-headless", "maven"], here)
}

fn c_client() -> Result<()> {
    let files = ["/usr/include/zookeeper/zookeeper.h", "/usr/lib/zookeeper/bin/cli_mt"];
    let here = || run::exists("gcc") && files.iter().all(|file| Path::new(file).exists());
    debian(&["gcc", "libc6-dev", "libzookeeper-mt-dev", "zookeeper-bin"], here)
}

/// The npm package `zookeeper` contains the source of Apache's client, and builds it during installation
/// with the TLS and SASL libraries that it finds.
fn secure_c_client() -> Result<()> {
    let programs = ["npm", "g++", "make", "openssl"];
    let headers = ["/usr/include/openssl/ssl.h", "/usr/include/sasl/sasl.h"];
    let here = || {
        programs.iter().all(|program| run::exists(program))
            && headers.iter().all(|file| Path::new(file).exists())
            && below("/usr/lib").any(|folder| folder.join("sasl2/libdigestmd5.so").exists())
    };
    let packages =
        ["npm", "g++", "make", "openssl", "libssl-dev", "libsasl2-dev", "libsasl2-modules"];
    debian(&packages, here)?;
    let manifest = paths::root().join("interop/c/package.json");
    let dir = paths::peers("c-client");
    if stamp_matches(&dir, &manifest)? {
        return Ok(());
    }
    clear(&dir)?;
    println!("npm install, of {}", manifest.display());
    fs::copy(&manifest, dir.join("package.json"))?;
    let mut npm = Command::new("npm");
    run::output(npm.args(["install", "--no-package-lock", "--silent"]).current_dir(&dir))?;
    let help = run::all_output(&mut Command::new(secure_cli()), "")?.printed;
    let is_whole = ["--ssl", "--mechlist"].iter().all(|flag| help.contains(flag));
    ensure!(is_whole, "it was built without TLS or SASL:\n{help}");
    write_stamp(&dir, &manifest)
}

/// The command-line client of [`Peer::SecureCClient`].
pub fn secure_cli() -> PathBuf {
    paths::peers("c-client").join("node_modules/zookeeper/deps/zookeeper-client-c/cli_st")
}

/// `libclang` generates Rust declarations from the library's header when the server is built.
fn kerberos() -> Result<()> {
    let programs = ["krb5kdc", "kadmin.local", "kdb5_util", "kinit", "krb5-config", "gcc"];
    let files = |folder: &str, file: &str| below(folder).any(|folder| folder.join(file).exists());
    let here = || {
        programs.iter().all(|program| run::exists(program))
            && Path::new("/usr/include/gssapi/gssapi_ext.h").exists()
            && files("/usr/lib", "lib/libclang.so.1")
            && files("/usr/lib", "sasl2/libgssapiv2.so")
            && files("/usr/include", "Python.h")
    };
    let packages = [
        "krb5-kdc",
        "krb5-admin-server",
        "krb5-user",
        "libkrb5-dev",
        "libclang-dev",
        "libsasl2-modules-gssapi-mit",
        "gcc",
        "python3-dev",
    ];
    debian(&packages, here)?;
    Peer::Kazoo.ensure()?;
    let python = paths::peers("venv").join("bin/python");
    if run::output(Command::new(&python).args(["-c", "import kerberos"])).is_ok() {
        return Ok(());
    }
    let requirements = paths::root().join("interop/kazoo/requirements-kerberos.txt");
    println!("pip install -r {}", requirements.display());
    let mut pip = Command::new(python);
    run::output(pip.args(["-m", "pip", "install", "-q", "-r"]).arg(requirements)).map(drop)
}

/// The directories in a directory.
fn below(folder: &str) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

/// The library of [`Peer::Faketime`], in its form for programs with threads.
pub fn faketime() -> Option<PathBuf> {
    let libraries = below("/usr/lib").map(|folder| folder.join("faketime/libfaketimeMT.so.1"));
    libraries.into_iter().find(|library| library.exists())
}

fn browser() -> Result<()> {
    let here = || ["chromium", "chromedriver"].iter().all(|program| run::exists(program));
    debian(&["chromium", "chromium-driver"], here)
}

/// A part of the Rust toolchain that a minimal installation lacks, and its cargo subcommand.
fn rust_component(command: &str, component: &str) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let version = || run::output(Command::new(&cargo).args([command, "--version"])).map(drop);
    if version().is_err() && run::exists("rustup") {
        run::output(Command::new("rustup").args(["component", "add", component]))?;
    }
    version()
}

/// A current copy: an older one does not have recent advisories.
fn clone_advisories() -> Result<()> {
    debian(&["git"], || run::exists("git"))?;
    let dir = advisory_database();
    clear(&dir)?;
    let mut git = Command::new("git");
    git.args(["clone", "--quiet", "--depth", "1", ADVISORY_REPOSITORY]).arg(&dir);
    run::output(&mut git).map(drop)
}

/// The directory of the advisories.
pub fn advisory_database() -> PathBuf {
    paths::peers("advisory-db")
}

/// Installs Debian packages unless `here` returns true. A package with the same name as its program is
/// skipped if that program exists: it may have been installed in another way that conflicts with the
/// package (npm).
fn debian(packages: &[&str], here: impl Fn() -> bool) -> Result<()> {
    if here() {
        return Ok(());
    }
    let packages: Vec<_> =
        packages.iter().copied().filter(|package| !run::exists(package)).collect();
    println!("apt-get install {}", packages.join(" "));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        run::output(command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
    };
    apt(&["update", "-q"])?;
    let mut install = vec!["install", "-q", "-y", "--no-install-recommends"];
    install.extend(packages);
    apt(&install)?;
    if !here() {
        bail!("apt-get succeeded, but did not install the expected files");
    }
    Ok(())
}

fn older_clients() -> Result<()> {
    OLDER_RELEASES.iter().try_for_each(|release| {
        let version = format!("-Dzookeeper.version={release}");
        jars("interop/sasl/java/pom.xml", &format!("zookeeper-{release}"), &[&version])
    })
}

/// The jars of one of the [`OLDER_RELEASES`].
pub fn older_client_jars(release: &str) -> PathBuf {
    paths::peers(&format!("zookeeper-{release}"))
}

/// Copies the runtime dependencies of a pom into `target/peers/NAME`.
fn jars(pom: &str, name: &str, properties: &[&str]) -> Result<()> {
    let pom = paths::root().join(pom);
    let dir = paths::peers(name);
    if stamp_matches(&dir, &pom)? {
        return Ok(());
    }
    Peer::Java.ensure()?;
    clear(&dir)?;
    println!("mvn dependency:copy-dependencies -f {}", pom.display());
    let mut mvn = Command::new("mvn");
    mvn.args(["-q", "-B", "-f"]).arg(&pom);
    mvn.args(["dependency:copy-dependencies", "-DincludeScope=runtime"]);
    mvn.arg(format!("-DoutputDirectory={}", dir.display())).args(properties);
    run::output(&mut mvn)?;
    write_stamp(&dir, &pom)
}

/// Unpacked instead of installed: the package depends on forty others that are not needed here. Its version
/// is that of the Debian release (3.8.0 in Debian 12), whose recipes are the same as in 3.9.5, and they run
/// with the client of [`Peer::Curator`].
fn zookeeper_recipes() -> Result<()> {
    let dir = paths::peers("zookeeper-recipes");
    let jars =
        ["lock", "election", "queue"].map(|recipe| format!("zookeeper-recipes-{recipe}.jar"));
    if jars.iter().all(|jar| dir.join(jar).exists()) {
        return Ok(());
    }
    clear(&dir)?;
    println!("apt-get download libzookeeper-java");
    let mut apt = Command::new("apt-get");
    run::output(apt.args(["update", "-q"]))?;
    let mut apt = Command::new("apt-get");
    run::output(apt.args(["download", "-q", "libzookeeper-java"]).current_dir(&dir))?;
    let package = files_in(&dir)?.pop().context("apt-get succeeded, but downloaded nothing")?;
    let unpacked = dir.join("unpacked");
    run::output(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&unpacked))?;
    for jar in jars {
        fs::copy(unpacked.join("usr/share/java").join(&jar), dir.join(&jar))
            .with_context(|| format!("the package has no {jar}"))?;
    }
    fs::remove_dir_all(unpacked)?;
    Ok(fs::remove_file(package)?)
}

fn files_in(dir: &Path) -> Result<Vec<PathBuf>> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect()
}

fn kazoo() -> Result<()> {
    let requirements = paths::root().join("interop/kazoo/requirements.txt");
    let dir = paths::peers("venv");
    if stamp_matches(&dir, &requirements)? {
        return Ok(());
    }
    // Debian's python3 has no working venv module until its package is installed.
    let has_venv = || run::output(Command::new("python3").args(["-c", "import ensurepip"])).is_ok();
    debian(&["python3", "python3-venv"], has_venv)?;
    clear(&dir)?;
    println!("pip install -r {}", requirements.display());
    run::output(Command::new("python3").args(["-m", "venv"]).arg(&dir))?;
    let mut pip = Command::new(dir.join("bin/pip"));
    run::output(pip.args(["install", "-q", "-r"]).arg(&requirements))?;
    write_stamp(&dir, &requirements)
}

fn clear(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("clearing {}", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))
}

fn stamp(dir: &Path) -> PathBuf {
    dir.join(".made-from")
}

fn stamp_matches(dir: &Path, manifest: &Path) -> Result<bool> {
    let wanted = fs::read(manifest).with_context(|| format!("reading {}", manifest.display()))?;
    Ok(fs::read(stamp(dir)).is_ok_and(|made_from| made_from == wanted))
}

fn write_stamp(dir: &Path, manifest: &Path) -> Result<()> {
    fs::copy(manifest, stamp(dir)).with_context(|| format!("stamping {}", dir.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_valid_until_its_manifest_changes() {
        let dir = tempfile::tempdir().unwrap();
        let manifest = dir.path().join("pom.xml");
        fs::write(&manifest, "one").unwrap();
        assert!(!stamp_matches(dir.path(), &manifest).unwrap());
        write_stamp(dir.path(), &manifest).unwrap();
        assert!(stamp_matches(dir.path(), &manifest).unwrap());
        fs::write(&manifest, "two").unwrap();
        assert!(!stamp_matches(dir.path(), &manifest).unwrap());
    }
}
