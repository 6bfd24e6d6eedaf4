//! Medians and how figures are printed.

/// The middle of several figures.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// One row of the table.
pub fn report(what: &str, figure: &str, target: &str) {
    println!("| {what} | {figure} | {target} |");
}

/// A ratio with the spread of its rounds.
pub fn ratio(figures: &[f64]) -> String {
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let most = figures.iter().copied().fold(0.0, f64::max);
    format!("**{:.2}** ({least:.2}–{most:.2})", median(figures.to_vec()))
}
