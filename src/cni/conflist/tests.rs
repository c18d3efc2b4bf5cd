use super::*;
use proptest::prelude::*;
use serde_json::json;

const CALICO: &str = r#"{
  "name": "k8s-pod-network",
  "cniVersion": "0.3.1",
  "plugins": [
    {
      "type": "calico",
      "mtu": 12345678901234567890.10,
      "policy": {"type": "k8s"}
    },
    {"type": "portmap", "snat": true,   "capabilities": {"portMappings": true}}
  ]
}
"#;

fn ours() -> Value {
    json!({"type": PLUGIN, "linkerd": {"incoming-proxy-port": 4143}})
}

fn put(text: &str) -> String {
    List::read(text).unwrap().with(&ours()).into_owned()
}

fn taken(text: &str) -> String {
    List::read(text).unwrap().without().into_owned()
}

#[test]
fn our_entry_is_put_last_in_the_style_of_the_file() {
    let expected = CALICO.replace(
        "true}}\n",
        "true}},\n    {\n      \"linkerd\": {\n        \"incoming-proxy-port\": 4143\n      },\n      \"type\": \"outrigger-cni\"\n    }\n",
    );
    assert_eq!(put(CALICO), expected);
    assert_eq!(taken(&expected), CALICO);
    let compact = r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge"}],"zzz":1e400}"#;
    let expected = r#"{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"bridge"},{"linkerd":{"incoming-proxy-port":4143},"type":"outrigger-cni"}],"zzz":1e400}"#;
    assert_eq!(put(compact), expected);
}

#[test]
fn an_entry_that_is_right_is_not_written_again() {
    let once = put(CALICO);
    assert!(matches!(List::read(&once).unwrap().with(&ours()), Cow::Borrowed(_)));
    assert!(matches!(List::read(CALICO).unwrap().without(), Cow::Borrowed(_)));
    let other = json!({"type": PLUGIN, "log_level": "debug"});
    let changed = List::read(&once).unwrap().with(&other).into_owned();
    assert_eq!(
        serde_json::from_str::<Value>(List::read(&changed).unwrap().entry().unwrap()).unwrap(),
        other
    );
    assert_eq!(taken(&changed), CALICO);
}

