//! `docs/reference/metrics.md`, made of what a webhook exports that has done everything it counts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::metrics::Labels;

const HEAD: &str = "# Metrics of the webhook

OpenMetrics at `:9995/metrics`. What each tells, what values labels take, and which alerts there are:
[operations](../operations.md#metrics). The agent's are in [its page](../cni-agent.md#flags-and-variables), the probe's in
[the probe's](../probe.md#running-it).

<!-- Made of the code by `make manifests`. -->
| metric | type | labels | what |
|---|---|---|---|
";

/// What a webhook exports that looks after its own certificate, beside what all do: name, type, labels, what it tells.
const OF_ITS_OWN_CERTIFICATE: [[&str; 4]; 3] = [
    [
        "outrigger_certificate_failing",
        "gauge",
        "–",
        "Whether the replicas cannot look after the certificate",
    ],
    [
        "outrigger_certificate_steps_total",
        "counter",
        "`step`",
        "Steps that this replica has taken to look after the certificate",
    ],
    [
        "outrigger_certificate_trusted",
        "gauge",
        "–",
        "Whether API servers take the certificate in use, as caBundle says",
    ],
];

/// What the lines that begin with `word` tell of each metric.
fn told<'a>(scrape: &'a str, word: &str) -> BTreeMap<&'a str, &'a str> {
    let lines = scrape.lines().filter_map(|line| line.strip_prefix(word));
    lines.filter_map(|line| line.split_once(' ')).collect()
}

/// The page for a scrape with these series.
pub(crate) fn page(scrape: &str, exported: &BTreeMap<String, Labels>) -> String {
    let (helps, types) = (told(scrape, "# HELP "), told(scrape, "# TYPE "));
    assert!(types.len() > 20, "{types:?}");
    let mut rows: BTreeMap<String, [String; 3]> = BTreeMap::new();
    for (name, kind) in types {
        let series = match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            "histogram" => format!("{name}_bucket"),
            _ => name.to_owned(),
        };
        let shown = series.trim_end_matches("_bucket").to_owned();
        if OF_ITS_OWN_CERTIFICATE.iter().any(|[own, ..]| *own == shown) {
            continue;
        }
        let labels = exported
            .get(&series)
            .unwrap_or_else(|| panic!("nothing was counted of {series}"));
        let labels: Vec<_> = labels.keys().filter(|label| *label != "le").collect();
        let labels = match labels.as_slice() {
            [] => "–".to_owned(),
            labels => labels
                .iter()
                .map(|label| format!("`{label}`"))
                .collect::<Vec<_>>()
                .join(", "),
        };
        let help = helps[name].trim_end_matches('.').to_owned();
        rows.insert(shown, [kind.to_owned(), labels, help]);
    }
    for [name, rest @ ..] in OF_ITS_OWN_CERTIFICATE {
        rows.insert(name.to_owned(), rest.map(str::to_owned));
    }
    let mut page = HEAD.to_owned();
    for (name, [kind, labels, help]) in rows {
        writeln!(page, "| `{name}` | {kind} | {labels} | {help} |").expect("a text can be written to");
    }
    page
}
