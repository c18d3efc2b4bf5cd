//! Kubernetes resource quantities.

use std::cmp::Ordering;
use std::fmt;

/// A quantity such as `100m`, `1.5` or `250Mi`, exact to the billionth, as the API server keeps it.
///
/// Source: the grammar in `k8s.io/apimachinery/pkg/api/resource`.
///
/// Two of one value are equal however they are written; printed, a quantity has its shortest form in the notation in
/// which it was written.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// Billionths, rounded away from zero; the bounds stand for everything beyond them.
    nanos: i128,
    notation: Notation,
}

/// Which suffixes a quantity is written with.
#[derive(Clone, Copy, Debug)]
enum Notation {
    /// `m`, `k`, `M`
    Decimal,
    /// `e3`
    Exponent,
    /// `Ki`, `Mi`
    Binary,
}

/// A unit in which the API server compares quantities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Whole units.
    Whole,
    /// Thousandths.
    Milli,
}

/// Billionths of a unit.
const NANOS: i128 = 1_000_000_000;

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self {
        nanos: 0,
        notation: Notation::Decimal,
    };

    /// Reads a quantity; nothing where the text is none.
    pub fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        if !number.contains(|c: char| c.is_ascii_digit()) || number.matches('.').count() > 1 {
            return None;
        }
        let suffix = Suffix::read(suffix)?;
        let magnitude = i128::try_from(suffix.nanos(number)).unwrap_or(i128::MAX);
        Some(Self {
            nanos: if text.starts_with('-') { -magnitude } else { magnitude },
            notation: suffix.notation,
        })
    }

    /// The quantity in whole units, rounded up: `100m` cores are 1. Nothing where 64 bits do not hold it.
    pub fn ceil(self) -> Option<i64> {
        i64::try_from(self.at(Scale::Whole)).ok()
    }

    /// The quantity in units of `scale`, rounded up.
    pub fn at(self, scale: Scale) -> i128 {
        let unit = match scale {
            Scale::Whole => NANOS,
            Scale::Milli => NANOS / 1000,
        };
        self.nanos.div_euclid(unit) + i128::from(self.nanos.rem_euclid(unit) != 0)
    }

    /// The quantity rounded up to thousandths, as the API server does with every request, limit and bound.
    #[must_use]
    pub fn in_thousandths(self) -> Self {
        Self {
            nanos: self.at(Scale::Milli).saturating_mul(NANOS / 1000),
            ..self
        }
    }

    /// The sum, in the notation of the first that is not zero.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
            notation: if self.nanos == 0 { other.notation } else { self.notation },
        }
    }

    /// Whether the quantity is below zero, which no request or limit may be.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
        const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        // A power of two that is no whole number, or too small for a suffix, is written with one of ten.
        let is_binary = matches!(self.notation, Notation::Binary)
            && self.nanos % NANOS == 0
            && self.nanos.unsigned_abs() >= 1024 * NANOS.unsigned_abs();
        if is_binary {
            let (number, suffix) = shortest(self.nanos / NANOS, 1024, &BINARY);
            return write!(f, "{number}{suffix}");
        }
        let (number, suffix) = shortest(self.nanos, 1000, &DECIMAL);
        let power = DECIMAL.iter().position(|it| *it == suffix).unwrap_or_default();
        match (self.notation, i32::try_from(power).map(|power| power * 3 - 9)) {
            _ if self.nanos == 0 => f.write_str("0"),
            (Notation::Exponent, Ok(power)) if power != 0 => write!(f, "{number}e{power}"),
            _ => write!(f, "{number}{suffix}"),
        }
    }
}

/// `number` divided by `step` as often as it goes, and the suffix for that.
fn shortest<'s>(mut number: i128, step: i128, suffixes: &[&'s str]) -> (i128, &'s str) {
    let mut suffixes = suffixes.iter().copied();
    let mut suffix = suffixes.next().unwrap_or_default();
    while number != 0 && number % step == 0 {
        let Some(next) = suffixes.next() else { break };
        suffix = next;
        number /= step;
    }
    (number, suffix)
}

/// What a suffix multiplies by: a power of ten, or of two.
struct Suffix {
    ten: i32,
    two: u32,
    notation: Notation,
}

impl Suffix {
    fn read(text: &str) -> Option<Self> {
        let suffix = |ten: i32, two: u32, notation| Some(Self { ten, two, notation });
        let decimal = |ten: i32| suffix(ten, 0, Notation::Decimal);
        let binary = |two: u32| suffix(0, two, Notation::Binary);
        match text {
            "" => decimal(0),
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => binary(10),
            "Mi" => binary(20),
            "Gi" => binary(30),
            "Ti" => binary(40),
            "Pi" => binary(50),
            "Ei" => binary(60),
            exponent => {
                let power: i16 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
                suffix(power.into(), 0, Notation::Exponent)
            }
        }
    }

