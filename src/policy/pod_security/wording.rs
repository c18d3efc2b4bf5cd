//! The words of Pod Security's messages: lists and plurals, to the byte.

/// `one` for a single thing, else `many`.
pub(super) fn plural<'t>(count: usize, one: &'t str, many: &'t str) -> &'t str {
    if count == 1 { one } else { many }
}

/// `"a", "b"`: quotation marks around each item, nothing in it escaped.
pub(super) fn quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<_> = items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect();
    items.join(", ")
}

/// `container "a"` or `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!("{} {}", plural(names.len(), "container", "containers"), quoted(names))
}

/// Who set a field, the pod first: `pod and containers "a", "b"`.
pub(super) fn setters(pod: bool, names: &[&str]) -> String {
    match (pod, names) {
        (true, []) => "pod".to_owned(),
        (true, _) => format!("pod and {}", containers(names)),
        (false, _) => containers(names),
    }
}
