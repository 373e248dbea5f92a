//! Creates `fixtures/`: small data directories written by Apache releases, each with what Apache itself
//! reads from it.
//!
//! The expected content never comes from our code: a copy of the finished directory is opened by the
//! release that wrote it, every node is read through the client protocol, and the fields hidden from
//! clients come from the snapshot that Apache writes when it starts.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::listing::{self, Listing};
use crate::paths;
use crate::run;
use crate::scenario;
use crate::server::{self, Program, Spec};
use crate::snapshot::{self, Snapshot};

const BULK: usize = 20;

/// One way to make a data directory.
struct Variant {
    name: &'static str,
    properties: &'static [(&'static str, &'static str)],
    starts: Starts,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Starts {
    /// Written, stopped, started, written again, stopped: a snapshot and a log after it.
    Twice,
    /// As `Twice`, and started once more: the newest snapshot holds everything.
    Thrice,
    /// Written once and killed meanwhile: an empty first snapshot and one log.
    Killed,
}

const VARIANTS: &[Variant] = &[
    Variant { name: "plain", properties: &[], starts: Starts::Twice },
    Variant {
        name: "gz",
        properties: &[("zookeeper.snapshot.compression.method", "gz")],
        starts: Starts::Thrice,
    },
    Variant {
        name: "snappy",
        properties: &[("zookeeper.snapshot.compression.method", "snappy")],
        starts: Starts::Thrice,
    },
    Variant { name: "unclean", properties: &[], starts: Starts::Killed },
    Variant {
        name: "old-style",
        properties: &[
            ("zookeeper.digest.enabled", "false"),
            ("zookeeper.closeSessionTxn.enabled", "false"),
            ("zookeeper.serializeLastProcessedZxid.enabled", "false"),
        ],
        starts: Starts::Twice,
    },
];

/// Regenerates all fixtures.
pub fn make() -> Result<()> {
    for program in [Program::Apache38, Program::Apache] {
        for variant in VARIANTS {
            println!("fixtures/{}/{}", program.name(), variant.name);
            make_one(program, variant)
                .with_context(|| format!("{} {}", program.name(), variant.name))?;
        }
    }
    Ok(())
}

fn make_one(program: Program, variant: &Variant) -> Result<()> {
    let work = paths::fresh_dir(&format!("fixtures-{}-{}", program.name(), variant.name))?;
    let data_dir = work.join("data");
    run(&spec(program, variant, &data_dir), variant.starts)?;
    let copy = work.join("copy");
    paths::copy_dir(&data_dir, &copy)?;
    let expected = expectation(program, &copy)?;

    let fixture = paths::root().join("fixtures").join(program.name()).join(variant.name);
    if fixture.exists() {
        fs::remove_dir_all(&fixture)?;
    }
    paths::copy_dir(&data_dir.join("version-2"), &fixture.join("version-2"))?;
    fs::write(fixture.join("expected.txt"), expected)?;
    fs::write(fixture.join("txns.txt"), transactions(program, &data_dir)?)?;
    Ok(())
}

fn spec(program: Program, variant: &Variant, data_dir: &Path) -> Spec {
    let mut spec = Spec::new(program, data_dir).property("zookeeper.preAllocSize", "16");
    for (name, value) in variant.properties {
        spec = spec.property(name, value);
    }
    spec
}

fn run(spec: &Spec, starts: Starts) -> Result<()> {
    let server = spec.start()?;
    let _open = scenario::first_part(&server.address, BULK)?;
    if starts == Starts::Killed {
        let _unanswered = scenario::unanswered_writes(&server.address, 100)?;
        return server.kill();
    }
    server.stop()?;
    let server = spec.start()?;
    let _open = scenario::second_part(&server.address, BULK)?;
    server.stop()?;
    if starts == Starts::Thrice {
        spec.start()?.stop()?;
    }
    Ok(())
}

/// What the release that wrote a directory reads from it, as the text of `expected.txt`.
fn expectation(program: Program, copy: &Path) -> Result<String> {
    let server = Spec::new(program, copy).start()?;
    let listing = listing::read_all(&server.address)?;
    server.stop()?;
    let hidden = first_snapshot_after_start(copy, &listing)?;
    Ok(expected_text(&listing, &hidden))
}

/// The snapshot that Apache wrote when it started: the newest, because so few writes follow that it takes
/// no other.
fn first_snapshot_after_start(copy: &Path, listing: &Listing) -> Result<Snapshot> {
    let hidden = snapshot::newest(copy)?;
    ensure!(
        hidden.nodes.keys().eq(listing.keys()),
        "the nodes in the snapshot differ from those read by a client"
    );
    Ok(hidden)
}

fn expected_text(listing: &Listing, hidden: &Snapshot) -> String {
    let mut text = String::new();
    writeln!(text, "zxid\t{:#x}", hidden.zxid).expect("writing to memory");
    if let Some((version, digest)) = hidden.digest {
        writeln!(text, "digest\t{version}\t{digest}").expect("writing to memory");
    }
    for (id, timeout_ms) in &hidden.sessions {
        writeln!(text, "session\t{id:#x}\t{timeout_ms}").expect("writing to memory");
    }
    for (path, line) in listing {
        let (cversion, owner) = hidden.nodes[path];
        writeln!(text, "node\t{line}\t{cversion}\t{owner:#x}").expect("writing to memory");
    }
    text
}

/// Apache's own rendering of every log file.
fn transactions(program: Program, data_dir: &Path) -> Result<String> {
    let version_2 = data_dir.join("version-2");
    let mut logs = Vec::new();
    for entry in fs::read_dir(&version_2)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(hex) = name.strip_prefix("log.") {
            logs.push((i64::from_str_radix(hex, 16)?, name));
        }
    }
    logs.sort();
    let mut text = String::new();
    for (_, name) in logs {
        let mut java = server::java(program);
        java.args(["-Duser.timezone=UTC", "-Duser.language=en"]);
        java.args(["org.apache.zookeeper.server.persistence.TxnLogToolkit", "-d", &name]);
        let dump = run::output(java.current_dir(&version_2))?;
        writeln!(text, "# {name}").expect("writing to memory");
        // What its logger writes is about the machine.
        for line in dump.lines().filter(|line| !line.contains(" [main] ")) {
            writeln!(text, "{line}").expect("writing to memory");
        }
    }
    Ok(text)
}
