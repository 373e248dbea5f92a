//! A line chart of any quantity against another, to show how cost grows.

use anyhow::Result;
use plotters::prelude::*;

use super::axis::{Axis, Scale};
use super::canvas::{self, Anchor, Area, Font, HEAD_HEIGHT, Key, MARGIN, Marker, colour, font};
use crate::report::units;

const HEIGHT: i32 = 460;

/// A line chart. A series has a name and points; points that a logarithmic axis cannot show are skipped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// The title above the chart.
    pub title: String,
    /// The quantity on the x axis, and its unit.
    pub x_label: String,
    /// The quantity on the y axis, and its unit.
    pub y_label: String,
    /// Whether the x axis is logarithmic.
    pub log_x: bool,
    /// Whether the y axis is logarithmic; otherwise it starts at zero.
    pub log_y: bool,
    /// The series, in the order of the legend.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

impl Lines {
    fn axis(&self, log: bool, of: impl Fn(&(f64, f64)) -> f64) -> Axis {
        let values = self.series.iter().flat_map(|(_, points)| points).map(of);
        Axis::new(if log { Scale::Log } else { Scale::Linear }, values)
    }
}

/// Returns the chart as SVG text.
pub fn draw(lines: &Lines) -> Result<String> {
    canvas::svg(HEIGHT, |root| {
        let keys: Vec<Key> = lines
            .series
            .iter()
            .enumerate()
            .map(|(index, (label, _))| Key {
                label: label.clone(),
                colour: colour(index),
                marker: Marker::nth(index),
            })
            .collect();
        canvas::draw_head(root, &lines.title, &keys)?;
        if lines.series.iter().all(|(_, points)| points.is_empty()) {
            return canvas::draw_nothing(root);
        }
        draw_chart(lines, root)
    })
}

fn draw_chart(lines: &Lines, root: &Area<'_>) -> Result<()> {
    let x = lines.axis(lines.log_x, |point| point.0);
    let y = lines.axis(lines.log_y, |point| point.1);
    let mut chart = ChartBuilder::on(root)
        .margin_left(MARGIN - 10)
        .margin_right(MARGIN + 10)
        .margin_bottom(12)
        .margin_top(HEAD_HEIGHT)
        .x_label_area_size(52)
        .y_label_area_size(76)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .bold_line_style(canvas::GRID)
        .max_light_lines(0)
        .axis_style(canvas::FAINT)
        .x_labels(10)
        .y_labels(8)
        .x_desc(&lines.x_label)
        .y_desc(&lines.y_label)
        .axis_desc_style(font(Font::Label, canvas::FAINT, Anchor::Middle))
        .label_style(font(Font::Small, canvas::INK, Anchor::Middle))
        .x_label_formatter(&|value| units::amount_tick(*value))
        .y_label_formatter(&|value| units::amount_tick(*value))
        .draw()?;
    for (index, (_, points)) in lines.series.iter().enumerate() {
        let points: Vec<(f64, f64)> =
            points.iter().copied().filter(|point| x.shows(point.0) && y.shows(point.1)).collect();
        let style = colour(index).stroke_width(3);
        chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
        for point in &points {
            let place = chart.backend_coord(point);
            canvas::draw_marker(root, place, Marker::nth(index), colour(index))?;
        }
    }
    Ok(())
}
