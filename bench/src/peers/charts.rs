//! Draws the report's charts as SVG. The colours are readable on light and dark pages; the background is transparent.

use std::error::Error;

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::systems::SystemKind;
use crate::statistics::{format_number, format_tick};

const WIDTH: i32 = 810;
const ROW_HEIGHT: i32 = 24;
const LABEL_WIDTH: i32 = 240;
/// Room for the number after the longest bar.
const RIGHT_MARGIN: i32 = 110;
const TITLE_HEIGHT: i32 = 34;
const PANEL_TITLE_HEIGHT: i32 = 26;
const AXIS_HEIGHT: i32 = 34;
const LEGEND_HEIGHT: i32 = 26;
/// Plotters divides it by 1.24, which makes 12 pixels in the SVG.
const FONT_SIZE: f64 = 14.88;
const TEXT_COLOR: RGBColor = RGBColor(0x7b, 0x87, 0x94);

/// One axis with a row per system or operation.
pub struct ChartPanel {
    pub title: String,
    pub unit: &'static str,
    pub scale: AxisScale,
    pub rows: Vec<ChartRow>,
    /// Drawn as a dashed line.
    pub target: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisScale {
    /// From zero.
    Linear,
    /// From one power of ten to another.
    Logarithmic,
}

pub struct ChartRow {
    pub label: String,
    pub kind: SystemKind,
    pub mark: Option<ChartMark>,
}

pub enum ChartMark {
    /// A dot with an error bar.
    Dot { value: f64, min: f64, max: f64 },
    /// A bar from `low` to `high` with the median, and a dot for the extreme.
    Range {
        low: f64,
        median: f64,
        high: f64,
        extreme: f64,
    },
    /// A bar from zero.
    Bar { value: f64 },
}

impl ChartMark {
    fn values(&self) -> Vec<f64> {
        match *self {
            Self::Dot { value, min, max } => vec![value, min, max],
            Self::Range {
                low,
                median,
                high,
                extreme,
            } => vec![low, median, high, extreme],
            Self::Bar { value } => vec![value],
        }
    }

    /// The value that is printed beside the mark.
    fn main_value(&self) -> f64 {
        match *self {
            Self::Dot { value, .. } | Self::Bar { value } => value,
            Self::Range { median, .. } => median,
        }
    }
}

/// Draws the panels below each other, with a legend.
pub fn draw_chart(title: &str, panels: &[ChartPanel]) -> Result<String, Box<dyn Error>> {
    let panels_height: i32 = panels.iter().map(ChartPanel::height).sum();
    let height = TITLE_HEIGHT + panels_height + LEGEND_HEIGHT;
    let mut svg = String::new();
    {
        let size = (WIDTH.unsigned_abs(), height.unsigned_abs());
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.draw(&Text::new(title, (8, 16), text_style(true, HPos::Left)))?;
        let (_, mut rest) = root.split_vertically(TITLE_HEIGHT);
        for panel in panels {
            let (area, below) = rest.split_vertically(panel.height());
            panel.draw_panel(&area)?;
            rest = below;
        }
        draw_legend(&rest, panels)?;
        root.present()?;
    }
    Ok(svg)
}

fn draw_legend(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    panels: &[ChartPanel],
) -> Result<(), Box<dyn Error>> {
    let mut x = LABEL_WIDTH;
    for (kind, label) in [
        (SystemKind::Planwright, "Planwright"),
        (SystemKind::Baseline, "baseline: the database alone"),
        (SystemKind::Peer, "other engines"),
    ] {
        let mut rows = panels.iter().flat_map(|panel| &panel.rows);
        if rows.any(|row| row.kind == kind && row.mark.is_some()) {
            let text = Text::new(label, (9, 0), text_style(false, HPos::Left));
            let dot = Circle::new((0, 0), 4, kind_color(kind).filled());
            area.draw(&(EmptyElement::at((x, 8)) + dot + text))?;
            x += if kind == SystemKind::Planwright {
                110
            } else {
                200
            };
        }
    }
    Ok(())
}

impl ChartPanel {
    fn height(&self) -> i32 {
        let rows = i32::try_from(self.rows.len()).unwrap_or_default();
        PANEL_TITLE_HEIGHT + rows * ROW_HEIGHT + AXIS_HEIGHT
    }

