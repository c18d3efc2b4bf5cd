//! Kubernetes resource quantities.

/// A quantity such as `100m`, `1.5` or `250Mi`, exact to the billionth, as the API server keeps it.
///
/// Source: the grammar in `k8s.io/apimachinery/pkg/api/resource`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    /// Billionths, rounded away from zero; the bounds stand for everything beyond them.
    nanos: i128,
}

/// Billionths of a unit.
const NANOS: i128 = 1_000_000_000;

impl Quantity {
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
        let magnitude = i128::try_from(scale(suffix)?.nanos(number)).unwrap_or(i128::MAX);
        Some(Self {
            nanos: if text.starts_with('-') { -magnitude } else { magnitude },
        })
    }

    /// The quantity in whole units, rounded up: `100m` cores are 1. Nothing where 64 bits do not hold it.
    pub fn ceil(self) -> Option<i64> {
        let whole = self.nanos.div_euclid(NANOS) + i128::from(self.nanos.rem_euclid(NANOS) != 0);
        i64::try_from(whole).ok()
    }

    /// Whether the quantity is below zero, which no request or limit may be.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }
}

/// What a suffix multiplies by: a power of ten, or of two.
struct Scale {
    ten: i32,
    two: u32,
}

impl Scale {
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

fn scale(suffix: &str) -> Option<Scale> {
    let decimal = |ten: i32| Some(Scale { ten, two: 0 });
    let binary = |two: u32| Some(Scale { ten: 0, two });
    match suffix {
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
            decimal(power.into())
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
    fn what_the_api_server_refuses_is_refused() {
        for text in [
            "", "abc", "1.2.3", "1 Gi", "100MB", "m", "--1", ".", "1e", "0x10", "1_000",
        ] {
            assert_eq!(Quantity::parse(text), None, "{text:?}");
        }
    }
}
