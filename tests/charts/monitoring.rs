//! Rules and dashboards come into the cluster as they are in the files of the chart, whose own braces are no template's.

use std::fs;

use serde_json::Value;

use crate::accepted::objects;
use crate::cluster::repository;
use crate::program::printed;

fn read(file: &str) -> String {
    fs::read_to_string(repository().join("charts/outrigger").join(file)).unwrap()
}

#[test]
fn rules_and_dashboards_are_those_of_the_chart() {
    let on = "monitoring.prometheusRule.enabled=true,monitoring.dashboards.enabled=true";
    let rendered = objects(&printed(&["install", "--set", on]), &[]);
    let one = |kind: &str, name: &str| {
        let is_it = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        rendered.iter().find(is_it).unwrap()
    };
    let rules: Value = serde_saphyr::from_str(&read("rules/outrigger.yaml")).unwrap();
    assert!(!rules["groups"].as_array().unwrap().is_empty());
    assert_eq!(one("PrometheusRule", "outrigger")["spec"], rules);

    let data = one("ConfigMap", "outrigger-dashboards")["data"].as_object().unwrap();
    let files: Vec<_> = fs::read_dir(repository().join("charts/outrigger/dashboards"))
        .unwrap()
        .flatten()
        .collect();
    assert!(!files.is_empty() && data.len() == files.len());
    for file in files {
        let name = file.file_name().into_string().unwrap();
        assert_eq!(data[&name], read(&format!("dashboards/{name}")), "{name}");
    }
}

/// A series says by its label `namespace` whose pods it counts: a scrape must not put that of the webhook in its place.
#[test]
fn a_scrape_keeps_the_labels_that_series_have() {
    let on = "monitoring.podMonitor.enabled=true,monitoring.serviceMonitor.enabled=true";
    let rendered = objects(&printed(&["install", "--set", on]), &[]);
    let mut endpoints = Vec::new();
    for (kind, key) in [("PodMonitor", "podMetricsEndpoints"), ("ServiceMonitor", "endpoints")] {
        let monitor = rendered.iter().find(|object| object["kind"] == kind).unwrap();
        endpoints.extend(monitor["spec"][key].as_array().unwrap());
    }
    assert_eq!(endpoints.len(), 3);
    assert!(
        endpoints.iter().all(|endpoint| endpoint["honorLabels"] == true),
        "{endpoints:?}"
    );
}
