//! Durations as Linkerd's validator writes them.

use std::time::Duration;

/// Reads a number with a unit (`ms`, `s`, `m`, `h`, `d`), or a bare `0`.
pub(in crate::cli) fn duration(text: &str) -> Result<Duration, String> {
    let error = || format!("{text:?} is no duration; expected a number and ms, s, m, h or d, as in 10s");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(error)?;
    let (number, unit) = text.split_at(end);
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(error()),
    };
    let number: u64 = number.parse().map_err(|_source| error())?;
    number
        .checked_mul(milliseconds)
        .map(Duration::from_millis)
        .ok_or_else(error)
}
