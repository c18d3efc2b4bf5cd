//! Values: documents, and the assignments of `--set`, as Helm reads them.

use anyhow::{Result, bail, ensure};
use serde_json::{Map, Value};
use std::iter::Peekable;
use std::str::Chars;

/// Reads a document of values, YAML or JSON; one of nothing but comments is empty.
pub(in crate::cli) fn read(text: &str) -> Result<Value> {
    let value = super::only_document(text)?;
    ensure!(value.is_object(), "expected a mapping of keys");
    Ok(value)
}

/// What becomes of a null that is laid over a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Nulls {
    /// It stays, for the values of a chart to heed.
    Stay,
    /// It takes the key away.
    Remove,
}

/// Lays `over` over `base`: mappings are merged, everything else is replaced.
pub(in crate::cli) fn lay(base: &mut Value, over: Value, nulls: Nulls) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                match base.get_mut(&key) {
                    Some(_) if value.is_null() && nulls == Nulls::Remove => {
                        base.remove(&key);
                    }
                    Some(old) => lay(old, value, nulls),
                    None => {
                        base.insert(key, value);
                    }
                }
            }
        }
        (base, over) => *base = over,
    }
}

/// How deep a key may nest, and the highest index of a list: Helm's own limits.
const DEPTH: usize = 30;
const INDEX: usize = 65_536;

/// A step on the way to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

/// Lays the assignments of one `--set` over `values`: `a.b=1,c={x,y},d[0].e=true`, a backslash before what is no syntax.
///
/// # Errors
/// Where the text is no assignment, or a key stands for a value of another type already.
pub(in crate::cli) fn assign(values: &mut Value, text: &str) -> Result<()> {
    let mut rest = text.chars().peekable();
    while rest.peek().is_some() {
        let path = path(&mut rest, text)?;
        let value = match rest.next_if_eq(&'{') {
            Some(_) => list(&mut rest, text)?,
            None => scalar(&until(&mut rest, &[',']).0),
        };
        put(values, &path, value, text)?;
    }
    Ok(())
}

/// What comes before one of `stops`, and that; a backslash takes the meaning of what follows it.
fn until(rest: &mut Peekable<Chars<'_>>, stops: &[char]) -> (String, Option<char>) {
    let mut found = String::new();
    while let Some(c) = rest.next() {
        match c {
            '\\' => found.extend(rest.next()),
            c if stops.contains(&c) => return (found, Some(c)),
            c => found.push(c),
        }
    }
    (found, None)
}

/// The way to a value, up to and with its `=`.
fn path(rest: &mut Peekable<Chars<'_>>, text: &str) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let mut stop = Some('.');
    loop {
        stop = match stop {
            Some('=') => return Ok(steps),
            Some('.') => {
                let (key, stop) = until(rest, &['=', '[', ',', '.']);
                ensure!(!key.is_empty(), "--set {text}: expected KEY=VALUE[,KEY=VALUE…]");
                steps.push(Step::Key(key));
                stop
            }
            Some('[') => {
                let (index, _) = until(rest, &[']']);
                let index = index.parse().ok().filter(|index| *index <= INDEX);
                let Some(index) = index else {
                    bail!("--set {text}: expected an index from 0 to {INDEX} between [ and ]");
                };
                steps.push(Step::Index(index));
                rest.next()
            }
            _ => bail!("--set {text}: expected = and a value after the key"),
        };
        ensure!(
            steps.len() <= DEPTH,
            "--set {text}: more than {DEPTH} keys in one another"
        );
    }
}

/// The elements of a list, its `{` being behind us, and the comma after it.
fn list(rest: &mut Peekable<Chars<'_>>, text: &str) -> Result<Value> {
    let mut elements = Vec::new();
    loop {
        let (element, stop) = until(rest, &[',', '}']);
        ensure!(stop.is_some(), "--set {text}: a list ends with }}");
        elements.push(scalar(&element));
        if stop == Some('}') {
            rest.next_if_eq(&',');
            return Ok(elements.into());
        }
    }
}

