//! Charts as SVG, written by hand. Colours that can be read on a light page and on a dark one; nothing
//! that a renderer could fetch or run.

use std::fmt::Write as _;

const WIDTH: f64 = 810.0;
const ROW: f64 = 24.0;
const LABEL: f64 = 240.0;
const RIGHT: f64 = 110.0;
const TEXT: &str = "#7b8794";
/// Behind everything else.
const GRID: Stroke = Stroke {
    colour: TEXT,
    width: 1.0,
    style: " stroke-opacity=\"0.35\"",
};
/// What a figure is compared with.
const TARGET: Stroke = Stroke {
    colour: TEXT,
    width: 1.5,
    style: " stroke-dasharray=\"5 4\"",
};

/// What a mark stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Own,
    Limit,
    Peer,
}

impl Tone {
    fn colour(self) -> &'static str {
        match self {
            Self::Own => "#1f9e89",
            Self::Limit => "#8d99ae",
            Self::Peer => "#d9783b",
        }
    }
}

/// One line of a panel.
pub struct Row {
    pub label: String,
    pub tone: Tone,
    pub mark: Mark,
}

/// What is drawn in it.
pub enum Mark {
    /// A point, with what lies between its ends.
    Point { at: f64, from: f64, to: f64 },
    /// A box with its middle, and a point far out.
    Range {
        from: f64,
        middle: f64,
        to: f64,
        far: f64,
    },
    /// A bar from zero.
    Bar { to: f64 },
    /// Nothing was measured.
    Absent,
}

/// A chart of its own axis.
pub struct Panel {
    pub title: String,
    pub unit: &'static str,
    pub scale: Scale,
    pub rows: Vec<Row>,
    /// A line that a figure should reach or stay below.
    pub target: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// In powers of ten.
    Logarithmic,
}

/// The panels, one below the other.
pub fn draw(title: &str, panels: &[Panel]) -> String {
    let height: f64 = 34.0 + panels.iter().map(Panel::height).sum::<f64>() + 26.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"{TEXT}\" \
         role=\"img\">\n<title>{}</title>\n",
        escaped(title)
    );
    text(&mut svg, 8.0, 20.0, "start", "bold", title);
    let mut top = 34.0;
    for panel in panels {
        panel.draw(&mut svg, top);
        top += panel.height();
    }
    let tones = [
        (Tone::Own, "Planwright"),
        (Tone::Limit, "the database's limit"),
        (Tone::Peer, "peers"),
    ];
    let mut x = LABEL;
    for (tone, name) in tones {
        let used = |row: &Row| row.tone == tone && !matches!(row.mark, Mark::Absent);
        if !panels.iter().any(|panel| panel.rows.iter().any(used)) {
            continue;
        }
        circle(&mut svg, x, top + 8.0, 4.0, tone);
        text(&mut svg, x + 9.0, top + 12.0, "start", "normal", name);
        x += 150.0;
    }
    svg + "</svg>\n"
}

impl Panel {
    fn height(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a few rows")]
        let rows = self.rows.len() as f64;
        26.0 + rows * ROW + 34.0
    }

    fn draw(&self, svg: &mut String, top: f64) {
        text(svg, 8.0, top + 16.0, "start", "600", &self.title);
        let axis = Axis::over(self);
        let (first, last) = (top + 26.0, top + self.height() - 34.0);
        for tick in axis.ticks() {
            let x = axis.at(tick);
            line(svg, (x, first), (x, last), &GRID);
            text(svg, x, last + 15.0, "middle", "normal", &short(tick));
        }
        text(svg, WIDTH - 8.0, last + 15.0, "end", "normal", self.unit);
        if let Some(target) = self.target {
            let x = axis.at(target);
            line(svg, (x, first), (x, last), &TARGET);
        }
        let mut y = first + ROW / 2.0;
        for row in &self.rows {
            let weight = if row.tone == Tone::Own {
                "600"
            } else {
                "normal"
            };
            text(svg, LABEL - 10.0, y + 4.0, "end", weight, &row.label);
            row.draw(svg, &axis, y);
            y += ROW;
        }
    }
}

impl Row {
    fn draw(&self, svg: &mut String, axis: &Axis, y: f64) {
        let end = match self.mark {
            Mark::Point { at, from, to } => {
                line(svg, (LABEL, y), (axis.at(at), y), &GRID);
                line(
                    svg,
                    (axis.at(from), y),
                    (axis.at(to), y),
                    &Stroke::of(self.tone, 2.0),
                );
                circle(svg, axis.at(at), y, 5.0, self.tone);
                Some((axis.at(to).max(axis.at(at)), at))
            }
            Mark::Range {
                from,
                middle,
                to,
                far,
            } => {
                line(
                    svg,
                    (axis.at(from), y),
                    (axis.at(to), y),
                    &Stroke::of(self.tone, 8.0),
                );
                let x = axis.at(middle);
                line(svg, (x, y - 8.0), (x, y + 8.0), &Stroke::of(self.tone, 3.0));
                circle(svg, axis.at(far), y, 2.5, self.tone);
                Some((axis.at(far).max(axis.at(to)), middle))
            }
            Mark::Bar { to } => {
                line(
                    svg,
                    (LABEL, y),
                    (axis.at(to), y),
                    &Stroke::of(self.tone, 12.0),
                );
                Some((axis.at(to), to))
            }
            Mark::Absent => None,
        };
        match end {
            Some((x, figure)) => {
                text(svg, x + 10.0, y + 4.0, "start", "normal", &exact(figure));
            }
            None => text(svg, LABEL, y + 4.0, "start", "normal", "not measured"),
        }
    }
}

