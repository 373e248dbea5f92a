//! `docs/benchmarks.md`: generated from the existing raw files, the goals, and the notes.
//!
//! In: the folder of raw files, and `benchmarks/notes.md` in the folder of documents. Out: the text,
//! and one SVG file for each picture. Every number and every verdict comes from the raw files.

pub mod details;
pub mod goals;
pub mod growth;
pub mod notes;
pub mod number;
mod plots;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::lab::HEAP_MIB;
use super::machine::Machine;
use super::parts::PARTS;
use super::raw::{self, Raw};
use super::scaling::LARGE_HEAP_MIB;
use goals::{GOALS, Goal, Outcome, Verdict};
use growth::GROWTHS;
use notes::Notes;
use plots::{PICTURES, Picture};

/// The measurements, part by part.
pub struct Raws(Vec<Raw>);

impl Raws {
    fn load(dir: &Path) -> Result<Raws> {
        let loaded = PARTS.iter().map(|part| raw::load(dir, part.name));
        let raws: Vec<Raw> = loaded.filter_map(Result::transpose).collect::<Result<_>>()?;
        ensure!(!raws.is_empty(), "no measurements: no part's file is in {}", dir.display());
        Ok(Raws(raws))
    }

    /// Returns the measurements of a part, if it has been run.
    pub fn part(&self, name: &str) -> Option<&Raw> {
        self.0.iter().find(|raw| raw.part == name)
    }
}

/// Writes the document and its pictures into a folder.
pub fn write(raw_dir: &Path, out: &Path) -> Result<()> {
    let raws = Raws::load(raw_dir)?;
    let pictures = out.join("benchmarks");
    fs::create_dir_all(&pictures).with_context(|| format!("creating {}", pictures.display()))?;
    let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
    let notes = Notes::load(&pictures.join("notes.md"), &names)?;
    let mut drawn = Vec::new();
    for picture in PICTURES {
        if let Some(svg) = picture.draw(&raws)? {
            fs::write(pictures.join(picture.file), svg)?;
            drawn.push(picture);
        }
    }
    let path = out.join("benchmarks.md");
    fs::write(&path, text(&raws, &notes, &drawn))
        .with_context(|| format!("writing {}", path.display()))
}

/// The document.
fn text(raws: &Raws, notes: &Notes, pictures: &[&Picture]) -> String {
    let mut sections = vec![
        "# Benchmarks".to_string(),
        "<!-- Written by `cargo xtask bench`. Notes about the numbers are in benchmarks/notes.md. -->"
            .into(),
    ];
    if raws.0.iter().any(|raw| raw.quick) {
        sections
            .push("**Made with `--quick`: small and short, so the numbers mean nothing.**".into());
    }
    if !notes.opening.is_empty() {
        sections.push(notes.opening.clone());
    }
    sections.push(how(raws));
    sections.push(goals_section(raws, pictures));
    sections.push(growth_section(raws, pictures));
    sections.push("## Details".into());
    for part in PARTS {
        if let Some(raw) = raws.part(part.name) {
            sections.push(details::section(part.name, part.about, raw, notes.about(part.name)));
        }
    }
    sections.join("\n\n") + "\n"
}

fn how(raws: &Raws) -> String {
    let mut text = String::from("## How it was measured\n\n");
    for line in machines(&raws.0) {
        text.push_str(&line);
    }
    text += &format!(
        "\
Apache ZooKeeper 3.9.5 and Herdsman run side by side with the same zoo.cfg and the same properties:
every write is synced to disk before it is acknowledged (`forceSync=yes`), `tickTime=2000`, no admin server,
everything else at its default. Java has a heap of {HEAP_MIB} MB, as Apache's own script starts it. All data
directories are on one disk; values have 100 bytes.

The load comes from `herdsman bench`: raw connections, each with a fixed number of requests in flight (64 × 16 is 64
connections with 16 each), which check every reply. Rounds of all servers are interleaved with those of *echo*, a
server with the same framing that does nothing: it shows the most that the machine, its kernel and the load generator
can do.
A number is the median of its rounds. Compare ratios within one run; another machine gives other numbers.

```
cargo xtask bench                            # everything; hours
cargo xtask bench --list                     # the parts
cargo xtask bench --only get-64x16,restart   # some of them; the document keeps the others' numbers
cargo xtask bench --quick                    # check that it works; writes to target/bench/quick
```"
    );
    text
}

