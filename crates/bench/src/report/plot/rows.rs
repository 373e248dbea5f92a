//! Charts with a group for each workload and a line for each target: rates as bars, latencies as ranges.
//! Lines instead of columns, because a chart can then have any number of them, each with its value at its
//! end.

use anyhow::Result;
use plotters::prelude::*;

use super::axis::{Axis, FromTop};
use super::canvas::{
    self, Anchor, Area, FAINT, Font, GRID, HEAD_HEIGHT, INK, Key, LIMIT, MARGIN, Marker, WIDTH,
    colour, font, text_width,
};
use crate::report::{ECHO, Latency, Report, Row, units};

const LINE_HEIGHT: i32 = 22;
const BAR_HEIGHT: i32 = 16;
const GROUP_GAP: i32 = 18;
const AXIS_HEIGHT: i32 = 44;
/// Room for values after the ends of bars.
const VALUE_WIDTH: i32 = 96;
/// A larger ratio of rates needs a logarithmic scale.
const LINEAR_RATIO_MAX: f64 = 20.0;

/// A line of a chart.
struct Line<'a> {
    row: &'a Row,
    colour: RGBColor,
    /// Its middle, in pixels below the top of the chart.
    y: i32,
}

/// The lines of one workload.
struct Group<'a> {
    lines: Vec<Line<'a>>,
    echo: Option<&'a Row>,
    top: i32,
    bottom: i32,
}

impl Group<'_> {
    fn label(&self) -> String {
        let row = self.lines.first().map(|line| line.row).or(self.echo);
        row.map_or_else(String::new, |row| format!("{} {}", row.workload, row.shape()))
    }
}

/// The groups of a report from top to bottom, and their height.
struct Layout<'a> {
    groups: Vec<Group<'a>>,
    height: i32,
    label_width: i32,
}

impl<'a> Layout<'a> {
    fn new(report: &'a Report) -> Self {
        let targets = report.targets();
        let mut groups: Vec<Group<'a>> = Vec::new();
        let mut y = 0;
        for (index, row) in report.rows.iter().enumerate() {
            if report.rows[..index].iter().any(|other| other.is_like(row)) {
                continue;
            }
            y += GROUP_GAP / 2;
            let top = y;
            let (mut lines, mut echo) = (Vec::new(), None);
            for row in report.rows[index..].iter().filter(|other| other.is_like(row)) {
                if row.target == ECHO {
                    echo = Some(row);
                }
                let place = targets.iter().position(|name| *name == row.target);
                let colour = place.map_or(LIMIT, colour);
                lines.push(Line { row, colour, y: y + LINE_HEIGHT / 2 });
                y += LINE_HEIGHT;
            }
            groups.push(Group { lines, echo, top, bottom: y });
            y += GROUP_GAP / 2;
        }
        let labels = groups.iter().map(|group| text_width(&group.label(), Font::Label));
        let label_width = labels.max().unwrap_or(0).clamp(60, WIDTH / 3) + 12;
        Layout { groups, height: y, label_width }
    }

    fn picture_height(&self) -> i32 {
        HEAD_HEIGHT + self.height.max(LINE_HEIGHT) + AXIS_HEIGHT
    }

    fn lines(&self) -> impl Iterator<Item = &Line<'a>> {
        self.groups.iter().flat_map(|group| &group.lines)
    }
}

pub(super) fn rates_height(report: &Report) -> i32 {
    Layout::new(report).picture_height()
}

pub(super) fn latencies_height(report: &Report) -> i32 {
    Layout::new(report).picture_height()
}

pub(super) fn draw_rates(report: &Report, root: &Area<'_>) -> Result<()> {
    let layout = Layout::new(report);
    let rates: Vec<f64> = layout.lines().map(|line| line.row.rate()).filter(|r| *r > 0.0).collect();
    let largest = rates.iter().copied().fold(0.0, f64::max);
    let smallest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let is_log = largest > LINEAR_RATIO_MAX * smallest;
    let axis = match is_log {
        true => Axis::log(rates).with_room_below(2.0),
        false => Axis::from_zero(rates),
    };
    let scale = if is_log { ", logarithmic scale" } else { "" };
    canvas::draw_head(root, &format!("Operations per second{scale}"), &target_keys(report))?;
    if layout.groups.is_empty() {
        return canvas::draw_nothing(root);
    }
    let chart = Chart::new(root, &layout, axis, &|value| units::amount_tick(*value))?;
    for group in &layout.groups {
        if let Some(rate) = group.echo.map(Row::rate).filter(|rate| *rate > 0.0) {
            let ends = [chart.at(rate, group.top), chart.at(rate, group.bottom)];
            root.draw(&PathElement::new(ends, LIMIT.stroke_width(2)))?;
        }
        group.lines.iter().try_for_each(|line| chart.draw_bar(line))?;
    }
    Ok(())
}

pub(super) fn draw_latencies(report: &Report, root: &Area<'_>) -> Result<()> {
    let layout = Layout::new(report);
    let points = |row: &Row| percentiles(row.latency()).map(|(_, us)| us);
    let axis = Axis::log(layout.lines().flat_map(|line| points(line.row)));
    let mut keys: Vec<Key> = target_keys(report);
    keys.extend(percentiles(Latency::default()).map(|(marker, _)| Key {
        label: percentile_name(marker).to_owned(),
        colour: FAINT,
        marker,
    }));
    canvas::draw_head(root, "From request to reply, logarithmic scale", &keys)?;
    if layout.groups.is_empty() {
        return canvas::draw_nothing(root);
    }
    let chart = Chart::new(root, &layout, axis, &|value| units::micros_tick(*value))?;
    layout.lines().try_for_each(|line| chart.draw_range(line))
}

