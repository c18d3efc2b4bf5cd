//! Labels of pods that carry a name.

use sha2::{Digest, Sha256};

/// Label: the workload's service account, where the values ask for it: a `NetworkPolicy` can select pods by nothing else of it.
pub const SERVICE_ACCOUNT: &str = "outrigger.linkerd.io/service-account";

/// The longest label value that the API server takes.
pub const LABEL_LENGTH: usize = 63;

/// `name` where it fits, else its start and eight hex digits of its SHA-256.
pub fn label_value(name: &str) -> String {
    if name.len() <= LABEL_LENGTH {
        return name.to_owned();
    }
    let mut digits = format!("{:x}", Sha256::digest(name.as_bytes()));
    digits.truncate(8);
    let start: String = name.chars().take(LABEL_LENGTH - 1 - digits.len()).collect();
    format!(
        "{}-{digits}",
        start.trim_end_matches(|c: char| !c.is_ascii_alphanumeric())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_stay_apart() {
        let (one, two) = (
            label_value(&format!("{}-a", "x".repeat(70))),
            label_value(&format!("{}-b", "x".repeat(70))),
        );
        assert_ne!(one, two);
        assert_eq!(one.len(), LABEL_LENGTH);
        assert_eq!(label_value("web"), "web");
        let dotted = label_value(&format!("{}.{}", "y".repeat(53), "z".repeat(20)));
        assert!(dotted.starts_with(&format!("{}-", "y".repeat(53))), "{dotted}");
    }
}