/// Where figures lie on the page.
struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(panel: &Panel) -> Self {
        let mut figures: Vec<f64> = panel.target.into_iter().collect();
        for row in &panel.rows {
            match row.mark {
                Mark::Point { at, from, to } => figures.extend([at, from, to]),
                Mark::Range {
                    from,
                    middle,
                    to,
                    far,
                } => figures.extend([from, middle, to, far]),
                Mark::Bar { to } => figures.push(to),
                Mark::Absent => {}
            }
        }
        let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let most = figures.iter().copied().fold(0.0, f64::max);
        match panel.scale {
            _ if figures.is_empty() => Self {
                scale: Scale::Linear,
                from: 0.0,
                to: 1.0,
            },
            Scale::Linear => Self {
                scale: Scale::Linear,
                from: 0.0,
                to: most * 1.05,
            },
            Scale::Logarithmic => Self {
                scale: Scale::Logarithmic,
                from: 10_f64.powf(least.max(1e-6).log10().floor()),
                to: 10_f64.powf(most.max(1e-5).log10().ceil()),
            },
        }
    }

    fn at(&self, figure: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => figure / self.to,
            Scale::Logarithmic => {
                let (from, to) = (self.from.log10(), self.to.log10());
                (figure.max(self.from).log10() - from) / (to - from).max(1.0)
            }
        };
        LABEL + share.clamp(0.0, 1.0) * (WIDTH - LABEL - RIGHT)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0, 100.0, 1000.0]
                    .into_iter()
                    .find(|step| self.to / step <= 8.0)
                    .unwrap_or(self.to / 4.0);
                (0..)
                    .map(|number| f64::from(number) * step)
                    .take_while(|tick| *tick <= self.to)
                    .collect()
            }
            Scale::Logarithmic => {
                let mut ticks = vec![self.from];
                while let Some(last) = ticks.last().copied().filter(|last| last * 9.99 < self.to) {
                    ticks.push(last * 10.0);
                }
                ticks
            }
        }
    }
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, weight: &str, words: &str) {
    let words = escaped(words);
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\">{words}</text>"
    );
}

/// How a line is drawn.
struct Stroke {
    colour: &'static str,
    width: f64,
    /// Further attributes, each after a space.
    style: &'static str,
}

impl Stroke {
    fn of(tone: Tone, width: f64) -> Self {
        Self {
            colour: tone.colour(),
            width,
            style: "",
        }
    }
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), stroke: &Stroke) {
    let Stroke {
        colour,
        width,
        style,
    } = stroke;
    let _ = writeln!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"{style}/>",
        from.0, from.1, to.0, to.1
    );
}

fn circle(svg: &mut String, x: f64, y: f64, radius: f64, tone: Tone) {
    let colour = tone.colour();
    let _ = writeln!(
        svg,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{colour}\"/>"
    );
}

/// As people read it beside a mark.
pub fn exact(figure: f64) -> String {
    if figure >= 100.0 {
        grouped(figure)
    } else if figure >= 10.0 {
        format!("{figure:.1}")
    } else {
        format!("{figure:.2}")
    }
}

/// Thousands apart.
fn grouped(figure: f64) -> String {
    let digits = format!("{figure:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// As it stands below an axis.
fn short(figure: f64) -> String {
    if figure >= 1000.0 {
        grouped(figure)
    } else {
        let text = format!("{figure:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_as_people_read_them() {
        assert_eq!(exact(12345.6), "12,346");
        assert_eq!(exact(999.4), "999");
        assert_eq!(exact(12.34), "12.3");
        assert_eq!(exact(1.234), "1.23");
        assert_eq!(short(0.1), "0.1");
        assert_eq!(short(100.0), "100");
        assert_eq!(short(10_000.0), "10,000");
    }

    #[test]
    fn a_chart_is_whole_and_says_what_is_missing() {
        let row = |label: &str, mark| Row {
            label: label.to_owned(),
            tone: Tone::Peer,
            mark,
        };
        let panel = Panel {
            title: "a < b".to_owned(),
            unit: "ms",
            scale: Scale::Logarithmic,
            rows: vec![
                row(
                    "one",
                    Mark::Point {
                        at: 20.0,
                        from: 10.0,
                        to: 300.0,
                    },
                ),
                row("none", Mark::Absent),
            ],
            target: None,
        };
        let svg = draw("chart", &[panel]);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("not measured") && svg.contains("a &lt; b"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
