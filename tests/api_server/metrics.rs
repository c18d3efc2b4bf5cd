//! The dashboard and the rules of Prometheus against a running webhook: each expression parses, each series and each label that
//! they name is there, and what is there is documented.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use promql_parser::label::MatchOp;
use promql_parser::parser::{self, Expr, LabelModifier, VectorSelector};
use promql_parser::util::{ExprVisitor, walk_expr};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::cluster::{Cluster, Options, create, poll, repository};
use crate::metrics_page::page;
use crate::pod;
use crate::scene::{INJECT, PLAIN, Scene};
use crate::workload::{self, pod_of};
use crate::written::is_or_becomes;

/// Labels that a scrape adds.
const OF_THE_SCRAPE: [&str; 3] = ["job", "instance", "__name__"];

/// What variables of the dashboard stand for.
const VARIABLES: [(&str, &str); 3] = [("$job", ".*"), ("$__rate_interval", "5m"), ("$__range", "6h")];

/// How long a webhook may take to see what is new.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

fn read(file: &str) -> String {
    let path = repository().join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn dashboard() -> Value {
    serde_json::from_str(&read("charts/outrigger/dashboards/outrigger.json")).unwrap()
}

/// The rules of all groups.
fn rules() -> Vec<Value> {
    let document: Value = serde_saphyr::from_str(&read("charts/outrigger/rules/outrigger.yaml")).unwrap();
    let groups = document["groups"].as_array().unwrap();
    groups
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap().clone())
        .collect()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// Every expression, with what it belongs to.
fn expressions() -> Vec<(String, String)> {
    let dashboard = dashboard();
    let mut all = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let mut expression = text(target, "expr").to_owned();
            for (variable, value) in VARIABLES {
                expression = expression.replace(variable, value);
            }
            assert!(!expression.contains('$'), "an unknown variable: {expression}");
            all.push((format!("panel {:?}", text(panel, "title")), expression));
        }
    }
    for rule in rules() {
        let name = format!("{}{}", text(&rule, "alert"), text(&rule, "record"));
        all.push((name, text(&rule, "expr").to_owned()));
    }
    assert!(all.len() > 40, "{all:?}");
    all
}

/// What an expression names: metrics with the labels that are matched, and labels that series are put together by.
#[derive(Default)]
struct Named {
    selectors: Vec<VectorSelector>,
    labels: BTreeSet<String>,
}

impl ExprVisitor for Named {
    type Error = String;

    fn pre_visit(&mut self, expression: &Expr) -> Result<bool, String> {
        if let Expr::VectorSelector(selector) = expression {
            self.selectors.push(selector.clone());
        } else if let Expr::MatrixSelector(selector) = expression {
            self.selectors.push(selector.vs.clone());
        } else if let Expr::Aggregate(aggregate) = expression
            && let Some(LabelModifier::Include(labels)) = &aggregate.modifier
        {
            self.labels.extend(labels.labels.iter().cloned());
        }
        Ok(true)
    }
}

/// A metric as it is exported: its series' labels, and the values of each.
pub(crate) type Labels = BTreeMap<String, BTreeSet<String>>;

/// Every series that a scrape has, by name.
fn exported(scrape: &str) -> BTreeMap<String, Labels> {
    let mut all: BTreeMap<String, Labels> = BTreeMap::new();
    for line in scrape.lines().filter(|line| !line.starts_with('#')) {
        let series = line.rsplit_once(' ').unwrap().0;
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let known = all.entry(name.to_owned()).or_default();
        // No value here holds a comma or a quote.
        for label in labels
            .trim_end_matches('}')
            .split(',')
            .filter(|label| !label.is_empty())
        {
            let (label, value) = label.split_once('=').unwrap();
            known
                .entry(label.to_owned())
                .or_default()
                .insert(value.trim_matches('"').to_owned());
        }
    }
    all
}

/// Has a webhook do everything that it counts, and returns what it says of itself then.
async fn scrape() -> String {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.client().await;
    create(&client, "/api/v1/nodes", &json!({"metadata": {"name": "n1"}})).await;
    let scene = Scene::in_cluster(&cluster, PLAIN).await;
    let open = scene.namespace("open", &[], &[INJECT]).await;
    let shut = scene.meshed("baseline").await;
    let owner = workload::create(&open, "StatefulSet", "web", None).await;
    assert_eq!(open.create_pod(&pod_of(&owner)).await.code, 201);
    assert_eq!(shut.create_pod(&pod("denied", &json!({}))).await.code, 403);
    let mut skipped = pod("skipped", &json!({}));
    skipped["metadata"]["annotations"] = json!({"linkerd.io/inject": "disabled"});
    assert_eq!(open.create_pod(&skipped).await.code, 201);
    // No review, no handshake, no certificate, and findings that nobody can read.
    assert_eq!(scene.webhook.post(b"{}".to_vec()).await.unwrap().0, 400);
    drop(TcpStream::connect(scene.webhook.address()).await.unwrap());
    scene.webhook.rotate_certificate().await;
    let findings = json!({"metadata": {"name": "outrigger-probe-findings"}, "data": {"_format": "0"}});
    let posted = open.named("linkerd").post("api/v1", "configmaps", &findings).await;
    assert_eq!(posted.code, 201, "{}", posted.body);
    let complete = async || {
        let (_, text) = scene.webhook.read("/metrics").await.unwrap();
        let expected = [
            "outrigger_probe_findings{",
            "outrigger_events_total{outcome=\"sent\"} 1",
            "outrigger_connections_failed_total{reason=\"handshake\"}",
            "outrigger_cni_nodes{state=\"uncovered\"} 1",
            "outrigger_reloads_total{",
        ];
        expected.iter().all(|start| text.contains(start)).then_some(text)
    };
    let found = poll(LIMIT, complete).await;
    let last = scene.webhook.read("/metrics").await.unwrap().1;
    found.unwrap_or_else(|| panic!("not everything was counted: {last}"))
}

