//! Data directories that Apache writes and the server under test reads, and the other way round.
//!
//! Each case is a scenario (see `scenario`) and a way to stop. The following must agree afterwards: every
//! node with data, Stat and ACL; the open sessions; the tree digests of the word `hash`. When Apache reads
//! what Herdsman wrote, it checks the digest in every log record itself, and must not find a difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::listing::{self, Listing};
use crate::paths;
use crate::scenario;
use crate::server::{Program, Server, Spec};
use crate::wire::{Op, Session};

/// Enough for several transactions whose zxid is a multiple of 128, which `hash` shows.
const BULK: usize = 300;

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    compression: Option<&'static str>,
    end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Stopped,
    Killed,
}

const CASES: &[Case] = &[
    Case { name: "stopped", compression: None, end: End::Stopped },
    Case { name: "killed", compression: None, end: End::Killed },
    Case { name: "gz", compression: Some("gz"), end: End::Stopped },
    Case { name: "snappy", compression: Some("snappy"), end: End::Killed },
];

/// Runs the fixtures, and all cases in both directions.
pub fn run(program: Program) -> Result<()> {
    fixtures(program)?;
    if program == Program::Herdsman {
        interrupted_restore()?;
        persist_tables()?;
    }
    for case in CASES {
        let work = paths::fresh_dir(&format!("disk-{}-{}", program.name(), case.name))?;
        exchange(case, Program::Apache, program, &work.join("to"))
            .with_context(|| format!("{}: Apache's directory, opened by {program:?}", case.name))?;
        println!(
            "ok      {}: Apache's directory, opened by {program:?}, and opened by Apache again",
            case.name
        );
        if case.compression.is_none() {
            exchange(case, program, Program::Apache, &work.join("from")).with_context(|| {
                format!("{}: {program:?}'s directory, opened by Apache", case.name)
            })?;
            println!("ok      {}: {program:?}'s directory, opened by Apache and back", case.name);
        }
    }
    Ok(())
}

/// Checks that every directory under `fixtures/` is served as in its `expected.txt`.
fn fixtures(program: Program) -> Result<()> {
    let work = paths::fresh_dir(&format!("disk-{}-fixtures", program.name()))?;
    for fixture in fixture_dirs()? {
        let name = format!("{}/{}", name_of(fixture.parent())?, name_of(Some(&fixture))?);
        let data_dir = copy(&fixture, &work.join(name.replace(['/', '.'], "-")))?;
        let expected = expected_nodes(&fs::read_to_string(fixture.join("expected.txt"))?);
        let server = Spec::new(program, &data_dir).start().with_context(|| name.clone())?;
        listing::ensure_equal(&name, &expected, &listing::read_all(&server.address)?)?;
        server.stop()?;
        println!("ok      fixtures/{name}, opened by {program:?}");
    }
    Ok(())
}

/// Apache opens logs that end with a persist table, which it does not know: one that is written and one that was ended.
fn persist_tables() -> Result<()> {
    let fixture = paths::root().join("fixtures/herdsman/table");
    ensure!(persist_tables_in(&fixture)? == (2, 2), "the logs have no persist tables");
    let data_dir = copy(&fixture, &paths::fresh_dir("disk-apache-table")?.join("data"))?;
    let expected = expected_nodes(&fs::read_to_string(fixture.join("expected.txt"))?);
    let server = Spec::new(Program::Apache, &data_dir).start()?;
    listing::ensure_equal(
        "fixtures/herdsman/table",
        &expected,
        &listing::read_all(&server.address)?,
    )?;
    no_digest_mismatch(Program::Apache, &server)?;
    server.stop()?;
    println!("ok      fixtures/herdsman/table, opened by Apache");
    Ok(())
}

/// How many logs of a directory have a persist table, and how many there are. Without one, nothing shows that Apache
/// reads such logs.
fn persist_tables_in(data_dir: &Path) -> Result<(usize, usize)> {
    const MAGIC: &[u8] = b"HRDTABLE";
    let (mut with_table, mut logs) = (0, 0);
    for entry in fs::read_dir(data_dir.join("version-2"))? {
        let path = entry?.path();
        if name_of(Some(&path))?.starts_with("log.") {
            logs += 1;
            with_table +=
                usize::from(fs::read(&path)?.windows(MAGIC.len()).any(|window| window == MAGIC));
        }
    }
    Ok((with_table, logs))
}