    /// How many billionths `number`, digits with at most one point, is at this scale; rounded up, and the largest number
    /// where it is beyond that.
    fn nanos(&self, number: &str) -> u128 {
        // More digits than these are below a billionth at every scale but the largest, and no figure of anybody's.
        const PLACES: usize = 18;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let fraction = fraction.trim_end_matches('0');
        let (kept, below) = fraction.split_at(fraction.len().min(PLACES));
        let digits = whole.chars().chain(kept.chars()).filter_map(|digit| digit.to_digit(10));
        let mantissa = digits.fold(0_u128, |sum, digit| sum.saturating_mul(10).saturating_add(digit.into()));
        let mantissa = mantissa.saturating_add(u128::from(!below.is_empty()));
        let mantissa = mantissa.saturating_mul(1_u128.checked_shl(self.two).unwrap_or(u128::MAX));
        // Nine places make billionths.
        let power = self.ten + 9 - i32::try_from(kept.len()).unwrap_or_default();
        let factor = 10_u128.checked_pow(power.unsigned_abs()).unwrap_or(u128::MAX);
        match power {
            0.. => mantissa.saturating_mul(factor),
            ..0 => mantissa.div_ceil(factor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_rounded_up() {
        let ceil = |text| Quantity::parse(text).and_then(Quantity::ceil);
        let cases = [
            ("100m", 1),
            ("0", 0),
            ("1", 1),
            ("1.5", 2),
            ("2500m", 3),
            (".5", 1),
            ("+2", 2),
            ("1e3", 1000),
            ("15000000000n", 15),
            ("15000000001n", 16),
            ("2100000u", 3),
            ("1.0000000001", 2),
            ("0.000000000000000000000000000001", 1),
            ("1e-300", 1),
            ("0e300", 0),
            ("-1500m", -1),
            ("1.5Ki", 1536),
            ("9007199254740993", 9_007_199_254_740_993),
            ("1.5E", 1_500_000_000_000_000_000),
        ];
        for (text, cores) in cases {
            assert_eq!(ceil(text), Some(cores), "{text}");
        }
        assert_eq!(ceil("9E"), Some(9_000_000_000_000_000_000));
        for text in [
            "10E",
            "1e30",
            "1e30000",
            "99999999999999999999999999999999999999999999999Ei",
        ] {
            assert_eq!(ceil(text), None, "{text}");
        }
    }

    #[test]
    fn quantities_are_compared_by_value() {
        for (less, more) in [("100m", "0.2"), ("1023", "1Ki"), ("-1", "0"), ("1Ei", "1e30")] {
            assert!(Quantity::parse(less) < Quantity::parse(more), "{less} {more}");
        }
        assert_eq!(Quantity::parse("1000m"), Quantity::parse("1"));
        assert_eq!(Quantity::parse("0.5Gi"), Quantity::parse("512Mi"));
    }

    #[test]
    fn quantities_are_printed_in_their_shortest_form() {
        let print = |text| Quantity::parse(text).unwrap().to_string();
        for (text, expected) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("0.0000005", "500n"),
            ("250Mi", "250Mi"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("1.0001Ki", "1024102400u"),
            ("2048", "2048"),
            ("1000", "1k"),
            ("1e3", "1e3"),
            ("1500e0", "1500"),
            ("12e-3", "12e-3"),
            ("-1500m", "-1500m"),
            ("0Mi", "0"),
            ("128974848", "128974848"),
            ("5000E", "5000E"),
        ] {
            assert_eq!(print(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_below_a_thousandth_is_rounded_up() {
        let rounded = |text| Quantity::parse(text).unwrap().in_thousandths().to_string();
        for (text, expected) in [
            ("100u", "1m"),
            ("1", "1"),
            ("1.0001", "1001m"),
            ("250Mi", "250Mi"),
            ("0", "0"),
        ] {
            assert_eq!(rounded(text), expected, "{text}");
        }
    }

    #[test]
    fn a_sum_is_written_like_its_first_part() {
        let sum = |one, other| {
            Quantity::parse(one)
                .unwrap()
                .plus(Quantity::parse(other).unwrap())
                .to_string()
        };
        assert_eq!(sum("128Mi", "128M"), "256072Ki");
        assert_eq!(sum("0", "128Mi"), "128Mi");
        assert_eq!(sum("1", "500m"), "1500m");
        assert_eq!(sum("100Mi", "28Mi"), "128Mi");
    }

    #[test]
    fn what_the_api_server_refuses_is_refused() {
        for text in [
            "", "abc", "1.2.3", "1 Gi", "100MB", "m", "--1", ".", "1e", "0x10", "1_000",
        ] {
            assert_eq!(Quantity::parse(text), None, "{text:?}");
        }
    }
}
