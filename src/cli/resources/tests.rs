use super::*;
use crate::cli::inject::{Injector, Options};
use crate::cli::input::Source;
use crate::cli::uninject::uninjected;
use crate::config::Installation;
use crate::config::values::Values;
use crate::pod::manifest;
use proptest::prelude::*;
use serde_json::json;
use std::io::Read;

/// Renames what is called `old`, and refuses what is called `bad`.
fn rename(object: &Value) -> Change {
    match object.pointer("/metadata/name").and_then(Value::as_str) {
        Some("old") => {
            let mut renamed = object.clone();
            renamed["metadata"]["name"] = json!("new");
            Ok(Changed::new(renamed, Outcome::Annotated))
        }
        Some("bad") => Err("bad name".to_owned()),
        _ => Ok(Changed::new(object.clone(), Outcome::Skipped)),
    }
}

fn sources(texts: &[&str]) -> Sources {
    let named = |(index, text): (usize, &&str)| Source::of_text(&format!("{index}.yaml"), text);
    Sources {
        all: texts.iter().enumerate().map(named).collect(),
        ..Sources::default()
    }
}

/// What becomes of `texts`, each a source.
fn changed(texts: &[&str], change: impl Fn(&Value) -> Change) -> String {
    text_of(transform(&sources(texts), Format::Yaml, change).unwrap())
}

fn transformed(texts: &[&str], format: Format) -> Transformed {
    transform(&sources(texts), format, rename).unwrap()
}

fn text_of(mut all: Transformed) -> String {
    assert!(all.errors.is_empty(), "{:?}", all.errors);
    let mut text = all.output.start;
    all.output.rest.read_to_string(&mut text).unwrap();
    text
}

fn yaml(texts: &[&str]) -> String {
    changed(texts, rename)
}

#[test]
fn what_nothing_changed_is_written_as_it_came() {
    let text = "# nothing\n---\nkind:   Foo # odd\n---\nkind: Bar\nmetadata: {name: old}";
    let all = transformed(&[text], Format::Yaml);
    let reports: Vec<_> = all.reports.iter().map(ToString::to_string).collect();
    assert_eq!(
        text_of(all),
        "# nothing\n---\nkind:   Foo # odd\n---\nkind: Bar\nmetadata:\n  name: new\n---\n"
    );
    assert_eq!(
        reports,
        [
            "document missing \"kind\" field, skipped",
            "foo \"\" skipped",
            "bar \"old\" annotated"
        ]
    );
    let json = text_of(transformed(&[text], Format::Json));
    assert_eq!(
        json,
        "{\"kind\":\"Foo\"}\n{\"kind\":\"Bar\",\"metadata\":{\"name\":\"new\"}}\n"
    );
}

#[test]
fn what_stands_around_documents_stays() {
    let old = "metadata: {name: old}\n";
    let new = "metadata:\n  name: new\n";
    for (text, written) in [
        ("", ""),
        ("---\n---\n", "---\n---\n"),
        (
            "\u{feff}a: 1\r\n--- # b\r\n\r\nb:  1\r\n...\r\n",
            "\u{feff}a: 1\r\n--- # b\r\n\r\nb:  1\r\n...\r\n---\n",
        ),
        ("a:  1", "a:  1\n---\n"),
        ("{\"a\":  1}\n{\"b\": 1}\n", "{\"a\":  1}\n{\"b\": 1}\n"),
        ("a:  1\n...\nb:  1\n---\n", "a:  1\n...\nb:  1\n---\n"),
        (&format!("a:  1\n...\n{old}"), &format!("a:  1\n...\n---\n{new}---\n")),
        (
            &format!("{old}...\n# c\na:  1\n"),
            &format!("{new}...\n# c\n---\na:  1\n---\n"),
        ),
        (
            &format!("\u{feff}%YAML 1.2\r\n---\r\n{old}---\r\na:  1\r\n"),
            &format!("\u{feff}%YAML 1.2\r\n---\r\n{new}---\r\na:  1\r\n---\n"),
        ),
        (
            "{\"a\":  1} {\"metadata\": {\"name\": \"old\"}}\n{\"b\":  1}\n",
            &format!("---\n{{\"a\":  1}}\n---\n{new}---\n{{\"b\":  1}}\n---\n"),
        ),
    ] {
        assert_eq!(yaml(&[text]), written, "{text}");
    }
}

#[test]
fn sources_are_kept_apart() {
    for (texts, written) in [
        (["a:  1", "b:  1\n"], "a:  1\n---\nb:  1\n---\n"),
        (["a:  1\n---\n", "b:  1\n---\n"], "a:  1\n---\nb:  1\n---\n"),
        (["a:  1", "---\nb:  1\n"], "a:  1\n---\nb:  1\n---\n"),
        (["a:  1\n", "\u{feff}b:  1\n"], "a:  1\n---\nb:  1\n---\n"),
        (
            ["a:  1\n", "%YAML 1.2\n---\nb:  1\n"],
            "a:  1\n...\n%YAML 1.2\n---\nb:  1\n---\n",
        ),
        (
            ["a:  1\n---\n", "%YAML 1.2\n---\nb:  1\n"],
            "a:  1\n---\n...\n%YAML 1.2\n---\nb:  1\n---\n",
        ),
        (
            ["{\"a\":  1}", "{\"b\":  1}"],
            "---\n{\"a\":  1}\n---\n{\"b\":  1}\n---\n",
        ),
        (["", "b:  1"], "b:  1\n---\n"),
    ] {
        assert_eq!(yaml(&texts), written, "{texts:?}");
        let read = manifest::read(written).unwrap();
        assert_eq!(
            read.len(),
            texts.iter().filter(|text| !text.is_empty()).count(),
            "{written}"
        );
    }
}

