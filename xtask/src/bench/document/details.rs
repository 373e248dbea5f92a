//! The section with all numbers of one part: tables of the load generator's results, of single figures and
//! of curves; then the notes about them.

use herdsman_bench::report::{ECHO, Report, Round, Row};

use super::number::{Sample, Unit, digits, thousands};
use crate::bench::raw::{Curve, Figure, Raw};

/// The section of one part.
pub fn section(name: &str, about: &str, raw: &Raw, notes: &str) -> String {
    let mut blocks = vec![format!("### {name}\n\n{}.", capitalized(about))];
    if let Some(report) = &raw.measured.report {
        blocks.push(report_table(report));
    }
    if let Some(text) = disks(raw) {
        blocks.push(text);
    }
    if !raw.measured.figures.is_empty() {
        blocks.push(figure_table(&raw.measured.figures));
    }
    if !raw.measured.curves.is_empty() {
        blocks.push(curve_table(&raw.measured.curves));
    }
    if !notes.is_empty() {
        blocks.push(notes.to_string());
    }
    blocks.join("\n\n")
}

fn report_table(report: &Report) -> String {
    let mut lines = vec![
        "| server | per second | rounds | of echo | p50 | p99 | p99.9 | longest gap |".to_string(),
        "|---|---|---|---|---|---|---|---|".into(),
    ];
    for row in &report.rows {
        let rates: Vec<f64> = row.rounds.iter().map(Round::rate).collect();
        let rounds = Sample::of(&rates);
        let us = |of: fn(&Round) -> f64| Unit::Us.text(row.median(of));
        let cells = [
            row.target.clone(),
            Unit::PerSecond.text(row.rate()),
            rounds.map_or("–".into(), |rounds| rounds.spread(Unit::PerSecond)),
            of_echo(report, row),
            us(|round| round.latency.p50_us),
            us(|round| round.latency.p99_us),
            us(|round| round.latency.p999_us),
            us(|round| round.longest_gap_us as f64),
        ];
        lines.push(format!("| {} |", cells.join(" | ")));
    }
    lines.join("\n")
}

fn of_echo(report: &Report, row: &Row) -> String {
    let echo = report.beside(row, ECHO).map(Row::rate).filter(|rate| *rate > 0.0);
    echo.map_or("–".into(), |echo| format!("{} %", digits(row.rate() / echo * 100.0)))
}

fn disks(raw: &Raw) -> Option<String> {
    let medians: Vec<f64> = raw.measured.disks.iter().map(|disk| disk.sync.p50_us).collect();
    let rates: Vec<f64> = raw.measured.disks.iter().map(|disk| disk.syncs_per_second).collect();
    let (time, rate) = (Sample::of(&medians)?, Sample::of(&rates)?);
    Some(format!(
        "Disk, before and after: one sync takes {} (p50), {} of them in a row.",
        time.text(Unit::Us),
        rate.text(Unit::PerSecond)
    ))
}

fn figure_table(figures: &[Figure]) -> String {
    let mut lines = vec![
        "| figure | of | median | lowest to highest | rounds |".to_string(),
        "|---|---|---|---|---|".into(),
    ];
    for figure in figures {
        let Some(sample) = Sample::of(&figure.rounds) else { continue };
        let (what, unit) = with_unit(&figure.name);
        let cells = [
            what,
            figure.target.clone(),
            sample.text(unit),
            sample.spread(unit),
            figure.rounds.len().to_string(),
        ];
        lines.push(format!("| {} |", cells.join(" | ")));
    }
    lines.join("\n")
}

/// Sizes downwards, a column for each curve.
fn curve_table(curves: &[Curve]) -> String {
    let mut sizes: Vec<f64> =
        curves.iter().flat_map(|curve| &curve.points).map(|(size, _)| *size).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let title = |curve: &Curve| format!("{} {}", curve.target, with_unit(&curve.name).0);
    let titles: Vec<String> = curves.iter().map(title).collect();
    let mut lines = vec![
        format!("| size | {} |", titles.join(" | ")),
        format!("|---|{}", "---|".repeat(curves.len())),
    ];
    for size in sizes {
        let cells: Vec<String> = curves.iter().map(|curve| cell(curve, size)).collect();
        lines.push(format!("| {} | {} |", thousands(size), cells.join(" | ")));
    }
    lines.join("\n")
}

fn cell(curve: &Curve, size: f64) -> String {
    let value = curve.points.iter().find(|(own, _)| *own == size).map(|(_, value)| *value);
    value.map_or("–".into(), |value| with_unit(&curve.name).1.text(value))
}

/// Splits a figure's name into words and the unit at its end.
fn with_unit(name: &str) -> (String, Unit) {
    let units =
        [("_per_s", Unit::PerSecond), ("_us", Unit::Us), ("_ms", Unit::Ms), ("_s", Unit::Seconds)];
    let found = units.iter().find_map(|(end, unit)| name.strip_suffix(end).map(|it| (it, *unit)));
    let (words, unit) = match found {
        Some(found) => found,
        None if name.starts_with("bytes_") => (name, Unit::Bytes),
        None => (name, Unit::Count),
    };
    (words.replace('_', " "), unit)
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figures_name_ends_with_its_unit() {
        assert_eq!(with_unit("gap_without_snapshot_ms"), ("gap without snapshot".into(), Unit::Ms));
        assert_eq!(with_unit("all_keys_per_s"), ("all keys".into(), Unit::PerSecond));
        assert_eq!(with_unit("restart_s"), ("restart".into(), Unit::Seconds));
        assert_eq!(with_unit("bytes_per_znode"), ("bytes per znode".into(), Unit::Bytes));
        assert_eq!(with_unit("snapshots"), ("snapshots".into(), Unit::Count));
    }
}
