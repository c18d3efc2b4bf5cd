//! How much memory the JSON of a body will take, found out before any of it is taken.

use memchr::{memchr_iter, memchr2};
use serde_json::Value;

/// Bytes of one value: its place, which is as large again while its list grows, and what an allocator adds to the text of
/// the value and of its key.
const VALUE: usize = 2 * size_of::<Value>() + 64;

/// Bytes of an object beside its members: a node of the B-tree has places for eleven keys and values at least.
const OBJECT: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 16;

/// Bytes of a list beside its items: it begins with four places.
const LIST: usize = 4 * size_of::<Value>();

/// Bytes that `body` will take when it is read as JSON, at most; of one that is no JSON, anything.
///
/// `[[],[],…]` takes some fifty times its own bytes, `[{"a":1},…]` a hundred times: a body of 8 MiB would be hundreds.
pub fn weight(body: &[u8]) -> usize {
    let bound = bound(body);
    if bound <= LIGHT { bound } else { walk(body) }
}

/// What no more need be known of, for there is room for dozens of it at once.
const LIGHT: usize = 512 << 10;

/// At least [`walk`], and quicker: texts count as if they were values too.
fn bound(body: &[u8]) -> usize {
    let count = |byte| memchr_iter(byte, body).count();
    let (values, objects, lists) = (count(b','), count(b'{'), count(b'['));
    body.len() + VALUE * (1 + values + objects + lists) + OBJECT * objects + LIST * lists
}

fn walk(body: &[u8]) -> usize {
    let mut weight = body.len() + VALUE;
    let mut rest = body;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        weight += match byte {
            b'"' => {
                rest = after_text(rest);
                0
            }
            b',' => VALUE,
            b'{' if !rest.starts_with(b"}") => VALUE + OBJECT,
            b'[' if !rest.starts_with(b"]") => VALUE + LIST,
            _ => 0,
        };
    }
    weight
}

/// What comes after a text that has begun.
fn after_text(mut rest: &[u8]) -> &[u8] {
    while let Some(index) = memchr2(b'"', b'\\', rest) {
        let (_, found) = rest.split_at(index);
        match found {
            [b'"', tail @ ..] => return tail,
            // A backslash takes the next character with it.
            [_, _, tail @ ..] => rest = tail,
            _ => break,
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_weigh_and_texts_do_not() {
        let beside = |body: &str| walk(body.as_bytes()) - body.len();
        assert_eq!(beside("{}"), VALUE);
        assert_eq!(
            beside(r#"[1,[],"a,{[\",",{"b":{},"c":"\\"}]"#),
            6 * VALUE + LIST + OBJECT + VALUE
        );
        assert_eq!(beside(r#""[,"#), VALUE);
    }

    #[test]
    fn of_what_is_light_a_bound_will_do() {
        for body in [r#"{"a":"[,"}"#, "[1,[],{}]", "[[[", r#"{"b":{"c":1}}"#] {
            let body = body.as_bytes();
            assert!(walk(body) <= bound(body) && weight(body) == bound(body));
        }
        // Texts weigh nothing in what is not.
        let text = format!("\"{}\"", "{".repeat(1 << 10));
        assert_eq!(weight(text.as_bytes()), walk(text.as_bytes()));
    }

    #[test]
    fn a_usual_pod_weighs_little_and_a_hostile_one_much() {
        let pod = include_str!("../../../examples/demo/app.yaml");
        assert!(weight(pod.as_bytes()) < 1 << 20);
        assert!(weight("[],".repeat(1 << 20).as_bytes()) > 100 << 20);
        assert!(weight(r#"{"":0},"#.repeat(1 << 20).as_bytes()) > 500 << 20);
    }
}