    fn draw_panel(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Box<dyn Error>> {
        let title = Text::new(self.title.as_str(), (8, 12), text_style(true, HPos::Left));
        area.draw(&title)?;
        let unit_at = (WIDTH - 8, self.height() - AXIS_HEIGHT + 16);
        area.draw(&Text::new(
            self.unit,
            unit_at,
            text_style(false, HPos::Right),
        ))?;

        let (start, end) = self.axis_range();
        // Row numbers grow downwards.
        let row_range = self.rows.len() as f64 - 0.5..-0.5;
        let mut chart = ChartBuilder::on(area)
            .margin_top(PANEL_TITLE_HEIGHT)
            .margin_left(LABEL_WIDTH)
            .margin_right(RIGHT_MARGIN)
            .x_label_area_size(AXIS_HEIGHT)
            .build_cartesian_2d(start..end, row_range.clone())?;
        let grid = TEXT_COLOR.mix(0.35);
        chart
            .configure_mesh()
            .disable_y_mesh()
            .axis_style(TRANSPARENT)
            .bold_line_style(grid)
            .light_line_style(TRANSPARENT)
            .x_labels(self.max_ticks(start, end))
            .x_label_style(text_style(false, HPos::Center))
            .x_label_formatter(&|position| format_tick(self.value_at(*position)))
            .draw()?;
        let plot = chart.plotting_area();
        if let Some(target) = self.target {
            let x = self.position_of(target);
            let line = [(x, row_range.start), (x, row_range.end)];
            let style = TEXT_COLOR.stroke_width(1);
            plot.draw(&DashedPathElement::new(line, 5, 4, style))?;
        }
        for (index, row) in self.rows.iter().enumerate() {
            let y = index as f64;
            let at = |value: f64| (self.position_of(value).max(start), y);
            let color = kind_color(row.kind);
            let line = |from, to, width| PathElement::new([from, to], color.stroke_width(width));
            let label_style = text_style(row.kind == SystemKind::Planwright, HPos::Right);
            let label = Text::new(row.label.clone(), (-10, 0), label_style);
            plot.draw(&(EmptyElement::at((start, y)) + label))?;
            let mut end = (start, y);
            let mut text = "not measured".to_owned();
            if let Some(mark) = &row.mark {
                match *mark {
                    ChartMark::Dot { value, min, max } => {
                        plot.draw(&PathElement::new([(start, y), at(value)], grid))?;
                        plot.draw(&line(at(min), at(max), 2))?;
                        plot.draw(&Circle::new(at(value), 5, color.filled()))?;
                    }
                    ChartMark::Range {
                        low,
                        median,
                        high,
                        extreme,
                    } => {
                        plot.draw(&line(at(low), at(high), 8))?;
                        let tick = PathElement::new([(0, -8), (0, 8)], color.stroke_width(3));
                        plot.draw(&(EmptyElement::at(at(median)) + tick))?;
                        plot.draw(&Circle::new(at(extreme), 3, color.filled()))?;
                    }
                    ChartMark::Bar { value } => plot.draw(&line((start, y), at(value), 12))?,
                }
                let max = mark.values().into_iter().fold(0.0, f64::max);
                (end, text) = (at(max), format_number(mark.main_value()));
            }
            let text = Text::new(text, (10, 0), text_style(false, HPos::Left));
            plot.draw(&(EmptyElement::at(end) + text))?;
        }
        Ok(())
    }

    /// Where a value is on the axis: its logarithm on a logarithmic axis.
    fn position_of(&self, value: f64) -> f64 {
        match self.scale {
            AxisScale::Linear => value,
            AxisScale::Logarithmic => value.max(1e-6).log10(),
        }
    }

    fn value_at(&self, position: f64) -> f64 {
        match self.scale {
            AxisScale::Linear => position,
            AxisScale::Logarithmic => 10_f64.powf(position),
        }
    }

    /// The positions of the axis' ends.
    fn axis_range(&self) -> (f64, f64) {
        let marks = self.rows.iter().filter_map(|row| row.mark.as_ref());
        let values = marks.flat_map(ChartMark::values).chain(self.target);
        let positions: Vec<f64> = values.map(|value| self.position_of(value)).collect();
        let min = positions.iter().copied().fold(f64::INFINITY, f64::min);
        let max = positions.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match self.scale {
            _ if positions.is_empty() => (0.0, 1.0),
            AxisScale::Linear => (0.0, max * 1.05),
            AxisScale::Logarithmic => (min.floor(), max.ceil().max(min.floor() + 1.0)),
        }
    }

    /// On a logarithmic axis, a tick for every power of ten.
    fn max_ticks(&self, start: f64, end: f64) -> usize {
        match self.scale {
            AxisScale::Linear => 8,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a small positive number"
            )]
            AxisScale::Logarithmic => (end - start) as usize + 1,
        }
    }
}

fn kind_color(kind: SystemKind) -> RGBColor {
    match kind {
        SystemKind::Planwright => RGBColor(0x1f, 0x9e, 0x89),
        SystemKind::Baseline => RGBColor(0x8d, 0x99, 0xae),
        SystemKind::Peer => RGBColor(0xd9, 0x78, 0x3b),
    }
}

fn text_style(bold: bool, anchor: HPos) -> TextStyle<'static> {
    let weight = if bold {
        FontStyle::Bold
    } else {
        FontStyle::Normal
    };
    TextStyle::from(("system-ui, sans-serif", FONT_SIZE, weight).into_font())
        .color(&TEXT_COLOR)
        .pos(Pos::new(anchor, VPos::Center))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_shows_missing_measurements() {
        let row = |label: &str, mark| ChartRow {
            label: label.to_owned(),
            kind: SystemKind::Peer,
            mark,
        };
        let dot = ChartMark::Dot {
            value: 20.0,
            min: 10.0,
            max: 300.0,
        };
        let panel = ChartPanel {
            title: "a < b".to_owned(),
            unit: "ms",
            scale: AxisScale::Logarithmic,
            rows: vec![row("one", Some(dot)), row("none", None)],
            target: None,
        };
        let svg = draw_chart("chart", &[panel]).unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("not measured") && svg.contains("a &lt; b"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