fn scalar(text: &str) -> Value {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if is("true") || is("false") {
        return is("true").into();
    }
    if is("null") {
        return Value::Null;
    }
    let number = text.parse::<i64>().ok();
    // What begins with a zero is a text, but for zero itself; a sign Go takes as Rust does.
    match number.filter(|_| text == "0" || !text.starts_with('0')) {
        Some(number) => number.into(),
        None => text.into(),
    }
}

fn put(values: &mut Value, path: &[Step], value: Value, text: &str) -> Result<()> {
    let mut place = values;
    for step in path {
        place = match step {
            Step::Key(key) => {
                if place.is_null() {
                    *place = Value::Object(Map::new());
                }
                let Some(map) = place.as_object_mut() else {
                    bail!("--set {text}: {key} belongs to a value that is no mapping");
                };
                map.entry(key.as_str()).or_insert(Value::Null)
            }
            Step::Index(index) => {
                if place.is_null() {
                    *place = Value::Array(Vec::new());
                }
                let Some(list) = place.as_array_mut() else {
                    bail!("--set {text}: [{index}] belongs to a value that is no list");
                };
                if list.len() <= *index {
                    list.resize(index + 1, Value::Null);
                }
                match list.get_mut(*index) {
                    Some(element) => element,
                    None => bail!("--set {text}: no element {index}"),
                }
            }
        };
    }
    *place = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn assigned(texts: &[&str]) -> Result<Value> {
        let mut values = json!({});
        for text in texts {
            assign(&mut values, text)?;
        }
        Ok(values)
    }

    #[test]
    fn assignments_are_read_as_helm_reads_them() {
        let cases: [(&[&str], Value); 9] = [
            (&["a=1,b.c=true"], json!({"a": 1, "b": {"c": true}})),
            (&["a.b=x", "a.c=null"], json!({"a": {"b": "x", "c": null}})),
            (&["l={x,2,}"], json!({"l": ["x", 2, ""]})),
            (&["l={a,b},m=1"], json!({"l": ["a", "b"], "m": 1})),
            (
                &["t[0].key=k,t[0].n=1", "t[1].key=l"],
                json!({"t": [{"key": "k", "n": 1}, {"key": "l"}]}),
            ),
            (&["t[1]=x"], json!({"t": [null, "x"]})),
            (
                &[r"n.kubernetes\.io/os=linux"],
                json!({"n": {"kubernetes.io/os": "linux"}}),
            ),
            (&[r"a=x\,y"], json!({"a": "x,y"})),
            (
                &["a=0,b=0644,c=-3,d=,e=TRUE"],
                json!({"a": 0, "b": "0644", "c": -3, "d": "", "e": true}),
            ),
        ];
        for (texts, expected) in cases {
            assert_eq!(assigned(texts).unwrap(), expected, "{texts:?}");
        }
    }

    #[test]
    fn what_is_no_assignment_is_refused() {
        for text in [
            "a",
            "=1",
            "a.=1",
            "a,b=1",
            "a[x]=1",
            "a[0=1",
            "a[0]b=1",
            "a={x",
            "a[65537]=1",
            "a..b=1",
        ] {
            let error = assigned(&[text]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--set {text}: ")), "{error}");
        }
        assert!(assigned(&["a=1", "a.b=2"]).is_err() && assigned(&["a=1", "a[0]=2"]).is_err());
        assert!(assigned(&[&format!("{}=1", ["a"; 40].join("."))]).is_err());
    }

    #[test]
    fn a_null_takes_the_value_of_the_chart_away() {
        let mut over = json!({"a": {"b": 1}});
        lay(&mut over, json!({"a": {"b": null, "c": 2}}), Nulls::Stay);
        assert_eq!(over, json!({"a": {"b": null, "c": 2}}));
        let mut values = json!({"a": {"b": 3, "d": 4}, "l": [1]});
        lay(&mut values, over, Nulls::Remove);
        assert_eq!(values, json!({"a": {"c": 2, "d": 4}, "l": [1]}));
    }
}