/// An axis with its grid, the names of groups beside it, and what is drawn on it.
struct Chart<'r, 'b> {
    root: &'r Area<'b>,
    axis: Axis,
    /// Draws at a value and at pixels from the top.
    plane: ChartContext<'r, SVGBackend<'b>, Cartesian2d<Axis, FromTop>>,
}

impl<'r, 'b> Chart<'r, 'b> {
    fn new(
        root: &'r Area<'b>,
        layout: &Layout<'_>,
        axis: Axis,
        format: &dyn Fn(&f64) -> String,
    ) -> Result<Self> {
        let mut plane = ChartBuilder::on(root)
            .margin_left(MARGIN)
            .margin_right(MARGIN + VALUE_WIDTH)
            .margin_top(HEAD_HEIGHT)
            .margin_bottom(8)
            .x_label_area_size(AXIS_HEIGHT - 8)
            .y_label_area_size(layout.label_width)
            .build_cartesian_2d(axis.clone(), FromTop { height: layout.height })?;
        plane
            .configure_mesh()
            .bold_line_style(GRID)
            .max_light_lines(0)
            .axis_style(FAINT)
            .disable_y_mesh()
            .disable_y_axis()
            .x_labels(8)
            .label_style(font(Font::Small, INK, Anchor::Middle))
            .x_label_formatter(format)
            .draw()?;
        let chart = Chart { root, axis, plane };
        for group in &layout.groups {
            let (x, y) = chart.start_of(i32::midpoint(group.top, group.bottom));
            let style = font(Font::Label, INK, Anchor::Right);
            root.draw_text(&group.label(), &style, (x - 12, y))?;
        }
        Ok(chart)
    }

    /// The position of a value, in pixels of the root.
    fn at(&self, value: f64, y: i32) -> (i32, i32) {
        let (x, y) = self.plane.backend_coord(&(value, y));
        let (left, top) = self.root.get_base_pixel();
        (x - left, y - top)
    }

    /// The left end of the axis.
    fn start_of(&self, y: i32) -> (i32, i32) {
        self.at(self.axis.min(), y)
    }

    /// Draws a rate as a bar from the start of the axis.
    fn draw_bar(&self, line: &Line<'_>) -> Result<()> {
        let rate = line.row.rate();
        let (left, y) = self.start_of(line.y);
        if rate <= 0.0 {
            return self.draw_value((left, y), "no replies");
        }
        let (right, _) = self.at(rate, line.y);
        let strength = if line.row.target == ECHO { 0.45 } else { 1.0 };
        let bar = [(left, y - BAR_HEIGHT / 2), (right.max(left + 1), y + BAR_HEIGHT / 2)];
        self.root.draw(&Rectangle::new(bar, line.colour.mix(strength).filled()))?;
        self.draw_value((right, y), &units::rate(rate))
    }

    /// Draws latencies from the median to the maximum.
    fn draw_range(&self, line: &Line<'_>) -> Result<()> {
        let latency = line.row.latency();
        if !(self.axis.shows(latency.p50_us) && self.axis.shows(latency.max_us)) {
            return self.draw_value(self.start_of(line.y), "no replies");
        }
        let ends = [self.at(latency.p50_us, line.y), self.at(latency.max_us, line.y)];
        self.root.draw(&PathElement::new(ends, line.colour.stroke_width(2)))?;
        for (marker, us) in percentiles(latency).into_iter().filter(|(_, us)| self.axis.shows(*us))
        {
            canvas::draw_marker(self.root, self.at(us, line.y), marker, line.colour)?;
        }
        self.draw_value(ends[1], &format!("p99 {}", units::micros(latency.p99_us)))
    }

    /// Writes a value after a point, on its own background, so that no line crosses it.
    fn draw_value(&self, (x, y): (i32, i32), value: &str) -> Result<()> {
        let x = x + 9;
        let plate = [(x - 3, y - 8), (x + text_width(value, Font::Small), y + 8)];
        self.root.draw(&Rectangle::new(plate, WHITE.filled()))?;
        self.root.draw_text(value, &font(Font::Small, INK, Anchor::Left), (x, y))?;
        Ok(())
    }
}

fn percentiles(latency: Latency) -> [(Marker, f64); 4] {
    [
        (Marker::Circle, latency.p50_us),
        (Marker::Square, latency.p99_us),
        (Marker::Triangle, latency.p999_us),
        (Marker::Bar, latency.max_us),
    ]
}

fn percentile_name(marker: Marker) -> &'static str {
    match marker {
        Marker::Circle => "p50",
        Marker::Square => "p99",
        Marker::Triangle => "p99.9",
        Marker::Bar => "max",
    }
}

fn target_keys(report: &Report) -> Vec<Key> {
    let key = |label: &str, colour| Key { label: label.to_owned(), colour, marker: Marker::Square };
    let targets = report.targets().into_iter().enumerate();
    let mut keys: Vec<Key> = targets.map(|(index, name)| key(name, colour(index))).collect();
    if report.rows.iter().any(|row| row.target == ECHO) {
        keys.push(key("echo (the limit)", LIMIT));
    }
    keys
}
