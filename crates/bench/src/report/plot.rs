//! Reports as pictures: SVG text that a document can show as it is.
//!
//! Three kinds: rates as bars, latencies as lines from the median to the slowest, and [`Lines`] for anything that
//! grows with something else. All are 900 wide, bring their own background (so they can be read on light and dark
//! pages), use colours that colour-blind readers can tell apart, and never say anything by colour alone where
//! lines cross. The same report gives the same bytes: a changed picture in a commit is a changed measurement.

mod axis;
mod canvas;
mod lines;
mod rows;

use anyhow::Result;

use super::Report;

pub use lines::{Lines, draw};

/// Rates: a bar for each target in a group for each workload, with the echo server's rate as a line across the
/// group. The scale is logarithmic when the fastest is more than twenty times the slowest.
pub fn rates(report: &Report) -> Result<String> {
    canvas::svg(rows::rates_height(report), |root| rows::draw_rates(report, root))
}

/// Latencies on a logarithmic scale: p50, p99, p99.9 and the slowest request of each target.
pub fn latencies(report: &Report) -> Result<String> {
    canvas::svg(rows::latencies_height(report), |root| rows::draw_latencies(report, root))
}

/// [`rates`] and [`latencies`] in one picture.
pub fn overview(report: &Report) -> Result<String> {
    let upper = rows::rates_height(report);
    canvas::svg(upper + rows::latencies_height(report), |root| {
        let (above, below) = root.split_vertically(upper);
        rows::draw_rates(report, &above)?;
        rows::draw_latencies(report, &below)
    })
}

#[cfg(test)]
mod tests;
