//! `docs/scale.md`: generated from the existing raw files, the goals, and the notes.
//!
//! In: the folder of raw files, and `scale/notes.md` in the folder of documents. Out: the text, and a
//! picture for each part that grows. Every number and every verdict comes from the raw files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use herdsman_bench::report::plot::{self, Lines};

use super::lab::HEAP_MIB;
use super::parts::{PARTS, Part, WANTED};
use crate::bench::document::goals::Verdict;
use crate::bench::document::growth::Wanted;
use crate::bench::document::notes::Notes;
use crate::bench::document::{details, machines, summary};
use crate::bench::raw::{self, APACHE, HERDSMAN, Raw};

const OTHERS: &str = "others.svg";

/// Loads the measurements of each part that was run.
pub fn load(dir: &Path) -> Result<Vec<Raw>> {
    let loaded = PARTS.iter().map(|part| raw::load(dir, part.name));
    loaded.filter_map(Result::transpose).collect()
}

/// Writes the document and its pictures into a folder.
pub fn write(raw_dir: &Path, out: &Path) -> Result<()> {
    let raws = load(raw_dir)?;
    ensure!(!raws.is_empty(), "no measurements: no part's file is in {}", raw_dir.display());
    let pictures = out.join("scale");
    fs::create_dir_all(&pictures).with_context(|| format!("creating {}", pictures.display()))?;
    let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
    let notes = Notes::load(&pictures.join("notes.md"), &names)?;
    for part in PARTS {
        if let Some(lines) = growth(part, &raws) {
            fs::write(pictures.join(file(part)), plot::draw(&lines)?)?;
        }
    }
    fs::write(pictures.join(OTHERS), plot::draw(&others(&raws))?)?;
    let path = out.join("scale.md");
    fs::write(&path, text(&raws, &notes)).with_context(|| format!("writing {}", path.display()))
}

/// The table of goals, for the terminal and the document; of all parts or of these.
pub fn verdicts(raws: &[Raw], only: &[&str]) -> String {
    let wanted = WANTED.iter().filter(|growth| only.is_empty() || only.contains(&growth.part));
    let judged: Vec<_> = wanted
        .map(|growth| {
            let raw = raws.iter().find(|raw| raw.part == growth.part);
            (growth, growth.judge(raw.map(|raw| &raw.measured)))
        })
        .collect();
    let words: Vec<Verdict> = judged.iter().map(|(_, judged)| judged.verdict).collect();
    let mut text = summary(&words);
    text += "\n\n| what | number of | goal | Herdsman | verdict |\n|---|---|---|---|---|\n";
    for (growth, judged) in judged {
        text += &growth.row(&judged);
    }
    text.trim_end().to_string()
}

fn text(raws: &[Raw], notes: &Notes) -> String {
    let mut sections = vec![
        "# Scale".to_string(),
        "<!-- Written by `cargo xtask scale`. Notes about the numbers are in scale/notes.md. -->"
            .into(),
    ];
    if raws.iter().any(|raw| raw.quick) {
        sections
            .push("**Made with `--quick`: small and short, so the numbers mean nothing.**".into());
    }
    if !notes.opening.is_empty() {
        sections.push(notes.opening.clone());
    }
    sections.push(how(raws));
    sections.push(format!("## Goals and results\n\n{}", verdicts(raws, &[])));
    sections.push(format!("![What other clients notice](scale/{OTHERS})"));
    sections.push("## Details".into());
    for part in PARTS {
        let Some(raw) = raws.iter().find(|raw| raw.part == part.name) else { continue };
        sections.push(details::section(part.name, part.about, raw, notes.about(part.name)));
        if growth(part, raws).is_some() {
            sections.push(format!("![{}](scale/{})", title(part), file(part)));
        }
    }
    sections.join("\n\n") + "\n"
}

