//! The pictures: which curves are drawn together, and in which file.

use anyhow::Result;
use herdsman_bench::report::plot::{self, Lines};
use herdsman_bench::report::{ECHO, Report};

use super::Raws;
use crate::bench::raw::{APACHE, HERDSMAN};

/// A picture of the document.
pub struct Picture {
    /// Its file below `benchmarks/`.
    pub file: &'static str,
    /// Its title.
    pub title: &'static str,
    content: Content,
}

enum Content {
    /// Bars: the rates of these parts.
    Rates(&'static [&'static str]),
    Curves(Curves),
}

struct Curves {
    part: &'static str,
    x_label: &'static str,
    y_label: &'static str,
    y_scale: Scale,
    /// The curve's name in the part's file, and the addition to the legend.
    names: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    Log,
}

/// The targets whose curves are drawn, with their names in legends.
const TARGETS: [(&str, &str); 3] =
    [(HERDSMAN, "Herdsman"), (APACHE, "Apache 3.9.5"), (ECHO, "echo")];

impl Picture {
    /// The picture; `None` if there is nothing to show.
    pub fn draw(&self, raws: &Raws) -> Result<Option<String>> {
        match &self.content {
            Content::Rates(parts) => {
                let report = merged(parts, raws);
                (!report.rows.is_empty()).then(|| plot::rates(&report)).transpose()
            }
            Content::Curves(curves) => {
                let lines = curves.lines(self.title, raws);
                (!lines.series.is_empty()).then(|| plot::draw(&lines)).transpose()
            }
        }
    }

    /// Whether it belongs to the section about growth.
    pub fn shows_growth(&self) -> bool {
        matches!(self.content, Content::Curves(_))
    }
}

/// The rows of several parts in one report.
fn merged(parts: &[&str], raws: &Raws) -> Report {
    let reports = parts.iter().filter_map(|part| raws.part(part)?.measured.report.as_ref());
    let rows = reports.flat_map(|report| report.rows.iter().cloned()).collect();
    Report { rows, ..Report::default() }
}

impl Curves {
    fn lines(&self, title: &str, raws: &Raws) -> Lines {
        let mut series = Vec::new();
        for (target, legend) in TARGETS {
            for (name, what) in self.names {
                let raw = raws.part(self.part);
                let points = raw.map_or(&[][..], |raw| raw.measured.curve(name, target));
                if !points.is_empty() {
                    series.push((format!("{legend}{what}"), points.to_vec()));
                }
            }
        }
        Lines {
            title: title.into(),
            x_label: self.x_label.into(),
            y_label: self.y_label.into(),
            log_x: true,
            log_y: self.y_scale == Scale::Log,
            series,
        }
    }
}

/// All pictures, in the order in which they appear.
pub const PICTURES: &[Picture] = &[
    Picture {
        file: "rates.svg",
        title: "Operations per second, one server",
        content: Content::Rates(&["get-64x1", "get-64x16", "set-64x1", "set-64x16", "mixed-64x16"]),
    },
    Picture {
        file: "three.svg",
        title: "Operations per second, three servers",
        content: Content::Rates(&["three-set-60x1", "three-set-60x16", "three-mixed-60x16"]),
    },
    Picture {
        file: "reads.svg",
        title: "Reads per second by the size of the tree",
        content: Content::Curves(Curves {
            part: "scaling-znodes",
            x_label: "znodes",
            y_label: "reads a second",
            y_scale: Scale::Log,
            names: &[("all_keys_per_s", ", all keys"), ("hot_keys_per_s", ", 1,000 keys")],
        }),
    },
    Picture {
        file: "children.svg",
        title: "Time of a getChildren",
        content: Content::Curves(Curves {
            part: "scaling-children",
            x_label: "children",
            y_label: "microseconds",
            y_scale: Scale::Log,
            names: &[("list_us", "")],
        }),
    },
    Picture {
        file: "changes.svg",
        title: "Time of a create and of a delete among many children, without the disk",
        content: Content::Curves(Curves {
            part: "scaling-children",
            x_label: "children",
            y_label: "microseconds",
            y_scale: Scale::Linear,
            names: &[("create_us", ", create"), ("delete_us", ", delete")],
        }),
    },
    Picture {
        file: "watches.svg",
        title: "Time to set watches",
        content: Content::Curves(Curves {
            part: "scaling-watches",
            x_label: "watches",
            y_label: "milliseconds",
            y_scale: Scale::Log,
            names: &[("register_ms", "")],
        }),
    },
    Picture {
        file: "fan-out.svg",
        title: "Time until all watchers have been notified of a change",
        content: Content::Curves(Curves {
            part: "scaling-watches",
            x_label: "watchers",
            y_label: "milliseconds",
            y_scale: Scale::Log,
            names: &[("fan_out_ms", "")],
        }),
    },
];
