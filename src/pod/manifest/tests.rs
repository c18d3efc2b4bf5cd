use super::*;
use proptest::prelude::*;
use serde_json::json;

fn values(text: &str) -> Vec<Value> {
    read(text).unwrap().into_iter().map(|document| document.value).collect()
}

fn error(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn scalars_are_those_that_kubectl_reads() {
    // The right column is the output of `kubectl annotate --local -o json`, version 1.32.
    let cases = [
        ("n", json!(false)),
        ("y", json!(true)),
        ("NO", json!(false)),
        ("On", json!(true)),
        ("'n'", json!("n")),
        ("~", json!(null)),
        ("", json!(null)),
        ("0644", json!(420)),
        ("0o644", json!(420)),
        ("089", json!(89)),
        ("1e3", json!(1000)),
        ("1.0", json!(1)),
        ("-0.0", json!(0)),
        (".5", json!(0.5)),
        ("1e21", json!(1e21)),
        ("0.1e-7", json!(1e-8)),
        ("1_000", json!(1000)),
        ("0x1F", json!(31)),
        ("12:30:45", json!("12:30:45")),
        ("2001-01-01", json!("2001-01-01")),
        ("!!binary aGk=", json!("hi")),
        ("!!str 5", json!("5")),
        ("nUll", json!("nUll")),
    ];
    for (text, value) in cases {
        assert_eq!(values(&format!("a: {text}\n")), [json!({"a": value})], "{text}");
    }
    let keys = "on: 1\n0644: 2\n1.5: 3\n'y': 4\n12:30:45: 5\n";
    assert_eq!(
        values(keys),
        [json!({"true": 1, "420": 2, "1.5": 3, "y": 4, "12:30:45": 5})]
    );
}

#[test]
fn documents_keep_their_text() {
    let text = "# first\na: 1\n--- # second\n\n# nothing\n---\n---\r\nb: |\n  ---\n  c\n";
    let documents = read(text).unwrap();
    let texts: Vec<_> = documents.iter().map(|document| document.text).collect();
    assert_eq!(texts, ["# first\na: 1\n", "\n# nothing\n", "b: |\n  ---\n  c\n"]);
    assert_eq!(documents[1].value, Value::Null);
    assert_eq!(documents[2].value, json!({"b": "---\nc\n"}));
    assert!(read("").unwrap().is_empty());
    assert!(read("---\n---\n").unwrap().is_empty());
}

#[test]
fn json_may_follow_json() {
    let text = "{\"a\": 1}\n{\n\t\"b\": \"\\ud83d\\ude00\"}\n---\n{\"c\": [1.50]}";
    let documents = read(text).unwrap();
    let texts: Vec<_> = documents.iter().map(|document| document.text).collect();
    assert_eq!(
        texts,
        ["{\"a\": 1}\n", "{\n\t\"b\": \"\\ud83d\\ude00\"}\n", "{\"c\": [1.50]}"]
    );
    assert_eq!(documents[1].value, json!({"b": "\u{1f600}"}));
    assert_eq!(
        values("{\"a\": \"\u{7f}\u{80}\", \"b\": 1e3}\n"),
        [json!({"a": "\u{7f}\u{80}", "b": 1000})]
    );
    assert!(error("{\"a\": \"\u{7f}\", \"a\": 1}\n").contains("unexpected character"));
    assert_eq!(
        error("{\"a\": 1}\n{\"b\": 1,\n\"b\": 2}"),
        "duplicate mapping key `b` is not allowed here at line 3, column 1"
    );
}

#[test]
fn errors_name_the_line_of_the_whole_input() {
    assert_eq!(
        error("a: 1\n---\nb: 1\nc: d: e\n"),
        "mapping values are not allowed in this context at line 4, column 5"
    );
    assert_eq!(
        error("a: 1\na: 2\n"),
        "duplicate mapping key `a` is not allowed here at line 2, column 1"
    );
    assert!(error("on: 1\ntrue: 2\n").contains("duplicate mapping key `true`"));
    assert_eq!(
        error("a: 1\n--- b\n"),
        "invalid document separator \"--- b\" at line 2: put the document on the lines after it"
    );
    assert!(error("a: [1,\n").contains("line 1"));
    assert!(error("a: *b\n").contains("line 1"));
    assert!(error("? [1]\n: 2\n").contains("the key [1] is no text"));
    assert!(error("a: .nan\n").contains("line 1"));
}

#[test]
fn bombs_are_refused() {
    let mut bomb = vec!["a0: &a0 [x, x, x, x, x, x, x, x, x, x]".to_owned()];
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push(format!("a{level}: &a{level} [{aliases}]"));
    }
    assert!(error(&bomb.join("\n")).contains("aliases repeat more than 100000 values"));
    read(&"[".repeat(100_000)).unwrap_err();
    let deep: Vec<_> = (0..1000).map(|depth| format!("{}a:", " ".repeat(depth))).collect();
    assert!(error(&deep.join("\n")).contains("nests deeper than 64 levels"));
    // A long comment and a long list are no bombs.
    let long = format!("{}a:\n{}", "# words\n".repeat(500), "- 1\n".repeat(300_000));
    assert_eq!(values(&long)[0]["a"].as_array().unwrap().len(), 300_000);
}

#[test]
fn lists_hold_objects() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod"});
    let list = json!({"kind": "List", "items": [pod, {"kind": "List", "items": [pod, null]}, {"kind": "List"}]});
    let found: Vec<_> = items(&list).into_iter().map(Cow::into_owned).collect();
    assert_eq!(found, [pod.clone(), pod.clone(), json!(null), json!({"kind": "List"})]);
    let answer = json!({"apiVersion": "v1", "kind": "PodList", "items": [{}, {"kind": "Other"}, 7]});
    let found: Vec<_> = items(&answer).into_iter().map(Cow::into_owned).collect();
    assert_eq!(found, [pod.clone(), json!({"kind": "Other"}), json!(7)]);
    assert_eq!(items(&pod).len(), 1);
}

