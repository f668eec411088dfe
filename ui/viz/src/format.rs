//! The one place where a number becomes text.
//!
//! A unit belongs to a value, so a page never writes one by hand. Unknown is an em dash; zero is
//! written only for a measured zero, and a value too small to show says so ("<$0.0001").

use serde::{Deserialize, Serialize};

/// What is written where nothing is known.
pub const UNKNOWN: &str = "—";

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Seconds, shown as µs, ms, s, min or h.
    Seconds,
    /// Microseconds, shown like seconds.
    Micros,
    /// Output tokens per second.
    TokensPerSecond,
    /// Requests per second.
    RequestsPerSecond,
    /// Tokens.
    Tokens,
    /// Things without a unit.
    Count,
    /// A number whose unit stands elsewhere, such as a mean of counts.
    Plain,
    /// A share of one, shown in percent.
    Ratio,
    /// Output tokens per joule, which is tokens per second per watt.
    TokensPerJoule,
    /// Joules.
    Joules,
    /// Watts.
    Watts,
    /// US dollars.
    Usd,
    /// US dollars per hour.
    UsdPerHour,
    /// US dollars per million tokens.
    UsdPerMillion,
    /// Bytes, powers of 1024.
    Bytes,
    /// How many times as much: a burn rate.
    Times,
    /// Joules per output token.
    JoulesPerToken,
    /// Kilowatt hours of a value in joules.
    KilowattHours,
    /// Degrees Celsius.
    Celsius,
    /// Grams.
    Grams,
}

/// A number and its unit, apart so that a page can set them differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Digits, with a currency sign before them where the unit is money.
    pub number: String,
    /// Unit, empty where there is none.
    pub unit: String,
}

impl Shown {
    fn new(number: impl Into<String>, unit: impl Into<String>) -> Self {
        Self { number: number.into(), unit: unit.into() }
    }

    /// Both as one text.
    pub fn text(&self) -> String {
        match (self.unit.is_empty(), self.unit.starts_with(['/', '%', '×'])) {
            (true, _) => self.number.clone(),
            (_, true) => format!("{}{}", self.number, self.unit),
            _ => format!("{}\u{202f}{}", self.number, self.unit),
        }
    }
}

/// Writes a value, or an em dash when there is none.
pub fn show(value: Option<f64>, unit: Unit) -> Shown {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return Shown::new(UNKNOWN, "");
    };
    match unit {
        Unit::Seconds => seconds(value),
        Unit::Micros => seconds(value / 1e6),
        Unit::TokensPerSecond => scaled(value, "tok/s"),
        Unit::RequestsPerSecond => scaled(value, "req/s"),
        Unit::Tokens => scaled(value, "tok"),
        Unit::Count => Shown::new(grouped(value), ""),
        Unit::Plain => Shown::new(significant(value), ""),
        Unit::Ratio => Shown::new(format!("{:.1}", value * 100.0), "%"),
        Unit::TokensPerJoule => Shown::new(significant(value), "tok/J"),
        Unit::Joules => scaled(value, "J"),
        Unit::Watts => scaled(value, "W"),
        Unit::Usd => Shown::new(dollars(value), ""),
        Unit::UsdPerHour => Shown::new(dollars(value), "/h"),
        Unit::UsdPerMillion => Shown::new(dollars(value), "/M tok"),
        Unit::Bytes => bytes(value),
        Unit::Times => Shown::new(format!("{value:.1}"), "×"),
        Unit::JoulesPerToken => Shown::new(significant(value), "J/tok"),
        Unit::KilowattHours => Shown::new(significant(value / 3.6e6), "kWh"),
        Unit::Grams => scaled(value, "g"),
        Unit::Celsius => Shown::new(format!("{value:.0}"), "°C"),
    }
}

/// The same as one text.
pub fn text(value: Option<f64>, unit: Unit) -> String {
    show(value, unit).text()
}

/// The same for the tick of an axis: zeros behind the point say nothing there.
pub fn tick(value: f64, unit: Unit) -> String {
    let mut shown = show(Some(value), unit);
    if shown.number.contains('.') {
        shown.number.truncate(shown.number.trim_end_matches('0').trim_end_matches('.').len());
    }
    shown.text()
}

fn seconds(value: f64) -> Shown {
    let size = value.abs();
    if size == 0.0 {
        Shown::new("0", "s")
    } else if size < 0.999_5e-3 {
        Shown::new(significant(value * 1e6), "µs")
    } else if size < 0.999_5 {
        Shown::new(significant(value * 1e3), "ms")
    } else if size < 120.0 {
        Shown::new(significant(value), "s")
    } else if size < 7_200.0 {
        Shown::new(significant(value / 60.0), "min")
    } else if size < 259_200.0 {
        Shown::new(significant(value / 3_600.0), "h")
    } else {
        Shown::new(significant(value / 86_400.0), "d")
    }
}

