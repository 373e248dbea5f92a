//! The load generator against live servers in this process. Rounds take a fraction of a second: these tests
//! check the counting, the verification and the cleanup, not the speed.

mod root;
mod tls;
mod workloads;

use clap::Parser;
use herdsman_bench::report::Report;
use herdsman_bench::{Arguments, Progress, Stop, measure};
use herdsman_testing::TestServer;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    arguments: Arguments,
}

/// Defaults of the tests.
const SHORT: [(&str, &str); 5] = [
    ("--connections", "3"),
    ("--depth", "4"),
    ("--rounds", "2"),
    ("--duration", "0.25"),
    ("--warmup", "0.05"),
];

/// Parses a command line, with short rounds and few connections, for the given servers.
fn arguments(words: &str, servers: &[&TestServer]) -> Arguments {
    let mut line = vec!["bench".to_owned()];
    for (flag, value) in SHORT.iter().filter(|(flag, _)| !words.contains(flag)) {
        line.extend([flag, value].map(|word| (*word).to_owned()));
    }
    for (index, server) in servers.iter().enumerate() {
        line.extend(["--target".to_owned(), format!("t{index}={}", server.address())]);
    }
    line.extend(words.split_whitespace().map(str::to_owned));
    CommandLine::try_parse_from(line).unwrap_or_else(|error| panic!("{error}")).arguments
}

/// Runs a measurement, which must succeed.
fn measured(words: &str, servers: &[&TestServer]) -> Report {
    measure(&arguments(words, servers), Progress::Silent, &Stop::never())
        .expect("the measurement succeeds")
}

/// Returns why a run is rejected.
fn refused(words: &str, servers: &[&TestServer]) -> String {
    let result = measure(&arguments(words, servers), Progress::Silent, &Stop::never());
    format!("{:#}", result.expect_err("the run is rejected"))
}

fn check_rounds(report: &Report) {
    for row in &report.rows {
        for round in &row.rounds {
            assert_eq!((round.errors, &round.first_error), (0, &None), "{} {row:?}", row.workload);
            let is_measured = round.ops == 0 || round.latency.max_us > 0.0;
            assert!(round.seconds > 0.0 && is_measured, "{row:?}");
        }
        // On a busy machine a round can end before any reply.
        assert!(row.rounds.iter().any(|round| round.ops > 0), "{row:?}");
    }
}

/// The number of znodes of a server.
fn znodes(server: &TestServer) -> usize {
    server.handle().core().tree().node_count()
}
