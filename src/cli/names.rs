//! Names as the API server takes them (RFC 1123, in lower case).

/// A label: the name of a namespace.
pub(super) fn is_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len()) && name.chars().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

/// Labels with dots between them: the name of a node, or of a host.
pub(super) fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_other_texts() {
        for name in ["a", "shop-2", "ip-10-0-0-1.ec2.internal", "10.0.0.1"] {
            assert!(is_subdomain(name), "{name}");
        }
        for name in [
            "",
            "-a",
            "a-",
            "A",
            "a b",
            "a/b",
            "é",
            "a..b",
            ".a",
            &"a".repeat(64),
            &"a.".repeat(200),
        ] {
            assert!(!is_subdomain(name), "{name}");
        }
        assert!(is_label("a") && !is_label("a.b"));
    }
}
