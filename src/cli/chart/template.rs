//! Go's template language over the templates of a chart.

use super::Target;
use super::functions::{self, FAILURE};
use anyhow::{Result, anyhow};
use gotmpl::parse::Parser;
use gotmpl::{Template, TemplateError};
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// Executes each of `templates` (path, text) that is no partial, with `context` as `.`.
///
/// # Errors
/// Where a template is not in the language, or fails.
pub(super) fn render(
    templates: &[(&'static str, &str)],
    context: &Value,
    target: &Target,
) -> Result<Vec<(&'static str, String)>> {
    let context = gotmpl::to_value(context)?;
    // `include` calls templates of the set that it is a function of.
    let set: Arc<OnceLock<Template>> = Arc::default();
    let mut parsed = functions::register(Template::new(""), target, &set);
    for (path, text) in templates {
        let (body, definitions) = Parser::with_name(Some(path), text, "{{", "}}").and_then(Parser::parse)?;
        parsed = parsed.add_parse_tree(path, body);
        for definition in definitions {
            parsed = parsed.add_parse_tree(&definition.name, definition.body);
        }
    }
    let parsed = set.get_or_init(|| parsed);
    let whole = templates.iter().filter(|(path, _)| !path.contains("/_"));
    let rendered = whole.map(|(path, _)| {
        let text = parsed.execute_template_to_string(path, &context);
        Ok((*path, text.map_err(|error| failure(path, &error))?))
    });
    rendered.collect()
}

/// What a template raises itself is said as it is; everything else is a mistake in the template.
fn failure(path: &str, error: &TemplateError) -> anyhow::Error {
    let text = error.to_string();
    match text.split_once(FAILURE) {
        Some((_, raised)) => anyhow!("{raised}"),
        None => anyhow!("{path}: {text}"),
    }
}
