//! Colour, on a terminal only.

use std::io::{IsTerminal, stderr, stdout};

/// Whether lines are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paint(bool);

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// Nothing special.
    Plain,
    /// A heading.
    Bold,
    /// Something good, or added.
    Green,
    /// Something bad, or removed.
    Red,
    /// A warning.
    Yellow,
}

/// Colour where standard output is a terminal and nobody objects.
pub(super) fn stdout_paint() -> Paint {
    Paint(stdout().is_terminal() && !is_objected_to())
}

/// The same for standard error.
pub(super) fn stderr_paint() -> Paint {
    Paint(stderr().is_terminal() && !is_objected_to())
}

/// Whether somebody wants no colour (<https://no-color.org>).
#[expect(clippy::disallowed_methods, reason = "NO_COLOR is a variable by its definition")]
fn is_objected_to() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

impl Paint {
    /// No colour.
    pub(super) const PLAIN: Self = Self(false);

    /// A `sign` in its tone, and `text` behind it.
    pub(super) fn signed(self, sign: &str, tone: Tone, text: &str) -> String {
        let sign = self.line(sign, tone);
        format!("{} {}", sign.trim_end(), Self::PLAIN.line(text, Tone::Plain))
    }

    /// `text` in its tone, with a line's end, and without characters that a terminal obeys. Plain where there is no colour: tones never carry meaning alone.
    pub(super) fn line(self, text: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Plain => "",
            Tone::Bold => "1",
            Tone::Green => "32",
            Tone::Red => "31",
            Tone::Yellow => "33",
        };
        let text = super::printable_line(text);
        if self.0 && !code.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m\n")
        } else {
            format!("{text}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_colour_a_line_is_its_text() {
        assert_eq!(Paint(false).line("a", Tone::Red), "a\n");
        assert_eq!(Paint(true).line("a", Tone::Red), "\u{1b}[31ma\u{1b}[0m\n");
        assert_eq!(Paint(true).line("a", Tone::Plain), "a\n");
        assert_eq!(Paint(false).line("a\u{1b}[2Jb\tc", Tone::Red), "a\\u{1b}[2Jb\\tc\n");
    }
}
