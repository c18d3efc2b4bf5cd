//! Several errors as one message.

use std::collections::BTreeSet;

/// `errors` once each, as the API server joins them: in brackets where there is more than one.
pub(super) fn join(mut errors: Vec<String>) -> String {
    let mut seen = BTreeSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    match errors.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_left_out() {
        let joined = |errors: &[&str]| join(errors.iter().map(ToString::to_string).collect());
        assert_eq!(joined(&["b", "a", "b"]), "[b, a]");
        assert_eq!(joined(&["a", "a"]), "a");
    }
}