/// An unfinished restore keeps Apache from starting, by a file that is there for this purpose, whatever
/// other files exist. Herdsman removes the file, and then Apache starts.
fn interrupted_restore() -> Result<()> {
    const GUARD: &str = "version-2/log.7fffffffffffffff";
    let work = paths::fresh_dir("disk-herdsman-restore")?;
    let fixture = paths::root().join("fixtures/apache-3.9.5/plain");
    let expected = expected_nodes(&fs::read_to_string(fixture.join("expected.txt"))?);
    for (name, missing) in [
        ("all", &[][..]),
        ("no-logs", &["log.1", "log.55"]),
        ("nothing", &["log.1", "log.55", "snapshot.0", "snapshot.54"]),
    ] {
        let data_dir = copy(&fixture, &work.join(name))?;
        for file in missing {
            fs::remove_file(data_dir.join("version-2").join(file))?;
        }
        fs::write(data_dir.join(GUARD), "Not a txn log")?;
        let started = Spec::new(Program::Apache, &data_dir).start();
        ensure!(started.is_err(), "{name}: Apache starts although a restore is not finished");
    }
    let data_dir = work.join("all");
    let server = Spec::new(Program::Herdsman, &data_dir).start()?;
    listing::ensure_equal("all", &expected, &listing::read_all(&server.address)?)?;
    server.stop()?;
    ensure!(
        !data_dir.join(GUARD).exists(),
        "the file that keeps Apache from starting was not removed"
    );
    Spec::new(Program::Apache, &data_dir).start()?.stop()?;
    println!(
        "ok      an unfinished restore keeps Apache from starting, until Herdsman has started"
    );
    Ok(())
}

fn fixture_dirs() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for release in fs::read_dir(paths::root().join("fixtures"))? {
        let release = release?.path();
        if release.is_dir() {
            for variant in fs::read_dir(release)? {
                found.push(variant?.path());
            }
        }
    }
    found.sort();
    ensure!(!found.is_empty(), "no fixtures");
    Ok(found)
}

fn name_of(path: Option<&Path>) -> Result<&str> {
    path.and_then(Path::file_name).and_then(|name| name.to_str()).context("a folder without a name")
}

/// The `node` lines of an expected.txt, without the two stored fields that no client sees.
fn expected_nodes(text: &str) -> Listing {
    let node = |line: &str| {
        let mut fields: Vec<_> = line.strip_prefix("node\t")?.split('\t').collect();
        fields.truncate(fields.len() - 2);
        Some((fields[0].to_string(), fields.join("\t")))
    };
    text.lines().filter_map(node).collect()
}

/// `writer` writes a directory, and `reader` must see in a copy of it what `writer` itself sees in another
/// copy; then `reader` continues to write, and `writer` must see that too.
fn exchange(case: &Case, writer: Program, reader: Program, work: &Path) -> Result<()> {
    let original = work.join("original");
    live(case, writer, &original)?;
    if writer == Program::Herdsman {
        let (with_table, logs) = persist_tables_in(&original)?;
        ensure!(with_table > 0, "none of the {logs} logs has a persist table");
    }
    let own = copy(&original, &work.join("own"))?;
    let others = copy(&original, &work.join("others"))?;
    let expected = view(&spec(case, writer, &own).start()?)?;

    let server = spec(case, reader, &others).start()?;
    let actual = view(&server)?;
    expected.ensure_equal("after the first exchange", &actual)?;
    no_digest_mismatch(reader, &server)?;
    let _open = write_on(&server)?;
    let written = listing::read_all(&server.address)?;
    finish(server, case.end)?;

    let server = spec(case, writer, &others).start()?;
    let read_back = listing::read_all(&server.address)?;
    listing::ensure_equal("after reading it back", &written, &read_back)?;
    no_digest_mismatch(writer, &server)?;
    server.stop()
}

fn live(case: &Case, program: Program, data_dir: &Path) -> Result<()> {
    let server = spec(case, program, data_dir).start()?;
    let _first = scenario::first_part(&server.address, BULK)?;
    finish(server, case.end)?;
    let server = spec(case, program, data_dir).start()?;
    let _second = scenario::second_part(&server.address, BULK)?;
    let _torn = match case.end {
        End::Killed => Some(scenario::unanswered_writes(&server.address, BULK)?),
        End::Stopped => None,
    };
    finish(server, case.end)
}

fn spec(case: &Case, program: Program, data_dir: &Path) -> Spec {
    let spec = Spec::new(program, data_dir);
    match case.compression {
        Some(method) => spec.property("zookeeper.snapshot.compression.method", method),
        None => spec,
    }
}

fn finish(server: Server, end: End) -> Result<()> {
    match end {
        End::Stopped => server.stop(),
        End::Killed => server.kill(),
    }
}

