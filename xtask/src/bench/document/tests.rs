//! The whole document, generated from sample numbers and compared with a file.

use herdsman_bench::report::{DiskLimit, ECHO, Latency, Report, Round, Row};

use super::*;
use crate::bench::raw::{APACHE, HERDSMAN, LIMIT, Measured};

const GOLDEN: &str = "src/bench/document/sample.md";

fn row(workload: &str, target: &str, rounds: &[(u64, f64)]) -> Row {
    let round = |&(ops, p50_us): &(u64, f64)| Round {
        ops,
        seconds: 1.0,
        latency: Latency { p50_us, p99_us: p50_us * 2.0, p999_us: p50_us * 3.0, max_us: 9000.0 },
        longest_gap_us: 1500,
        ..Round::default()
    };
    Row {
        workload: workload.into(),
        target: target.into(),
        rounds: rounds.iter().map(round).collect(),
        ..Row::default()
    }
}

fn loaded(workload: &str, herdsman: (u64, f64), apache: (u64, f64), echo: (u64, f64)) -> Measured {
    let rows = [(HERDSMAN, herdsman), (APACHE, apache), (ECHO, echo)];
    let rows = rows.map(|(target, (ops, p50))| {
        row(workload, target, &[(ops - ops / 10, p50), (ops, p50), (ops + ops / 10, p50)])
    });
    Measured {
        report: Some(Report { rows: rows.to_vec(), ..Report::default() }),
        ..Measured::default()
    }
}

fn raw(part: &str, measured: Measured) -> Raw {
    let machine = Machine {
        cores: 2,
        processor: "A Processor".into(),
        memory_gib: 24,
        system: "Linux 6.18.44".into(),
        disk: "ext4 on a virtual disk".into(),
        java: "OpenJDK 17.0.15".into(),
    };
    Raw { part: part.into(), quick: false, machine, measured }
}

fn sample() -> Raws {
    let mut one_write = loaded("set", (4000, 240.0), (3000, 330.0), (20_000, 50.0));
    let sync = Latency { p50_us: 120.0, ..Latency::default() };
    let disk = DiskLimit { syncs_per_second: 8000.0, sync, bytes: 100, ..DiskLimit::default() };
    one_write.disks = vec![disk; 2];
    let mut restart = Measured::default();
    for (target, seconds) in [(HERDSMAN, [1.4, 1.2]), (APACHE, [9.0, 9.2]), (LIMIT, [0.1, 0.1])] {
        seconds.iter().for_each(|seconds| restart.note("restart_s", target, *seconds));
    }
    let mut children = Measured::default();
    for (size, scale) in [(10, 0.01), (1000, 1.0), (100_000, 110.0)] {
        children.plot("list_us", HERDSMAN, size, 100.0 * scale);
        children.plot("list_us", APACHE, size, 300.0 * scale);
    }
    Raws(vec![
        raw("get-64x16", loaded("get", (900_000, 700.0), (100_000, 9000.0), (1_400_000, 500.0))),
        raw("set-1x1", one_write),
        raw("restart", restart),
        raw("scaling-children", children),
    ])
}

#[test]
fn the_document_is_made_from_existing_measurements() {
    let notes = "Read this first.\n\n## restart\n\nThe log is replayed.\n";
    let notes = Notes::parse(notes, &["restart"]).unwrap();
    let files = ["rates.svg", "children.svg"];
    let drawn: Vec<&Picture> =
        PICTURES.iter().filter(|picture| files.contains(&picture.file)).collect();
    let text = text(&sample(), &notes, &drawn);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN);
    if std::env::var_os("HERDSMAN_REGENERATE").is_some() {
        fs::write(&golden, &text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(&golden).unwrap());
}

#[test]
fn pictures_are_drawn_from_existing_measurements() {
    let drawn = PICTURES.iter().filter_map(|picture| {
        let svg = picture.draw(&sample()).unwrap()?;
        assert!(svg.contains("<svg") && svg.to_lowercase().contains("apache"), "{svg}");
        Some(picture.file)
    });
    assert_eq!(drawn.collect::<Vec<_>>(), ["rates.svg", "children.svg"]);
}

#[test]
fn a_quick_run_says_that_it_means_nothing() {
    let mut raws = sample();
    assert!(!text(&raws, &Notes::default(), &[]).contains("--quick`:"));
    raws.0[1].quick = true;
    assert!(text(&raws, &Notes::default(), &[]).contains("--quick`:"));
}

#[test]
fn two_machines_are_distinguished() {
    let mut raws = sample();
    raws.0[1].machine.cores = 64;
    let texts = machines(&raws.0);
    assert_eq!(texts.len(), 2);
    assert!(texts[1].starts_with("Machine of set-1x1: 64 cores"), "{texts:?}");
}

#[test]
fn files_are_read_and_the_document_written() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("docs");
    assert!(write(dir.path(), &out).is_err(), "there are no measurements");
    for raw in &sample().0 {
        raw.save(dir.path()).unwrap();
    }
    write(dir.path(), &out).unwrap();
    let written = fs::read_to_string(out.join("benchmarks.md")).unwrap();
    assert!(written.contains("(benchmarks/children.svg)"), "{written}");
    assert!(out.join("benchmarks/children.svg").exists());
    fs::write(out.join("benchmarks/notes.md"), "## nothing\n").unwrap();
    assert!(write(dir.path(), &out).is_err(), "a section of an unknown part");
}