/// One sentence for each machine that parts ran on; there should be only one.
pub fn machines(raws: &[Raw]) -> Vec<String> {
    let mut machines: Vec<(&Machine, Vec<&str>)> = Vec::new();
    for raw in raws {
        match machines.iter_mut().find(|(machine, _)| **machine == raw.machine) {
            Some((_, parts)) => parts.push(&raw.part),
            None => machines.push((&raw.machine, vec![&raw.part])),
        }
    }
    let is_one = machines.len() == 1;
    let sentence = |(machine, parts): &(&Machine, Vec<&str>)| {
        let Machine { cores, processor, memory_gib, system, disk, java } = machine;
        let which =
            if is_one { "Machine".into() } else { format!("Machine of {}", parts.join(", ")) };
        format!(
            "{which}: {cores} cores ({processor}), {memory_gib} GiB of memory, {system}, {disk}, {java}.\n\n"
        )
    };
    machines.iter().map(sentence).collect()
}

fn goals_section(raws: &Raws, pictures: &[&Picture]) -> String {
    let rows: Vec<(&Goal, Outcome)> = GOALS
        .iter()
        .map(|goal| {
            let measured = raws.part(goal.part).map(|raw| &raw.measured);
            (goal, measured.map(|measured| goal.outcome(measured)).unwrap_or_default())
        })
        .collect();
    let mut text = String::from("## Goals and results\n\n");
    let verdicts: Vec<Verdict> = rows.iter().map(|(goal, outcome)| goal.verdict(outcome)).collect();
    text += &summary(&verdicts);
    text += "\n\n| workload | Apache 3.9.5 | limit | Herdsman | goal | result | verdict |\n";
    text += "|---|---|---|---|---|---|---|\n";
    for (goal, outcome) in rows {
        let sample = |sample: Option<number::Sample>| {
            sample.map_or("–".into(), |sample| sample.text(goal.unit))
        };
        let cells = [
            format!("[{}](#{})", goal.title, goal.part),
            sample(outcome.apache),
            goal.limit_text(&outcome),
            sample(outcome.herdsman),
            goal.wanted_text(),
            goal.reached_text(&outcome),
            goal.verdict(&outcome).word().into(),
        ];
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text += &shown(pictures.iter().filter(|picture| !picture.shows_growth()));
    text.trim_end().to_string()
}

fn growth_section(raws: &Raws, pictures: &[&Picture]) -> String {
    let judged: Vec<_> = GROWTHS
        .iter()
        .map(|growth| (growth, growth.judge(raws.part(growth.part).map(|raw| &raw.measured))))
        .collect();
    let verdicts: Vec<Verdict> = judged.iter().map(|(_, judged)| judged.verdict).collect();
    let mut text = String::from("## How cost grows\n\n");
    text += &format!(
        "\
In this chapter no snapshots are taken, and Java has a heap of {LARGE_HEAP_MIB} MB. Where single requests are
timed (lists, creates and deletes, setting watches), nothing is synced either: the disk would hide the differences.\n\n"
    );
    text += &summary(&verdicts);
    text += "\n\n| what | number of | goal | Herdsman | verdict |\n|---|---|---|---|---|\n";
    for (growth, judged) in judged {
        text += &growth.row(&judged);
    }
    text += &shown(pictures.iter().filter(|picture| picture.shows_growth()));
    text.trim_end().to_string()
}

fn shown<'a>(pictures: impl Iterator<Item = &'a &'a Picture>) -> String {
    let link =
        |picture: &&Picture| format!("\n![{}](benchmarks/{})\n", picture.title, picture.file);
    pictures.map(link).collect()
}

/// Counts the goals that are met.
pub fn summary(verdicts: &[Verdict]) -> String {
    let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
    let goals = verdicts.len() - count(Verdict::NoGoal);
    let mut text = format!("{} of {goals} are met", count(Verdict::Met));
    match count(Verdict::NotMeasured) {
        0 => {}
        missing => text += &format!("; {missing} not measured"),
    }
    text + "."
}