/// Thousands as k, M, G, T in front of the unit.
fn scaled(value: f64, unit: &str) -> Shown {
    let steps = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")];
    for (least, prefix) in steps {
        if value.abs() >= least {
            let by = if prefix == "k" { 1e3 } else { least };
            return Shown::new(significant(value / by), format!("{prefix}{unit}"));
        }
    }
    Shown::new(significant(value), unit)
}

fn bytes(value: f64) -> Shown {
    let mut rest = value;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB"].into_iter().peekable();
    let mut unit = units.next().unwrap_or_default();
    while rest.abs() >= 1024.0 {
        let Some(next) = units.next() else { break };
        rest /= 1024.0;
        unit = next;
    }
    Shown::new(significant(rest), unit)
}

/// Three significant digits; whole numbers keep all of theirs, with a thin gap between thousands.
fn significant(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if size >= 999.5 {
        return grouped(value);
    }
    // Rounding may reach the next power of ten: 0.9996 has two decimals, not three.
    let unit = 10f64.powi(size.log10().floor() as i32 - 2);
    let power = ((size / unit).round() * unit * (1.0 + 1e-12)).log10().floor() as i32;
    let decimals = (2 - power).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    if text.trim_start_matches('-').chars().all(|letter| letter == '0' || letter == '.') {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}<0.000000001");
    }
    text
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::with_capacity(digits.len() * 2);
    if value < 0.0 && digits != "0" {
        text.push('-');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Two decimals from a dollar up, else three significant digits down to a hundredth of a
/// micro-dollar: a token costs less than that only when it is free.
fn dollars(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    let size = value.abs();
    if size == 0.0 {
        "$0".to_owned()
    } else if size >= 999.5 {
        format!("{sign}${}", grouped(size))
    } else if size >= 0.995 {
        format!("{sign}${size:.2}")
    } else if size < 1e-8 {
        format!("{sign}<$0.00000001")
    } else {
        let power = size.log10().floor() as i32;
        format!("{sign}${size:.*}", (2 - power).clamp(2, 10) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: f64, unit: Unit, expected: &str) {
        assert_eq!(text(Some(value), unit).replace('\u{202f}', " "), expected);
    }

    #[test]
    fn unknown_is_an_em_dash_and_never_zero() {
        for unit in [Unit::Seconds, Unit::Usd, Unit::Ratio, Unit::Count, Unit::Watts] {
            assert_eq!(text(None, unit), UNKNOWN);
            assert_eq!(text(Some(f64::NAN), unit), UNKNOWN);
            assert_eq!(text(Some(f64::INFINITY), unit), UNKNOWN);
            assert!(text(Some(0.0), unit).contains('0'));
        }
    }

    #[test]
    fn seconds_choose_their_unit() {
        check(0.000_041_2, Unit::Seconds, "41.2 µs");
        check(0.0412, Unit::Seconds, "41.2 ms");
        check(0.9996, Unit::Seconds, "1.00 s");
        check(1.236, Unit::Seconds, "1.24 s");
        check(119.0, Unit::Seconds, "119 s");
        check(600.0, Unit::Seconds, "10.0 min");
        check(9_000.0, Unit::Seconds, "2.50 h");
        check(2_592_000.0, Unit::Seconds, "30.0 d");
        check(1_500.0, Unit::Micros, "1.50 ms");
    }

    #[test]
    fn rates_are_scaled_from_ten_thousand_up() {
        check(0.123_4, Unit::TokensPerSecond, "0.123 tok/s");
        check(9_870.0, Unit::TokensPerSecond, "9 870 tok/s");
        check(12_345.0, Unit::TokensPerSecond, "12.3 ktok/s");
        check(4.3e9, Unit::Tokens, "4.30 Gtok");
    }

    #[test]
    fn money_is_never_rounded_to_nothing() {
        check(0.0, Unit::Usd, "$0");
        check(0.003_75, Unit::UsdPerMillion, "$0.00375/M tok");
        check(12.981, Unit::UsdPerHour, "$12.98/h");
        check(0.5, Unit::Usd, "$0.500");
        check(1e-12, Unit::Usd, "<$0.00000001");
        check(123_456.0, Unit::Usd, "$123 456");
    }

    #[test]
    fn ticks_are_short() {
        for (value, expected) in
            [(0.01, "10 ms"), (0.25, "250 ms"), (1.5, "1.5 s"), (0.0, "0 s"), (20.0, "20 s"), (0.1, "100 ms")]
        {
            assert_eq!(tick(value, Unit::Seconds).replace('\u{202f}', " "), expected);
        }
    }

    #[test]
    fn the_rest() {
        check(0.873_2, Unit::Ratio, "87.3%");
        check(1_048_576.0, Unit::Bytes, "1.00 MiB");
        check(1_234_567.0, Unit::Count, "1 234 567");
        check(-1_234.0, Unit::Count, "-1 234");
        check(3.21, Unit::TokensPerJoule, "3.21 tok/J");
        check(14.4, Unit::Times, "14.4×");
        check(7.2e6, Unit::KilowattHours, "2.00 kWh");
        check(61.4, Unit::Celsius, "61 °C");
    }
}