#[test]
fn duplicates_become_one_where_the_first_was() {
    let ours = ours().to_string();
    let text = format!(
        r#"{{"cniVersion":"0.4.0","name":"n","plugins":[{{"type":"outrigger-cni"}}, {{"type":"a"}},{{"type":"outrigger-cni","x":1}} ,{{"type":"b"}},{ours}]}}"#
    );
    assert_eq!(
        put(&text),
        format!(r#"{{"cniVersion":"0.4.0","name":"n","plugins":[{ours}, {{"type":"a"}} ,{{"type":"b"}}]}}"#)
    );
    assert_eq!(
        taken(&text),
        r#"{"cniVersion":"0.4.0","name":"n","plugins":[{"type":"a"} ,{"type":"b"}]}"#
    );
}

#[test]
fn what_a_runtime_would_not_read_is_an_error() {
    let read = |text: &str| List::read(text).unwrap_err();
    let decode = |error| matches!(error, ConfigurationError::Decode(_));
    for end in 0..CALICO.trim_end().len() {
        assert!(decode(read(&CALICO[..end])), "{end}");
    }
    assert!(decode(read(&format!("{CALICO}}}"))) && decode(read("[]")) && decode(read("null")));
    assert!(decode(read(
        r#"{"name": "n", "cniVersion": "1.0.0", "plugins": [], "plugins": [{"type": "a"}]}"#
    )));
    let table = [
        (
            r#"{"cniVersion": "1.0.0", "plugins": [{"type": "a"}]}"#,
            ConfigurationError::NoName,
        ),
        (r#"{"name": "n", "cniVersion": "1.0.0"}"#, ConfigurationError::NoPlugins),
        (
            r#"{"name": "n", "cniVersion": "1.0.0", "plugins": []}"#,
            ConfigurationError::NoPlugins,
        ),
        (
            r#"{"name": "n", "cniVersion": "1.0.0", "plugins": [{}]}"#,
            ConfigurationError::NoType,
        ),
        (
            r#"{"name": "n", "cniVersion": "1.0.0", "plugins": [{"type": "outrigger-cni"}]}"#,
            ConfigurationError::NoPrimary,
        ),
        (
            r#"{"name": "n", "plugins": [{"type": "a"}]}"#,
            ConfigurationError::Version(String::new()),
        ),
        (
            r#"{"name": "n", "cniVersion": "2.0.0", "plugins": [{"type": "a"}]}"#,
            ConfigurationError::Version("2.0.0".to_owned()),
        ),
    ];
    for (text, error) in table {
        assert_eq!(read(text), error, "{text}");
    }
}

#[test]
fn a_single_plugin_becomes_a_list_as_it_is_written() {
    let conf =
        "{\"name\": \"mynet\", \"cniVersion\": \"1.0.0\",\n \"type\": \"kube-router\", \"big\": 9007199254740993}\n";
    let list = Single::read(conf).unwrap().list(&ours());
    assert!(list.contains(conf.trim()));
    let read = List::read(&list).unwrap();
    assert_eq!((read.name.as_str(), read.version.as_str()), ("mynet", "1.0.0"));
    assert!(matches!(read.with(&ours()), Cow::Borrowed(_)));
    let version = |text| Single::read(text).map(|single| single.version);
    assert_eq!(version(r#"{"name": "n", "type": "a"}"#), Ok("0.3.1".to_owned()));
    assert_eq!(
        version(r#"{"name": "n", "type": "a", "cniVersion": "0.2.0"}"#),
        Ok("0.3.1".to_owned())
    );
    assert_eq!(version(CALICO), Err(ConfigurationError::NoType));
    assert_eq!(
        version(r#"{"name": "n", "type": "a", "cniVersion": "2.0.0"}"#),
        Err(ConfigurationError::Version("2.0.0".to_owned()))
    );
}

/// Blanks as people and programs write them.
fn blank() -> impl Strategy<Value = String> {
    "[ \\t\\n\\r]{0,4}"
}

/// A plugin of somebody else, with blanks, foreign keys and odd numbers.
fn plugin() -> impl Strategy<Value = String> {
    (
        blank(),
        "[a-z]{1,8}",
        "[-a-zé\"\\\\]{0,6}",
        "-?[1-9][0-9]{0,30}(\\.[0-9]{1,3})?",
    )
        .prop_map(|(b, kind, key, number)| {
            let key = Value::from(format!("k{key}"));
            format!("{{{b}{key}:{b}{number},{b}\"type\"{b}:\"{kind}\"{b}, \"list\": [{b}]}}")
        })
}

prop_compose! {
    fn list()(plugins in prop::collection::vec(plugin(), 1..5), a in blank(), b in blank(), c in blank()) -> String {
        let plugins = plugins.join(&format!("{a},{b}"));
        format!("{a}{{\"plugins\"{b}:{c}[{b}{plugins}{c}],{b} \"cniVersion\": \"1.1.0\", \"name\":\"n\", \"x\": 1E+2}}{c}")
    }
}

proptest! {
    #[test]
    fn taking_out_what_was_put_in_gives_the_same_bytes(text in list()) {
        let with = put(&text);
        let read = List::read(&with).unwrap();
        let entry: Value = serde_json::from_str(read.entry().unwrap()).unwrap();
        prop_assert_eq!(entry, ours());
        prop_assert_eq!(read.plugins.iter().filter(|plugin| plugin.ours).count(), 1);
        prop_assert_eq!(&put(&with), &with);
        prop_assert_eq!(taken(&with), text);
    }

    #[test]
    fn no_text_panics(text in ".{0,60}", cut in 0usize..200) {
        List::read(&text).ok();
        let cut = CALICO.get(..cut.min(CALICO.len())).unwrap_or_default();
        Single::read(cut).ok();
        List::read(&format!("{cut}{text}")).ok();
    }
}
