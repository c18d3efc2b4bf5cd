//! Text in messages, quoted as the API server quotes it.

/// `text` as Go's `%q` prints it.
pub(super) fn go_quoted(text: &str) -> String {
    let escaped: String = text.chars().map(go_escaped).collect();
    format!("\"{escaped}\"")
}

fn go_escaped(c: char) -> String {
    match c {
        '"' | '\\' => format!("\\{c}"),
        '\u{7}' => "\\a".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\u{b}' => "\\v".to_owned(),
        '\u{c}' => "\\f".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        c if is_printable(c) => c.to_string(),
        c if c.is_ascii() => format!("\\x{:02x}", u32::from(c)),
        c if c <= '\u{ffff}' => format!("\\u{:04x}", u32::from(c)),
        c => format!("\\U{:08x}", u32::from(c)),
    }
}

/// Whether `c` is a letter, mark, number, punctuation, symbol or the ASCII space.
///
/// The standard library knows the same classes for its own debug output, where it escapes the rest. Its Unicode is
/// newer than Go's 15.0: characters assigned since are printed here and escaped by an API server.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return c == ' ' || c.is_ascii_graphic();
    }
    // A mark is escaped where it begins a text, so something stands before it.
    let text: String = ['a', c].into_iter().collect();
    text.escape_debug().skip(1).eq([c])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_as_go_does() {
        for (text, expected) in [
            ("it's plain", r#""it's plain""#),
            ("q\"b\\", r#""q\"b\\""#),
            ("\u{7}\u{8}\u{b}\u{c}\n\r\t", r#""\a\b\v\f\n\r\t""#),
            ("\0\u{1b}\u{7f}", r#""\x00\x1b\x7f""#),
            (
                "\u{85}\u{a0}\u{ad}\u{200b}\u{2028}\u{feff}\u{e000}",
                r#""\u0085\u00a0\u00ad\u200b\u2028\ufeff\ue000""#,
            ),
            ("\u{e0001}\u{10ffff}", r#""\U000e0001\U0010ffff""#),
            ("é日😀\u{301}\u{fffd}", "\"é日😀\u{301}\u{fffd}\""),
        ] {
            assert_eq!(go_quoted(text), expected);
        }
    }
}
