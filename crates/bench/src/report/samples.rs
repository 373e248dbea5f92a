//! Reports for tests.

use super::{BatchedSyncs, DiskLimit, ECHO, Latency, Machine, Report, Round, Row};

pub(crate) fn row(workload: &str, target: &str, depth: usize, rates: &[f64], p50_us: f64) -> Row {
    let round = |rate: &f64| Round {
        ops: (rate * 5.0) as u64,
        seconds: 5.0,
        latency: Latency {
            p50_us,
            p99_us: p50_us * 3.0,
            p999_us: p50_us * 12.0,
            max_us: p50_us * 50.0,
        },
        longest_gap_us: (p50_us * 20.0) as u64,
        ..Round::default()
    };
    Row {
        workload: workload.to_owned(),
        target: target.to_owned(),
        connections: 64,
        depth,
        value_bytes: 100,
        keys: 1000,
        rounds: rates.iter().map(round).collect(),
    }
}

pub(crate) fn two_targets_and_echo() -> Report {
    let machine = Machine {
        cores: 2,
        processor: "Example CPU @ 2.80GHz".to_owned(),
        system: "Linux 6.1.0".to_owned(),
    };
    let rows = vec![
        row("get", "herdsman", 16, &[1.02e6, 1.05e6, 1.31e6], 610.0),
        row("get", "apache", 16, &[118e3, 121e3, 119e3], 8100.0),
        row("get", ECHO, 16, &[1.61e6, 1.55e6, 1.58e6], 400.0),
        row("set", "herdsman", 16, &[310e3, 305e3, 299e3], 3100.0),
        row("set", "apache", 16, &[71e3, 69e3, 75e3], 14_000.0),
        row("set", ECHO, 16, &[1.4e6, 1.5e6, 1.45e6], 430.0),
    ];
    let latency = |p50_us: f64| Latency {
        p50_us,
        p99_us: p50_us * 2.0,
        p999_us: p50_us * 4.0,
        max_us: 2345.0,
    };
    let disk = DiskLimit {
        syncs_per_second: 8100.0,
        sync: latency(118.0),
        bytes: 200,
        batched: BatchedSyncs { appends: 64, appends_per_second: 480e3, sync: latency(130.0) },
    };
    Report { machine, rows, disk: Some(disk) }
}

/// Rows without results, and one that failed.
pub(crate) fn empty_and_failed() -> Report {
    let mut failed = row("set", "apache", 1, &[0.0, 10.0], 100.0);
    failed.rounds[0].errors = 7;
    failed.rounds[0].first_error = Some("reply 5 has | the wrong value".to_owned());
    failed.rounds[1].errors = 1200;
    failed.rounds[1].first_error = Some("connection reset".to_owned());
    let rows = vec![row("set", "herdsman", 1, &[], 0.0), failed, row("set", ECHO, 1, &[0.0], 0.0)];
    Report { rows, ..Report::default() }
}
