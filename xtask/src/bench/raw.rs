//! The measurements of a part, as a file: `target/bench/PART.json`.
//!
//! Parts write these files, and the document is generated from all that exist, so that a long run can be
//! split and a single part repeated. Not here: anything computed from the numbers (`document`).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use herdsman_bench::report::{DiskLimit, Report};
use serde::{Deserialize, Serialize};

use super::machine::Machine;

/// The name under which a figure is a limit of the machine, not a server's.
pub const LIMIT: &str = "limit";
/// Herdsman's name in reports and figures.
pub const HERDSMAN: &str = "herdsman";
/// Apache's name in reports and figures.
pub const APACHE: &str = "apache";

/// All measurements of one part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Raw {
    /// The part's name.
    pub part: String,
    /// Whether the sizes were reduced to try the part out; such results mean nothing.
    pub quick: bool,
    /// The machine.
    pub machine: Machine,
    /// The measurements.
    pub measured: Measured,
}

/// The numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Results of the load generator.
    #[serde(default)]
    pub report: Option<Report>,
    /// The limits of the disk, before and after.
    #[serde(default)]
    pub disks: Vec<DiskLimit>,
    /// Single numbers.
    #[serde(default)]
    pub figures: Vec<Figure>,
    /// Numbers that depend on a size.
    #[serde(default)]
    pub curves: Vec<Curve>,
}

/// One kind of number, measured several times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name, with the unit last.
    pub name: String,
    /// The target: [`HERDSMAN`], [`APACHE`] or [`LIMIT`].
    pub target: String,
    /// One value for each round.
    pub rounds: Vec<f64>,
}

/// How a number grows with a size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Its name, with the unit last.
    pub name: String,
    /// The target.
    pub target: String,
    /// Sizes and values.
    pub points: Vec<(f64, f64)>,
}

impl Measured {
    /// Adds one round of a figure.
    pub fn note(&mut self, name: &str, target: &str, value: f64) {
        match self.figures.iter_mut().find(|own| own.name == name && own.target == target) {
            Some(figure) => figure.rounds.push(value),
            None => self.figures.push(Figure {
                name: name.into(),
                target: target.into(),
                rounds: vec![value],
            }),
        }
    }

    /// Adds one point of a curve.
    pub fn plot(&mut self, name: &str, target: &str, size: usize, value: f64) {
        let point = (size as f64, value);
        match self.curves.iter_mut().find(|own| own.name == name && own.target == target) {
            Some(curve) => curve.points.push(point),
            None => self.curves.push(Curve {
                name: name.into(),
                target: target.into(),
                points: vec![point],
            }),
        }
    }

    /// Returns all rounds of a figure; empty if it was not measured.
    pub fn figure(&self, name: &str, target: &str) -> &[f64] {
        let found = self.figures.iter().find(|own| own.name == name && own.target == target);
        found.map_or(&[], |figure| &figure.rounds)
    }

    /// Returns the points of a curve; empty if it was not measured.
    pub fn curve(&self, name: &str, target: &str) -> &[(f64, f64)] {
        let found = self.curves.iter().find(|own| own.name == name && own.target == target);
        found.map_or(&[], |curve| &curve.points)
    }
}

impl Raw {
    /// Writes the file of this part, replacing an earlier one.
    pub fn save(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir)?;
        let path = file(dir, &self.part);
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }
}

/// Reads the measurements of a part; `None` if it was never run.
pub fn load(dir: &Path, part: &str) -> Result<Option<Raw>> {
    let path = file(dir, part);
    if !path.exists() {
        return Ok(None);
    }
    let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    let raw = serde_json::from_slice(&bytes);
    raw.map(Some)
        .with_context(|| format!("{} was written by another release; remove it", path.display()))
}

/// The middle value, or the mean of the two middle ones; 0 for no values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

fn file(dir: &Path, part: &str) -> PathBuf {
    dir.join(format!("{part}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_file_can_be_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let mut measured = Measured::default();
        measured.note("restart_s", HERDSMAN, 0.5);
        measured.note("restart_s", HERDSMAN, 0.7);
        measured.note("restart_s", APACHE, 9.1);
        measured.plot("reads", HERDSMAN, 10, 2.0);
        let raw = Raw { part: "restart".into(), measured, ..Raw::default() };
        raw.save(dir.path()).unwrap();
        let loaded = load(dir.path(), "restart").unwrap().unwrap();
        assert_eq!(loaded, raw);
        assert_eq!(loaded.measured.figure("restart_s", HERDSMAN), [0.5, 0.7]);
        assert_eq!(loaded.measured.figure("restart_s", LIMIT), [0.0; 0]);
        assert_eq!(loaded.measured.curve("reads", HERDSMAN), [(10.0, 2.0)]);
        assert_eq!(load(dir.path(), "memory").unwrap(), None);
    }

    #[test]
    fn an_unreadable_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("idle.json"), "{}").unwrap();
        let error = load(dir.path(), "idle").unwrap_err();
        assert!(error.to_string().contains("idle.json"), "{error}");
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