fn copy(from: &Path, to: &Path) -> Result<PathBuf> {
    paths::copy_dir(from, to)?;
    Ok(to.to_path_buf())
}

/// Writes a little more on top of what was read, including ephemerals.
fn write_on(server: &Server) -> Result<Session> {
    let mut session = Session::connect(&server.address, 30_000)?;
    session.ok(&Op::create("/app/third", Some(b"by the other"), 0))?;
    session.ok(&Op::create("/app/queue/item-", None, 2))?;
    session.ok(&Op::create("/app/members/third", None, 1))?;
    session.ok(&Op::create("/app/third-ttl", None, 5))?;
    session.ok(&Op::create("/app/third-container", None, 4))?;
    session.ok(&Op::set_data("/app", Some(b"third life"), -1))?;
    session.ok(&Op::delete("/app/second/child", -1))?;
    session.ok(&Op::Multi(vec![
        Op::create("/app/third/m", None, 0),
        Op::set_data("/app/third", None, 0),
    ]))?;
    Ok(session)
}

/// The visible state of a server.
struct View {
    listing: Listing,
    sessions: BTreeSet<String>,
    digests: BTreeMap<String, String>,
}

fn view(server: &Server) -> Result<View> {
    // Four-letter words first: reading the tree opens another session.
    let sessions = session_ids(&server.four_letters("dump")?);
    let digests = digests(&server.four_letters("hash")?);
    ensure!(!sessions.is_empty(), "`dump` shows no session");
    ensure!(!digests.is_empty(), "`hash` shows no digest");
    Ok(View { listing: listing::read_all(&server.address)?, sessions, digests })
}

impl View {
    fn ensure_equal(&self, when: &str, other: &View) -> Result<()> {
        listing::ensure_equal(when, &self.listing, &other.listing)?;
        ensure!(
            self.sessions == other.sessions,
            "{when}: sessions {:?} and {:?}",
            self.sessions,
            other.sessions
        );
        let both: Vec<_> =
            self.digests.keys().filter(|zxid| other.digests.contains_key(*zxid)).collect();
        ensure!(!both.is_empty(), "{when}: the two `hash` answers share no zxid");
        for zxid in both {
            let (expected, actual) = (&self.digests[zxid], &other.digests[zxid]);
            ensure!(expected == actual, "{when}: digest at {zxid}: {expected} and {actual}");
        }
        Ok(())
    }
}

/// The hexadecimal words between `Session Sets` and the next heading of `dump`.
fn session_ids(dump: &str) -> BTreeSet<String> {
    let sets = dump.lines().skip_while(|line| !line.starts_with("Session Sets")).skip(1);
    let lines = sets.take_while(|line| !line.starts_with("ephemeral"));
    lines.map(str::trim).filter(|line| line.starts_with("0x")).map(Into::into).collect()
}

/// The `zxid: digest` lines of `hash`.
fn digests(hash: &str) -> BTreeMap<String, String> {
    let pair =
        |line: &str| line.split_once(": ").map(|(zxid, digest)| (zxid.into(), digest.into()));
    hash.lines().filter_map(pair).collect()
}

/// Apache logs digest mismatches and counts them in `mntr`; Herdsman must have none either.
fn no_digest_mismatch(program: Program, server: &Server) -> Result<()> {
    let mntr = server.four_letters("mntr")?;
    let count = mntr.lines().find_map(|line| line.strip_prefix("zk_digest_mismatches_count\t"));
    ensure!(count == Some("0"), "{program:?} counts {count:?} digest mismatches");
    let log = server.log()?;
    let said =
        log.lines().find(|line| line.contains("digest mismatch") || line.contains("not matching"));
    ensure!(said.is_none(), "{program:?} logged: {}", said.unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_fields_are_omitted_from_the_expectation() {
        let text = "zxid\t0x1\nnode\t/a\tdata\tacl\t1\t0x0\n";
        let expected = Listing::from([("/a".to_string(), "/a\tdata\tacl".to_string())]);
        assert_eq!(expected_nodes(text), expected);
    }

    #[test]
    fn words_are_read() {
        let dump = "SessionTracker dump:\nSession Sets (2)/(1):\n1 expire at Sun:\n\t0x1000a\n\
                    0 expire at Mon:\nephemeral nodes dump:\nSessions with Ephemerals (1):\n0x1000b:\n";
        assert_eq!(session_ids(dump), BTreeSet::from(["0x1000a".to_string()]));
        let expected = BTreeMap::from([("80".to_string(), "ab".to_string())]);
        assert_eq!(digests("80: ab\n"), expected);
    }
}
