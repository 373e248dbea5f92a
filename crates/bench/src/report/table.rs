//! Reports as tables: aligned text for a terminal, Markdown for documents. One line for each row of the
//! report; failures are shown prominently below, because a fast server with wrong replies is not fast.
//!
//! Columns that would be empty are omitted: `of echo` without an echo server, `×` with a single target.

use super::{DiskLimit, ECHO, Report, Row, units};

/// The format of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// For a terminal.
    Plain,
    /// For a document.
    Markdown,
}

/// Renders the report, with a final line end.
#[must_use]
pub fn render(report: &Report, style: Style) -> String {
    let mut text = String::new();
    for line in heading(report) {
        push_paragraph(&mut text, &line, style);
    }
    if !report.rows.is_empty() {
        if style == Style::Plain {
            text.push('\n');
        }
        let grid = Grid::new(report);
        text.push_str(&match style {
            Style::Plain => grid.plain(),
            Style::Markdown => grid.markdown(),
        });
    }
    let failures: Vec<String> = report.rows.iter().filter_map(failure).collect();
    if !failures.is_empty() {
        text.push('\n');
    }
    for line in failures {
        match style {
            Style::Plain => text.push_str(&format!("ERROR: {line}\n")),
            Style::Markdown => text.push_str(&format!("**ERROR:** {}\n\n", escaped(&line))),
        }
    }
    if let Some(disk) = &report.disk {
        text.push('\n');
        for line in disk_lines(disk) {
            push_paragraph(&mut text, &line, style);
        }
    }
    if !text.is_empty() {
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

fn push_paragraph(text: &mut String, line: &str, style: Style) {
    text.push_str(line);
    text.push_str(match style {
        Style::Plain => "\n",
        Style::Markdown => "\n\n",
    });
}

/// Returns the machine, and the parameters that all rows share.
fn heading(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let machine = &report.machine;
    if machine.cores > 0 {
        let cores = if machine.cores == 1 { "core" } else { "cores" };
        let named: Vec<&str> = [machine.processor.as_str(), machine.system.as_str()]
            .into_iter()
            .filter(|name| !name.is_empty())
            .collect();
        lines.push(format!("{} {cores}, {}", machine.cores, named.join(", ")));
    }
    if let Some(first) = report.rows.first() {
        let mut common = Vec::new();
        if have_one_size(report) {
            common.push(size(report.rows.iter().find(|row| row.keys > 0).unwrap_or(first)));
        }
        if is_shared(&report.rows, |row| row.rounds.len()) {
            let rounds = first.rounds.len();
            common.push(format!("{rounds} {}", if rounds == 1 { "round" } else { "rounds" }));
        }
        lines.push(common.join(", "));
    }
    lines.retain(|line| !line.is_empty());
    lines
}

/// Whether the value is the same for all rows.
fn is_shared<'a, T: PartialEq>(
    rows: impl IntoIterator<Item = &'a Row>,
    of: impl Fn(&Row) -> T,
) -> bool {
    let mut values = rows.into_iter().map(of);
    let first = values.next();
    values.all(|value| Some(value) == first)
}

/// Whether rows differ only in workload, shape and target. Some workloads use no keys: they match any
/// number.
fn have_one_size(report: &Report) -> bool {
    let with_keys = report.rows.iter().filter(|row| row.keys > 0);
    is_shared(&report.rows, |row| row.value_bytes) && is_shared(with_keys, |row| row.keys)
}

fn size(row: &Row) -> String {
    let values = format!("values of {} bytes", row.value_bytes);
    match row.keys {
        0 => values,
        keys => format!("{values}, {} znodes", units::count(keys as u64)),
    }
}

/// Describes the failures of a row, if there are any.
fn failure(row: &Row) -> Option<String> {
    let (ops, errors) = row.ops_and_errors();
    let name = format!("{} {} against {}", row.workload, row.shape(), row.target);
    let first = row.rounds.iter().find_map(|round| round.first_error.as_deref());
    if errors == 0 && first.is_none() {
        return (ops == 0).then(|| format!("{name}: no replies"));
    }
    let counts = format!("{} of {} operations", units::count(errors), units::count(ops + errors));
    let first = first.map_or_else(String::new, |error| format!("; the first error: {error}"));
    Some(format!("{name}: {counts} failed{first}"))
}

fn disk_lines(disk: &DiskLimit) -> Vec<String> {
    let percentiles = |latency: &super::Latency| {
        format!(
            "p50 {}, p99 {}, p99.9 {}, max {}",
            units::micros(latency.p50_us),
            units::micros(latency.p99_us),
            units::micros(latency.p999_us),
            units::micros(latency.max_us)
        )
    };
    let mut lines = vec![format!(
        "fdatasync after each append of {} bytes: {}, {}",
        disk.bytes,
        units::rate(disk.syncs_per_second),
        percentiles(&disk.sync)
    )];
    // If interrupted before the second series, there is nothing to report about it.
    if disk.batched.appends > 0 {
        lines.push(format!(
            "fdatasync after {} appends of {} bytes: {}, {}",
            disk.batched.appends,
            disk.bytes,
            units::rate(disk.batched.appends_per_second),
            percentiles(&disk.batched.sync)
        ));
    }
    lines
}

/// Cells, with the title of each column first. The first [`Grid::TEXTS`] columns are text, the others
/// numbers.
struct Grid {
    titles: Vec<String>,
    lines: Vec<Vec<String>>,
    /// The rows at which a new workload starts.
    starts: Vec<bool>,
}

impl Grid {
    const TEXTS: usize = 3;

    fn new(report: &Report) -> Self {
        let columns = Columns::of(report);
        let mut starts = Vec::new();
        for (index, row) in report.rows.iter().enumerate() {
            starts.push(index == 0 || !report.rows[index - 1].is_like(row));
        }
        Grid {
            titles: columns.titles(),
            lines: report.rows.iter().map(|row| columns.cells(report, row)).collect(),
            starts,
        }
    }

    /// Aligned text; the name of a workload appears only where it changes.
    fn plain(&self) -> String {
        let widths = self.widths();
        let mut text = aligned(&self.titles, &widths);
        let total = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
        text.push_str(&"─".repeat(total));
        text.push('\n');
        for (line, starts) in self.lines.iter().zip(&self.starts) {
            if *starts {
                text.push_str(&aligned(line, &widths));
            } else {
                let mut line = line.clone();
                line[0].clear();
                line[1].clear();
                text.push_str(&aligned(&line, &widths));
            }
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.lines.iter().chain([&self.titles]).map(|line| &line[column]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..self.titles.len()).map(width).collect()
    }

    fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = line(&self.titles);
        for column in 0..self.titles.len() {
            text.push_str(if column < Self::TEXTS { "|---" } else { "|---:" });
        }
        text.push_str("|\n");
        self.lines.iter().for_each(|cells| text.push_str(&line(cells)));
        text
    }
}

fn aligned(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if column > 0 {
            line.push_str("  ");
        }
        if column < Grid::TEXTS {
            line.push_str(&format!("{cell:<width$}"));
        } else {
            line.push_str(&format!("{cell:>width$}"));
        }
    }
    format!("{}\n", line.trim_end())
}