#[test]
fn written_as_kubectl_writes() {
    let value = json!({
        "b": {"y": "no", "mode": "0644", "size": "1e3", "time": "12:30:45", "text": "a\nb\n", "empty": {}, "on": true},
        "a": [{"n": null, "list": [1, 1.5, "x: y"]}],
    });
    let yaml = "a:\n- list:\n  - 1\n  - 1.5\n  - \"x: y\"\n  \"n\": null\nb:\n  empty: {}\n  mode: \"0644\"\n  \"on\": true\n  \
        size: \"1e3\"\n  text: |\n    a\n    b\n  time: \"12:30:45\"\n  \"y\": \"no\"\n";
    assert_eq!(to_yaml(&value).unwrap(), yaml);
    assert_eq!(to_yaml(&json!({"a": "\n\tb\n"})).unwrap(), "a: \"\\n\\tb\\n\"\n");
    assert_eq!(to_json(&json!({"b": 1, "a": "x\ny"})), "{\"a\":\"x\\ny\",\"b\":1}\n");
}

/// Texts that a reader might take for something else, and any others.
fn text() -> impl Strategy<Value = String> {
    let odd = [
        "y",
        "No",
        "null",
        "~",
        "0644",
        "1_000",
        "1e3",
        "12:30:45",
        "=",
        "<<",
        "",
        " ",
        "---",
        "2001-01-01",
    ];
    prop_oneof![
        proptest::sample::select(odd.to_vec()).prop_map(str::to_owned),
        "[-:#'\"|>%@`&*!?,\\[\\]{}a0 \\n\\t\\r\\\\]{0,12}",
        any::<String>(),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|float| number(if float.is_finite() { float } else { 0.5 })),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(text(), inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_the_same(value in value()) {
        let wrapped = json!({"a": value});
        prop_assert_eq!(&values(&to_yaml(&wrapped).unwrap()), std::slice::from_ref(&wrapped));
        prop_assert_eq!(&values(&to_json(&wrapped)), std::slice::from_ref(&wrapped));
    }

    #[test]
    fn nothing_makes_the_reader_panic(text in "[-:#'\"|>%@`&*!?,\\[\\]{}a0 \\n\\t\\r\\\\]{0,60}") {
        let _result = read(&text);
    }
}

/// The pieces of `text`, each with its document.
fn pieces(text: &str) -> Vec<(Piece, Vec<Value>)> {
    let mut splitter = Splitter::default();
    let mut pieces = Vec::new();
    for line in text.split_inclusive('\n') {
        pieces.extend(splitter.push(line).unwrap());
    }
    pieces.extend(splitter.finish());
    let values = |piece: Piece| {
        let documents = piece.documents().unwrap();
        let values = documents.into_iter().map(|document| document.value).collect();
        (piece, values)
    };
    pieces.into_iter().map(values).collect()
}

#[test]
fn what_stands_around_documents_is_kept() {
    for (text, values) in [
        ("", json!([])),
        ("\u{feff}", json!([])),
        ("---\n---\n", json!([])),
        ("\u{feff}---\r\na: 1\r\n---\r\n", json!([{"a": 1}])),
        ("a: 1\n...\n# over\n\n---\nb: 1", json!([{"a": 1}, {"b": 1}])),
        // kubectl reads nothing behind the dots.
        ("a: 1\n...\nb: 1\n... # over\n", json!([{"a": 1}, {"b": 1}])),
        ("...\n---\na: 1\n", json!([{"a": 1}])),
        (
            "a: 1\n...\n%YAML 1.2\n# words\n---\nb: no\n",
            json!([{"a": 1}, {"b": false}]),
        ),
        ("%YAML 1.1\n---\n---\na: 1\n", json!([{"a": 1}])),
        (
            "{\"a\": 1}\n\n{\n\"b\": \"}\\\"{\"}\n# words\n",
            json!([{"a": 1}, {"b": "}\"{"}]),
        ),
        ("{\"a\": 1} {\"b\": 1}\n[1]\n", json!([{"a": 1}, {"b": 1}, [1]])),
        ("{a: 1}\n", json!([{"a": 1}])),
        ("# words\n---\n \n", json!([null, null])),
    ] {
        let pieces = pieces(text);
        let whole: String = pieces
            .iter()
            .flat_map(|(piece, _)| [&*piece.before, &piece.text, &piece.after])
            .collect();
        assert_eq!(whole, text);
        let found: Vec<_> = pieces.into_iter().flat_map(|(_, values)| values).collect();
        assert_eq!(json!(found), values, "{text}");
        let read: Vec<_> = read(text).unwrap().into_iter().map(|document| document.value).collect();
        assert_eq!(json!(read), values, "{text}");
    }
}

#[test]
fn lines_are_counted_through_whatever_stands_between() {
    for (text, line) in [
        ("a: 1\n...\n# over\nb: c: d\n", 4),
        ("%YAML 1.2\n---\na: b: c\n", 3),
        ("{\"a\": 1}\n{\"b\": 1}\n{\"c\": 1, \"c\": 2}\n", 3),
        ("a: 1\n---\n---\n\n...\n\nb: c: d", 7),
    ] {
        let error = error(text);
        assert!(error.contains(&format!("at line {line}, ")), "{text}: {error}");
    }
}
