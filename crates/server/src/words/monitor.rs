//! `mntr`: a line for each metric. Apache: `MonitorCommand`.

use std::fmt::Write;

use super::metrics::{self, Value};
use super::{java, version};
use crate::io_threads::Shared;

pub(super) fn mntr(shared: &Shared) -> String {
    let mut text = format!("zk_version\t{}\n", version::full_version());
    text.push_str("zk_server_state\tstandalone\n");
    for (name, value) in metrics::collect(shared) {
        let _ = match value {
            Value::Whole(number) => writeln!(text, "zk_{name}\t{number}"),
            Value::Fraction(number) => writeln!(text, "zk_{name}\t{}", java::double(number)),
        };
    }
    text
}
