//! Reports as pictures: SVG text that a document can include.
//!
//! There are three kinds: rates as bars, latencies as lines from the median to the maximum, and [`Lines`]
//! for any quantity that grows with another. All are 900 pixels wide, have their own background (so that
//! they are readable on light and dark pages), use colours that colour-blind readers can distinguish, and
//! never rely on colour alone where lines cross. The same report gives the same bytes: a changed picture in
//! a commit means a changed measurement.

mod axis;
mod canvas;
mod lines;
mod rows;

use anyhow::Result;

use super::Report;

pub use lines::{Lines, draw};

/// Draws rates: a bar for each target in a group for each workload, with the echo server's rate as a line
/// across the group. The scale is logarithmic if the fastest is more than twenty times the slowest.
pub fn rates(report: &Report) -> Result<String> {
    canvas::svg(rows::rates_height(report), |root| rows::draw_rates(report, root))
}

/// Draws latencies on a logarithmic scale: p50, p99, p99.9 and the maximum of each target.
pub fn latencies(report: &Report) -> Result<String> {
    canvas::svg(rows::latencies_height(report), |root| rows::draw_latencies(report, root))
}

/// Draws [`rates`] and [`latencies`] in one picture.
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