fn how(raws: &[Raw]) -> String {
    let machines = machines(raws).concat();
    format!(
        "\
## How it was measured

{machines}Each size is measured with a new server with an empty tree, `forceSync=yes` and snapshots only where
the part needs one; Java has a heap of {HEAP_MIB} MB. *CPU* is the processor time of the server's process,
from `/proc`, for each of the things counted; unlike elapsed time it hardly depends on what else the machine
does. Other clients send writes at fixed times, whether earlier ones were answered or not, and a write's
latency is measured from the time at which it was due. The cost of one thing at the largest size is compared with
that at the smallest. Numbers of connections are limited by the machine's limit on descriptors.

```
cargo xtask scale                          # everything; about an hour
cargo xtask scale --list                   # the parts
cargo xtask scale --only sessions,expiry   # some of them; the document keeps the others' numbers
cargo xtask scale --only znodes --largest 5000000
cargo xtask scale --apache                 # Apache 3.9.5; the document shows both
cargo xtask scale --quick                  # check that it works; writes to target/scale/quick
```"
    )
}

fn file(part: &Part) -> String {
    format!("{}.svg", part.name)
}

fn title(part: &Part) -> String {
    format!("Cost by number of {}, relative to the smallest", part.of)
}

/// The costs that should stay constant, relative to the smallest size.
fn growth(part: &Part, raws: &[Raw]) -> Option<Lines> {
    let raw = raws.iter().find(|raw| raw.part == part.name)?;
    let flat = |wanted: &Wanted| matches!(wanted, Wanted::Flat(_));
    let rows = WANTED.iter().filter(|growth| growth.part == part.name && flat(&growth.wanted));
    let mut series = Vec::new();
    for growth in rows {
        for (target, suffix) in [(HERDSMAN, ""), (APACHE, " (Apache)")] {
            let points = raw.measured.curve(growth.curve, target);
            let Some((_, first)) = points.first().filter(|(_, first)| *first > 0.0) else {
                continue;
            };
            let relative = points.iter().map(|(size, value)| (*size, value / first)).collect();
            series.push((format!("{}{suffix}", growth.title), relative));
        }
    }
    let longest = series.iter().map(|(_, points): &(_, Vec<_>)| points.len()).max()?;
    (longest > 1).then(|| Lines {
        title: title(part),
        x_label: part.of.into(),
        y_label: "× the smallest".into(),
        log_x: true,
        log_y: false,
        series,
    })
}

/// The effect on other clients, in all parts.
fn others(raws: &[Raw]) -> Lines {
    let mut series = Vec::new();
    for raw in raws {
        for (target, suffix) in [(HERDSMAN, ""), (APACHE, " (Apache)")] {
            let points = raw.measured.curve("others_p99_during_ms", target);
            if !points.is_empty() {
                series.push((format!("{}{suffix}", raw.part), points.to_vec()));
            }
        }
    }
    Lines {
        title: "p99 of other clients' writes".into(),
        x_label: "size of the part".into(),
        y_label: "milliseconds".into(),
        log_x: true,
        log_y: true,
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::raw::Measured;

    fn sample() -> Vec<Raw> {
        let mut measured = Measured::default();
        for (size, bytes, p99) in [(1000, 200.0, 4.0), (50_000, 310.0, 80.0)] {
            measured.plot("cpu_to_watch_us", HERDSMAN, size, bytes);
            measured.plot("data_cpu_per_watcher_us", HERDSMAN, size, 3.0);
            measured.plot("others_p99_during_ms", HERDSMAN, size, p99);
        }
        vec![Raw { part: "watchers".into(), measured, ..Raw::default() }]
    }

    #[test]
    fn costs_that_grow_and_slow_writes_are_not_met() {
        let text = verdicts(&sample(), &["watchers"]);
        assert!(text.starts_with("1 of 4 are met; 1 not measured."), "{text}");
        assert!(
            text.contains("200 µs at 1,000, 310 µs at 50,000: 1.55 × | **not met** |"),
            "{text}"
        );
        assert!(text.contains("3 µs at 1,000, 3 µs at 50,000: 1 × | met |"), "{text}");
        assert!(text.contains("at most 80 ms at 50,000 | **not met** |"), "{text}");
    }

    #[test]
    fn the_document_shows_the_parts_that_ran() {
        let (raw_dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert!(write(raw_dir.path(), out.path()).is_err());
        sample().iter().for_each(|raw| raw.save(raw_dir.path()).unwrap());
        write(raw_dir.path(), out.path()).unwrap();
        let text = fs::read_to_string(out.path().join("scale.md")).unwrap();
        assert!(text.contains("### watchers") && !text.contains("### join"), "{text}");
        assert!(out.path().join("scale/watchers.svg").exists());
        assert!(!out.path().join("scale/join.svg").exists());
    }
}