/// Escapes text for a Markdown cell.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// Which columns there are.
struct Columns<'a> {
    /// Rows differ in more than workload, shape and target.
    sizes: bool,
    echo: bool,
    baseline: Option<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(report: &'a Report) -> Self {
        Columns {
            sizes: !have_one_size(report),
            echo: report.rows.iter().any(|row| row.target == ECHO) && !report.targets().is_empty(),
            baseline: report.baseline(),
        }
    }

    fn titles(&self) -> Vec<String> {
        let fixed = [
            "workload",
            "conns × depth",
            "target",
            "rate",
            "±",
            "p50",
            "p99",
            "p99.9",
            "max",
            "gap",
        ];
        let mut titles: Vec<String> = fixed.map(str::to_owned).to_vec();
        if self.echo {
            titles.push("of echo".to_owned());
        }
        if let Some(baseline) = self.baseline {
            titles.push(format!("× {baseline}"));
        }
        titles
    }

    fn cells(&self, report: &Report, row: &Row) -> Vec<String> {
        let workload = match self.sizes {
            true => format!("{} ({})", row.workload, size(row)),
            false => row.workload.clone(),
        };
        let mut cells = vec![workload, row.shape(), row.target.clone()];
        cells.extend(measured(row));
        if self.echo {
            let share = report.ratio(row, ECHO).filter(|_| row.target != ECHO);
            cells.push(share.map_or_else(nothing, units::percent));
        }
        if let Some(baseline) = self.baseline {
            let ratio = report.ratio(row, baseline);
            let ratio = ratio.filter(|_| row.target != ECHO && row.target != baseline);
            cells.push(ratio.map_or_else(nothing, units::times));
        }
        cells
    }
}

/// Rate, spread, percentiles and gap.
fn measured(row: &Row) -> Vec<String> {
    if row.ops_and_errors().0 == 0 {
        return vec![nothing(); 7];
    }
    let latency = row.latency();
    vec![
        units::rate(row.rate()),
        row.spread().map_or_else(nothing, units::percent),
        units::micros(latency.p50_us),
        units::micros(latency.p99_us),
        units::micros(latency.p999_us),
        units::micros(latency.max_us),
        units::micros(row.longest_gap_us() as f64),
    ]
}

fn nothing() -> String {
    units::NOTHING.to_owned()
}

#[cfg(test)]
mod tests;
