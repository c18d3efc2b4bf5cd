//! The functions that the templates of our charts call beside those of the language: as many of Helm's as they need, and
//! no more. Each does for what the charts give it what Helm's does.

use super::Target;
use gotmpl::{Template, TemplateError, Value};
use serde_json::Map;
use std::sync::{Arc, OnceLock, Weak};

/// How the text of an error begins that a template raises with `fail`.
pub(super) const FAILURE: &str = "\u{1}";

type Answer = Result<Value, TemplateError>;

/// Registers all functions; `include` finds its templates in `set`.
pub(super) fn register(template: Template, target: &Target, set: &Arc<OnceLock<Template>>) -> Template {
    let (set, target) = (Arc::downgrade(set), target.clone());
    template
        .func("include", move |arguments| include(&set, arguments))
        .func("lookup", move |arguments| look_up(&target, arguments))
        .func("fail", |arguments| {
            let [message] = exactly("fail", arguments)?;
            Err(TemplateError::Exec(format!("{FAILURE}{message}")))
        })
        .func("toJson", |arguments| {
            let [value] = exactly("toJson", arguments)?;
            Ok(text(&go_json(value)))
        })
        .func("toString", |arguments| {
            let [value] = exactly("toString", arguments)?;
            Ok(match matches!(value, Value::Nil) {
                true => text(""),
                false => text(&value.to_string()),
            })
        })
        .func("int", |arguments| {
            let [value] = exactly("int", arguments)?;
            Ok(Value::Int(integer(value)))
        })
        .func("nindent", |arguments| {
            let [width, value] = exactly("nindent", arguments)?;
            let margin = " ".repeat(usize::try_from(integer(width)).unwrap_or_default());
            Ok(text(&format!(
                "\n{margin}{}",
                value.to_string().replace('\n', &format!("\n{margin}"))
            )))
        })
        .func("default", |arguments| {
            let [default, value] = exactly("default", arguments)?;
            Ok(if value.is_truthy() { value } else { default }.clone())
        })
        .func("has", |arguments| {
            let [wanted, list] = exactly("has", arguments)?;
            Ok(Value::Bool(matches!(list, Value::List(list) if list.contains(wanted))))
        })
        .func("list", |arguments| Ok(Value::List(arguments.into())))
        .func("hasPrefix", |arguments| {
            let [prefix, value] = texts("hasPrefix", arguments)?;
            Ok(Value::Bool(value.starts_with(prefix)))
        })
        .func("contains", |arguments| {
            let [part, value] = texts("contains", arguments)?;
            Ok(Value::Bool(value.contains(part)))
        })
        .func("trimPrefix", |arguments| {
            let [prefix, value] = texts("trimPrefix", arguments)?;
            Ok(text(value.strip_prefix(prefix).unwrap_or(value)))
        })
        .func("trimSuffix", |arguments| {
            let [suffix, value] = texts("trimSuffix", arguments)?;
            Ok(text(value.strip_suffix(suffix).unwrap_or(value)))
        })
}

fn include(set: &Weak<OnceLock<Template>>, arguments: &[Value]) -> Answer {
    let [name, context] = exactly("include", arguments)?;
    let set = set.upgrade();
    let template = set.as_ref().and_then(|set| set.get());
    let template = template.ok_or_else(|| TemplateError::UndefinedTemplate(name.to_string()))?;
    let rendered = template.execute_template_to_string(&name.to_string(), context)?;
    Ok(text(&rendered))
}

/// An object of the cluster; what nobody has asked for is not there, as for Helm without a cluster.
fn look_up(target: &Target, arguments: &[Value]) -> Answer {
    let [_version, kind, _namespace, name] = texts("lookup", arguments)?;
    match target.look_up(kind, name) {
        Some(object) => gotmpl::to_value(object),
        None => Ok(Value::Map(Arc::default())),
    }
}

/// JSON as Go writes it: without blanks, and with escapes for what means something in HTML.
fn go_json(value: &Value) -> String {
    let mut json = json(value).to_string();
    for (character, escape) in [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ] {
        // They stand in texts alone, where an escape means the same.
        json = json.replace(character, escape);
    }
    json
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Nil | Value::Function(_) => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Uint(value) => (*value).into(),
        Value::Float(value) => (*value).into(),
        Value::String(value) => (**value).into(),
        Value::List(values) => values.iter().map(json).collect(),
        Value::Map(map) => {
            let map: Map<_, _> = map
                .iter()
                .map(|(key, value)| (key.as_ref().to_owned(), json(value)))
                .collect();
            map.into()
        }
    }
}

fn integer(value: &Value) -> i64 {
    let read = || value.as_str().and_then(|text| text.parse().ok());
    value.as_int().or_else(read).unwrap_or_default()
}

fn text(text: &str) -> Value {
    Value::String(text.into())
}

/// The arguments, of which there are as many as the function takes.
fn exactly<'a, const N: usize>(name: &str, arguments: &'a [Value]) -> Result<&'a [Value; N], TemplateError> {
    arguments.try_into().map_err(|_length| TemplateError::ArgCount {
        name: name.to_owned(),
        expected: N,
        got: arguments.len(),
    })
}

/// The same for a function of texts.
fn texts<'a, const N: usize>(name: &str, arguments: &'a [Value]) -> Result<[&'a str; N], TemplateError> {
    let values: &[Value; N] = exactly(name, arguments)?;
    if let Some(other) = values.iter().find(|value| value.as_str().is_none()) {
        return Err(TemplateError::Exec(format!(
            "{name} takes texts, not {}",
            other.type_name()
        )));
    }
    Ok(values.each_ref().map(|value| value.as_str().unwrap_or_default()))
}
