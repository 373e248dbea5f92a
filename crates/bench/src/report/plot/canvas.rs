//! The parts that all pictures share: size, background, fonts, colours, title and legend.

use anyhow::Result;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A part of the picture, in pixels.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The width of every picture: that of a text column on a repository's pages.
pub(super) const WIDTH: i32 = 900;
/// The margin on the left and right.
pub(super) const MARGIN: i32 = 24;
/// The height of title and legend together.
pub(super) const HEAD_HEIGHT: i32 = 74;

const BACKGROUND: RGBColor = RGBColor(255, 255, 255);
pub(super) const INK: RGBColor = RGBColor(31, 35, 40);
pub(super) const FAINT: RGBColor = RGBColor(89, 99, 110);
pub(super) const GRID: RGBColor = RGBColor(225, 228, 232);
/// The echo server is not a competitor, so it has no colour.
pub(super) const LIMIT: RGBColor = RGBColor(110, 118, 129);

/// The palette of Okabe and Ito, which does not require distinguishing red from green.
const PALETTE: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
];

/// Font sizes in the plotting crate's unit (1.24 times the pixels of the font).
#[derive(Clone, Copy)]
pub(super) enum Font {
    Title,
    Label,
    Small,
}

/// The position of the given point in the text.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Left,
    Middle,
    Right,
}

/// A marker, so that series differ by more than their colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marker {
    Circle,
    Square,
    Triangle,
    Bar,
}

impl Marker {
    /// The marker of the series with this index.
    pub(super) fn nth(index: usize) -> Self {
        [Marker::Circle, Marker::Square, Marker::Triangle][index % 3]
    }
}

/// The colour of the target or series with this index.
pub(super) fn colour(index: usize) -> RGBColor {
    PALETTE[index % PALETTE.len()]
}

/// Draws a picture on the background.
pub(super) fn svg(height: i32, fill: impl FnOnce(&Area<'_>) -> Result<()>) -> Result<String> {
    let mut text = String::new();
    {
        let size = (WIDTH.unsigned_abs(), height.unsigned_abs());
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&BACKGROUND)?;
        fill(&root)?;
        root.present()?;
    }
    Ok(text)
}

pub(super) fn font(font: Font, colour: RGBColor, anchor: Anchor) -> TextStyle<'static> {
    let (size, style) = match font {
        Font::Title => (22, FontStyle::Bold),
        Font::Label => (17, FontStyle::Normal),
        Font::Small => (15, FontStyle::Normal),
    };
    let anchor = match anchor {
        Anchor::Left => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::Right => HPos::Right,
    };
    ("sans-serif", size, style).into_font().color(&colour).pos(Pos::new(anchor, VPos::Center))
}

/// The approximate width of a text: the reader's browser chooses the font, so it cannot be measured.
pub(super) fn text_width(text: &str, size: Font) -> i32 {
    let per_character = match size {
        Font::Title => 9.5,
        Font::Label => 6.9,
        Font::Small => 6.0,
    };
    (text.chars().count() as f64 * per_character).ceil() as i32
}

/// An entry of the legend.
pub(super) struct Key {
    pub(super) label: String,
    pub(super) colour: RGBColor,
    pub(super) marker: Marker,
}

/// Draws the title, and a legend below it.
pub(super) fn draw_head(root: &Area<'_>, title: &str, keys: &[Key]) -> Result<()> {
    root.draw_text(title, &font(Font::Title, INK, Anchor::Left), (MARGIN, 24))?;
    let mut x = MARGIN + 6;
    for key in keys {
        draw_marker(root, (x, 52), key.marker, key.colour)?;
        root.draw_text(&key.label, &font(Font::Label, INK, Anchor::Left), (x + 14, 52))?;
        x += 14 + text_width(&key.label, Font::Label) + 26;
    }
    Ok(())
}

pub(super) fn draw_marker(
    root: &Area<'_>,
    (x, y): (i32, i32),
    marker: Marker,
    colour: RGBColor,
) -> Result<()> {
    let filled = colour.filled();
    match marker {
        Marker::Circle => root.draw(&Circle::new((x, y), 5, filled))?,
        Marker::Square => root.draw(&Rectangle::new([(x - 5, y - 5), (x + 5, y + 5)], filled))?,
        Marker::Triangle => root.draw(&TriangleMarker::new((x, y), 7, filled))?,
        Marker::Bar => root.draw(&Rectangle::new([(x - 1, y - 8), (x + 2, y + 8)], filled))?,
    }
    Ok(())
}

/// Draws a note in place of missing content.
pub(super) fn draw_nothing(root: &Area<'_>) -> Result<()> {
    let style = font(Font::Label, FAINT, Anchor::Left);
    root.draw_text("Nothing was measured.", &style, (MARGIN, HEAD_HEIGHT))?;
    Ok(())
}
