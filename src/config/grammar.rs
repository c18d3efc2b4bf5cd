//! The grammars of annotation values: those of Go's standard library, which Linkerd reads them with.

/// Reads what Go's `strconv.ParseBool` reads.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Reads `enabled` or `disabled`.
pub(super) fn switch(text: &str) -> Option<bool> {
    match text {
        "enabled" => Some(true),
        "disabled" => Some(false),
        _ => None,
    }
}

/// Reads digits alone, as Go's `strconv.ParseUint` does: no sign.
pub(super) fn unsigned(text: &str) -> Option<u64> {
    text.starts_with(|c: char| c.is_ascii_digit())
        .then(|| text.parse().ok())?
}

/// Reads a duration such as `1m30s` or `1.5s`, in nanoseconds; negative with a leading `-`.
///
/// Source: Go's `time.ParseDuration`. Sums are exact where Linkerd's go through a float and lose a millisecond.
pub(super) fn duration(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "0" {
        return Some(0);
    }
    let mut rest = unsigned;
    let mut total: i64 = 0;
    while !rest.is_empty() {
        let (nanoseconds, tail) = component(rest)?;
        total = total.checked_add(nanoseconds)?;
        rest = tail;
    }
    match unsigned.is_empty() {
        true => None,
        false if text.starts_with('-') => Some(-total),
        false => Some(total),
    }
}

/// Units by their nanoseconds, longer names before those that they start with.
const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// One number with its unit, and what follows.
fn component(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, rest) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let &(unit, nanoseconds) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit))?;
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Digits beyond the ninth are below a nanosecond of the largest unit that has fractions in practice.
    let digits: String = fraction.chars().take(9).collect();
    let scale = 10_i64.pow(u32::try_from(digits.len()).ok()?);
    let fraction: i64 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let part = i128::from(fraction) * i128::from(nanoseconds) / i128::from(scale);
    let total = whole.checked_mul(nanoseconds)?.checked_add(i64::try_from(part).ok()?)?;
    Some((total, rest.get(unit.len()..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact() {
        let cases = [
            ("1s", 1_000_000_000),
            ("1.001s", 1_001_000_000),
            ("1s1ms", 1_001_000_000),
            ("4.35s", 4_350_000_000),
            ("1m30s", 90_000_000_000),
            ("100us", 100_000),
            ("-5s", -5_000_000_000),
            (".5h", 1_800_000_000_000),
            ("0", 0),
            ("5\u{b5}s", 5_000),
        ];
        for (text, nanoseconds) in cases {
            assert_eq!(duration(text), Some(nanoseconds), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "1x",
            "1s2",
            "1.2.3s",
            ".s",
            "9223372036854775807h",
            "- 5s",
        ] {
            assert_eq!(duration(text), None, "{text:?}");
        }
    }

    #[test]
    fn booleans_and_integers_are_those_of_go() {
        assert_eq!(boolean("T"), Some(true));
        assert_eq!(boolean("yes"), None);
        assert_eq!(unsigned("+5"), None);
        assert_eq!(unsigned("300"), Some(300));
        assert_eq!(unsigned(""), None);
    }
}
