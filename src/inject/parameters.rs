//! Names of the environment variables that carry `proxy.inbound` and `proxy.outbound`.

use serde_json::{Map, Value};

/// The variables of one direction (`INBOUND`, `OUTBOUND`): `LINKERD2_PROXY_<DIRECTION>_<SCOPE>_<PROTOCOL>_<NAME>`, keys
/// in ascending order at each level. What is no map where one belongs has no name, and is left out.
pub(super) fn variables(direction: &str, scopes: &Map<String, Value>) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    for (scope, protocols) in scopes {
        for (protocol, parameters) in protocols.as_object().into_iter().flatten() {
            for (name, value) in parameters.as_object().into_iter().flatten() {
                let path = [scope, protocol, name].map(|part| upper_snake_case(part)).join("_");
                variables.push((format!("LINKERD2_PROXY_{direction}_{path}"), plain(value)));
            }
        }
    }
    variables
}

/// A value as text, numbers never in exponent form.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `keepAliveInterval` as `KEEP_ALIVE_INTERVAL`, `h2c` as `H_2C`, `http2Foo` as `HTTP2_FOO`: digits start a word where
/// a small letter follows them, else they end one.
///
/// Source: the `snakecase` function of Helm's templates.
fn upper_snake_case(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut name = String::with_capacity(text.len() + 4);
    let mut previous = None;
    for (index, &character) in characters.iter().enumerate() {
        let separator = matches!(character, '_' | '-' | ' ');
        let rest = characters.get(index + 1..).unwrap_or_default();
        if separator || previous.is_some_and(|previous| starts_word(previous, character, rest)) {
            name.push('_');
        }
        if !separator {
            name.extend(character.to_uppercase());
        }
        previous = (!separator).then_some(character);
    }
    name
}

/// Whether `character` starts a word after `previous`, given what follows it.
fn starts_word(previous: char, character: char, rest: &[char]) -> bool {
    let small_follows = |rest: &[char]| rest.first().is_some_and(|next| next.is_lowercase());
    if character.is_uppercase() {
        return !previous.is_uppercase() || small_follows(rest);
    }
    if character.is_ascii_digit() && !previous.is_ascii_digit() {
        let digits = rest.iter().take_while(|next| next.is_ascii_digit()).count();
        return small_follows(rest.get(digits..).unwrap_or_default());
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_are_told_apart_as_helm_does() {
        for (text, name) in [
            ("http2", "HTTP2"),
            ("HTTP2", "HTTP2"),
            ("h2c", "H_2C"),
            ("http2xx", "HTTP_2XX"),
            ("http2Foo", "HTTP2_FOO"),
            ("keepAliveInterval", "KEEP_ALIVE_INTERVAL"),
            ("HTTPServer", "HTTP_SERVER"),
            ("HTTPFoo2Bar", "HTTP_FOO2_BAR"),
            ("foo9Bar", "FOO9_BAR"),
            ("x-y", "X_Y"),
            ("a_b c", "A_B_C"),
            ("a.b", "A.B"),
        ] {
            assert_eq!(upper_snake_case(text), name, "{text}");
        }
    }

    #[test]
    fn numbers_are_never_in_exponent_form() {
        let scopes = json!({"server": {"http2": {"window": 1_234_567, "ratio": 2.5, "on": true}}, "odd": 1});
        let variables = variables("INBOUND", scopes.as_object().unwrap());
        let values: Vec<_> = variables.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["true", "2.5", "1234567"]);
        assert_eq!(variables[2].0, "LINKERD2_PROXY_INBOUND_SERVER_HTTP2_WINDOW");
    }
}