#[test]
fn lists_are_changed_item_by_item() {
    let list = |names: [&str; 3]| {
        let items = names.map(|name| json!({"kind": "Foo", "metadata": {"name": name}}));
        json!({"kind": "List", "apiVersion": "v1", "items": items, "other": 1}).to_string()
    };
    let nested = |names| format!("{{\"items\":[{}],\"kind\":\"List\"}}\n", list(names));
    let all = transformed(&[&nested(["a", "old", "b"])], Format::Json);
    assert_eq!(all.reports.len(), 3);
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(read(&text_of(all)), read(&nested(["a", "new", "b"])));
    let all = transformed(&[&list(["bad", "old", "bad"]), "kind: Foo\n"], Format::Json);
    assert_eq!(all.errors, ["bad name", "bad name"]);
}

#[test]
fn errors_name_the_file() {
    let error = transform(&sources(&["a: 1", "b: 1\n---\na: b: c"]), Format::Yaml, rename);
    let error = format!("{:#}", error.err().unwrap());
    assert!(error.contains("1.yaml: mapping values are not allowed"), "{error}");
    assert!(error.contains(" at line 3, "), "{error}");
}

/// Documents in which there is nothing to inject.
const IDLE: [&str; 14] = [
    "# words\n",
    " \n",
    "kind:   ConfigMap # odd\ndata: {a:  'b'}\n",
    "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |+\n    ---\n    ...\n\n",
    "apiVersion: serving.knative.dev/v1\nkind: Service\nspec: {template: {spec: {containers: [{image: a}]}}}\n",
    "{\"kind\":  \"Foo\", \"a\": [\"}\"]}\n",
    "{kind:  Foo}\n",
    "- op: replace\n  path: /a\n",
    "a: &x {b:  1}\nc: *x\nd: {<<: *x, e:  2}\n",
    "a: \"two\n\n  lines\"\n",
    "? a\n: no\n",
    "~\n",
    "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n",
    "apiVersion: v1\nkind: PodList\nitems: [{spec:  {containers: [{name: a}]}}]\n",
];

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web} # odd\nspec:  {containers: [{name: web}]}\n";

/// What may stand between two documents.
const BETWEEN: [&str; 6] = [
    "---\n",
    "--- # words\n",
    "---\n---\n",
    "...\n",
    "...\n# words\n---\n",
    "... # words\n%YAML 1.2\n---\n",
];

/// Streams of documents, and what closes them.
fn stream(documents: Vec<&'static str>) -> impl Strategy<Value = String> {
    let document = (prop::sample::select(documents), prop::sample::select(BETWEEN.to_vec()));
    let documents = prop::collection::vec(document, 1..8);
    let start = prop::sample::select(vec![
        "",
        "---\n",
        "\u{feff}",
        "\u{feff}%YAML 1.2\n---\n",
        "# words\n---\n",
    ]);
    (start, documents, any::<bool>(), any::<bool>()).prop_map(|(start, documents, crlf, closed)| {
        let mut text = start.to_owned();
        let last = documents.len() - 1;
        for (index, (document, between)) in documents.into_iter().enumerate() {
            text += document;
            if index < last || closed {
                text += between;
            }
        }
        match crlf {
            true => text.replace('\n', "\r\n"),
            false => text,
        }
    })
}

/// The separator that is added where the last document has none, and the stream is none of JSON.
fn closing(text: &str) -> &'static str {
    let is_separator = |line: &str| line.starts_with("---");
    let begins = text.trim_start_matches('\u{feff}').trim_start();
    let json = begins.starts_with('{') && !text.lines().any(is_separator);
    match json || text.lines().last().is_some_and(is_separator) {
        true => "",
        false => "---\n",
    }
}

fn injector() -> Injector {
    let installation = Installation::parse(&["linkerdVersion: v1"], Some("anchors"), "linkerd").unwrap();
    Injector::new(&installation, Values::clone(&installation.values), Options::default())
}

proptest! {
    #[test]
    fn what_has_nothing_to_inject_comes_out_byte_for_byte(text in stream(IDLE.to_vec())) {
        let injector = injector();
        let expected = format!("{text}{}", closing(&text));
        prop_assert_eq!(&changed(&[&text], |object| injector.reinject(object)), &expected);
        prop_assert_eq!(&changed(&[&text], uninjected), &expected);
    }

    #[test]
    fn beside_what_is_injected_nothing_changes(text in stream([&[POD, POD], &IDLE[..]].concat())) {
        let injector = injector();
        let injected = changed(&[&text], |object| injector.reinject(object));
        let (before, after) = (manifest::read(&text).unwrap(), manifest::read(&injected).unwrap());
        prop_assert_eq!(before.len(), after.len(), "{}", injected);
        for (before, after) in before.iter().zip(&after) {
            if before.value.get("kind").is_some_and(|kind| kind == "Pod") {
                prop_assert_eq!(&injector.reinject(&before.value).unwrap().value, &after.value);
            } else {
                prop_assert_eq!(before.text, after.text);
            }
        }
        let twice = changed(&[&injected], |object| injector.reinject(object));
        prop_assert_eq!(twice, injected);
    }
}
