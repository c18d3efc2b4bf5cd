//! Kubernetes resource quantities.

/// A quantity such as `100m`, `1.5` or `250Mi`, as `sign · digits · scale`.
///
/// Source: the grammar in `k8s.io/apimachinery/pkg/api/resource`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity {
    value: f64,
}

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
        let magnitude: f64 = number.parse().ok()?;
        let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
        Some(Self {
            value: sign * magnitude * scale(suffix)?,
        })
    }

    /// The quantity in whole units, rounded up: `100m` cores are 1. Nothing where 64 bits do not hold it.
    pub fn ceil(self) -> Option<i64> {
        let whole = self.value.ceil();
        // 2^63 is the first value that does not fit.
        let limit = 9_223_372_036_854_775_808.0;
        (-limit..limit)
            .contains(&whole)
            .then(|| format!("{whole:.0}").parse().ok())?
    }

    /// Whether the quantity is below zero, which no request or limit may be.
    pub fn is_negative(self) -> bool {
        self.value < 0.0
    }
}

/// What a suffix multiplies by.
fn scale(suffix: &str) -> Option<f64> {
    let binary = |power: i32| Some(1024_f64.powi(power));
    let decimal = |power: i32| Some(10_f64.powi(power));
    match suffix {
        "" => Some(1.0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        exponent => exponent
            .strip_prefix(['e', 'E'])?
            .parse::<i16>()
            .ok()
            .and_then(|power| decimal(power.into())),
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
        ];
        for (text, cores) in cases {
            assert_eq!(ceil(text), Some(cores), "{text}");
        }
        assert_eq!(ceil("9E"), Some(9_000_000_000_000_000_000));
        assert_eq!(ceil("10E"), None);
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
