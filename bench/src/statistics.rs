//! Medians, and the rows of the tables that benchmarks print.

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

pub fn print_header() {
    println!("| what | figure | target |");
    println!("| --- | --- | --- |");
}

pub fn print_row(what: &str, figure: &str, target: &str) {
    println!("| {what} | {figure} | {target} |");
}

/// The median ratio, with the range of all rounds in brackets.
pub fn format_ratios(ratios: &[f64]) -> String {
    let min = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let max = ratios.iter().copied().fold(0.0, f64::max);
    format!("**{:.2}** ({min:.2}–{max:.2})", median(ratios.to_vec()))
}

/// Three significant digits at least, with thousands separators.
pub fn format_number(number: f64) -> String {
    if number >= 100.0 {
        separate_thousands(number)
    } else if number >= 10.0 {
        format!("{number:.1}")
    } else {
        format!("{number:.2}")
    }
}

/// The label of an axis tick: without trailing zeros.
pub fn format_tick(number: f64) -> String {
    if number >= 1000.0 {
        separate_thousands(number)
    } else {
        let text = format!("{number:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

fn separate_thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut separated = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            separated.push(',');
        }
        separated.push(digit);
    }
    separated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(format_number(12345.6), "12,346");
        assert_eq!(format_number(999.4), "999");
        assert_eq!(format_number(12.34), "12.3");
        assert_eq!(format_number(1.234), "1.23");
        assert_eq!(format_tick(0.1), "0.1");
        assert_eq!(format_tick(100.0), "100");
        assert_eq!(format_tick(10_000.0), "10,000");
    }
}
