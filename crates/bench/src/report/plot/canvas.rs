//! What all pictures have in common: size, background, fonts, colours, title and legend.

use anyhow::Result;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A piece of the picture, in pixels.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Every picture is so wide: a column of text in a repository's pages.
pub(super) const WIDTH: i32 = 900;
/// Left and right of everything.
pub(super) const MARGIN: i32 = 24;
/// Title and legend together.
pub(super) const HEAD_HEIGHT: i32 = 74;

const BACKGROUND: RGBColor = RGBColor(255, 255, 255);
pub(super) const INK: RGBColor = RGBColor(31, 35, 40);
pub(super) const FAINT: RGBColor = RGBColor(89, 99, 110);
pub(super) const GRID: RGBColor = RGBColor(225, 228, 232);
/// The echo server: no competitor, so no colour.
pub(super) const LIMIT: RGBColor = RGBColor(110, 118, 129);

/// The palette of Okabe and Ito, which does not depend on telling red from green.
const PALETTE: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
];

/// Sizes of text, in what the plotting crate calls a size (1.24 times the pixels of the font).
#[derive(Clone, Copy)]
pub(super) enum Font {
    Title,
    Label,
    Small,
}

/// Where the given point is in the text.
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
    /// For the series with this number.
    pub(super) fn nth(index: usize) -> Self {
        [Marker::Circle, Marker::Square, Marker::Triangle][index % 3]
    }
}

/// The colour of the target or series with this number.
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

/// About how wide a text is: nothing here can measure a font that the reader's browser chooses.
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

/// The title, and a legend below it.
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

/// Says that there is nothing, in the place where it would be.
pub(super) fn draw_nothing(root: &Area<'_>) -> Result<()> {
    let style = font(Font::Label, FAINT, Anchor::Left);
    root.draw_text("Nothing was measured.", &style, (MARGIN, HEAD_HEIGHT))?;
    Ok(())
}