#[tokio::test]
async fn what_dashboard_and_rules_ask_for_is_exported_and_documented() {
    let scrape = scrape().await;
    let exported = exported(&scrape);
    is_or_becomes("docs/reference/metrics.md", &page(&scrape, &exported));
    let recorded: BTreeSet<_> = rules().iter().map(|rule| text(rule, "record").to_owned()).collect();
    let mut faults = Vec::new();
    for (owner, expression) in expressions() {
        let named = named(&owner, &expression);
        let mut known: BTreeSet<&str> = OF_THE_SCRAPE.into();
        for selector in &named.selectors {
            let name = selector.name.as_deref().unwrap_or_default();
            if recorded.contains(name) {
                continue;
            }
            let Some(labels) = exported.get(name) else {
                faults.push(format!("{owner}: nothing is called {name:?}"));
                continue;
            };
            known.extend(labels.keys().map(String::as_str));
            for matcher in &selector.matchers.matchers {
                let label = matcher.name.as_str();
                let values = labels.get(label);
                let is_there =
                    values.is_some_and(|values| matcher.op != MatchOp::Equal || values.contains(&matcher.value));
                if !is_there && !OF_THE_SCRAPE.contains(&label) {
                    faults.push(format!(
                        "{owner}: {name} has no {label}={:?}: {values:?}",
                        matcher.value
                    ));
                }
            }
        }
        let unknown = named.labels.iter().filter(|label| !known.contains(label.as_str()));
        faults.extend(unknown.map(|label| format!("{owner}: no series has a label {label}")));
    }
    let operations = read("docs/operations.md");
    let is_documented = |name: &str| {
        let base = ["_bucket", "_count", "_sum"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix));
        operations.contains(&format!("`{}`", base.unwrap_or(name)))
    };
    let undocumented = exported.keys().filter(|name| !is_documented(name));
    faults.extend(undocumented.map(|name| format!("docs/operations.md says nothing of {name}")));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn named(owner: &str, expression: &str) -> Named {
    let parsed = parser::parse(expression).unwrap_or_else(|error| panic!("{owner}: {expression}: {error}"));
    let mut named = Named::default();
    walk_expr(&mut named, &parsed).unwrap();
    named
}

/// GitHub's anchors of a document's headings.
fn anchors(document: &str) -> BTreeSet<String> {
    let headings = document.lines().filter_map(|line| line.strip_prefix('#'));
    let anchor = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        heading
            .chars()
            .filter(|c| c.is_alphanumeric() || "-_".contains(*c))
            .collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn each_alert_says_what_it_is_and_where_to_read_on() {
    let (alerts, records): (Vec<_>, Vec<_>) = rules().into_iter().partition(|rule| rule.get("alert").is_some());
    assert!(alerts.len() > 10 && !records.is_empty());
    let mut names = BTreeSet::new();
    for alert in &alerts {
        let name = text(alert, "alert");
        assert!(names.insert(name.to_owned()), "{name} stands twice");
        let severity = text(&alert["labels"], "severity");
        assert!(
            ["critical", "warning", "info"].contains(&severity),
            "{name}: {severity:?}"
        );
        let annotations = &alert["annotations"];
        for key in ["summary", "description"] {
            assert!(!text(annotations, key).is_empty(), "{name} has no {key}");
        }
        let (file, anchor) = text(annotations, "runbook").split_once('#').unwrap();
        assert!(
            anchors(&read(file)).contains(anchor),
            "{name}: {file} has no heading {anchor}"
        );
        // What a text shows of a series must be left of it.
        let named = named(name, text(alert, "expr"));
        let shown = annotations.to_string();
        let labels = shown.split("$labels.").skip(1);
        for label in labels.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap()) {
            let kept = named.labels.contains(label) || label == "instance" && named.labels.is_empty();
            let own = named.labels.is_empty() && text(alert, "expr").starts_with("outrigger_");
            assert!(kept || own, "{name} shows {label}, which is none of its labels");
        }
    }
    let documented = anchors(&read("docs/operations.md"));
    let of_alerts = documented.iter().filter(|anchor| anchor.starts_with("outrigger"));
    let named: BTreeSet<_> = names.iter().map(|name| name.to_lowercase()).collect();
    assert_eq!(
        of_alerts.cloned().collect::<BTreeSet<_>>(),
        named,
        "each alert is documented, and nothing else"
    );
}

#[test]
fn the_dashboard_is_one_that_grafana_can_lay_out() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    let place = |panel: &Value| ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
    let places: Vec<_> = panels.iter().map(place).collect();
    for (index, [x, y, w, h]) in places.iter().enumerate() {
        assert!(x + w <= 24, "panel {index} is wider than the grid");
        for [other_x, other_y, other_w, other_h] in &places[..index] {
            let apart = x + w <= *other_x || other_x + other_w <= *x || y + h <= *other_y || other_y + other_h <= *y;
            assert!(apart, "panel {index} lies over another");
        }
    }
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert!(
            !text(panel, "description").is_empty(),
            "{} says nothing of itself",
            panel["title"]
        );
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: BTreeSet<_> = variables.iter().map(|variable| text(variable, "name")).collect();
    assert_eq!(names, ["datasource", "job"].into());
}
