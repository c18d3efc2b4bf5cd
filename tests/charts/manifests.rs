//! The plain manifests of `webhook-config` and `cni-config`: what the program prints, template by template.

use crate::program::printed;
use crate::written::is_or_becomes;

/// A file, what it is for (comments), the program's arguments beside those of all files of its folder, and the template.
type Plain = (&'static str, &'static str, &'static [&'static str], &'static str);

/// What stands for the authority's certificate, and its base64.
const CA_BUNDLE: (&str, &str) = ("CA_BUNDLE", "Q0FfQlVORExF");

const WEBHOOK: [&str; 4] = [
    "install",
    "--server-version=1.36",
    "--set=certificates.mode=secret,certificates.caBundle=Q0FfQlVORExF",
    "--set=probe.enabled=true",
];

const CNI: [&str; 3] = ["install-cni", "--server-version=1.36", "--create-namespace"];

const PUT_CA: &str =
    "# Put the base64 of the authority's certificate in the place of CA_BUNDLE: `outrigger certs` prints it.\n";

const FILES: [Plain; 13] = [
    ("webhook-config/rbac.yaml", "", &[], "rbac.yaml"),
    ("webhook-config/deployment.yaml", "", &[], "deployment.yaml"),
    ("webhook-config/service.yaml", "", &[], "service.yaml"),
    (
        "webhook-config/mutating-webhook-configuration.yaml",
        PUT_CA,
        &[],
        "mutating-webhook-configuration.yaml",
    ),
    (
        "webhook-config/ha/mutating-webhook-configuration.yaml",
        PUT_CA,
        &["--ha"],
        "mutating-webhook-configuration.yaml",
    ),
    ("webhook-config/probe/rbac.yaml", "", &[], "probe/rbac.yaml"),
    (
        "webhook-config/probe/dry-run-only.yaml",
        "",
        &[],
        "probe/dry-run-only.yaml",
    ),
    (
        "webhook-config/probe/grant/create-pods.yaml",
        "",
        &[],
        "probe/create-pods.yaml",
    ),
    ("webhook-config/probe/deployment.yaml", "", &[], "probe/deployment.yaml"),
    ("cni-config/namespace.yaml", "", &[], "namespace.yaml"),
    ("cni-config/rbac.yaml", "", &[], "rbac.yaml"),
    ("cni-config/node-restriction.yaml", "", &[], "node-restriction.yaml"),
    ("cni-config/daemonset.yaml", "", &[], "daemonset.yaml"),
];

#[test]
fn plain_manifests_are_what_the_charts_render() {
    for (path, purpose, arguments, template) in FILES {
        let (chart, common) = match path.starts_with("cni-config") {
            true => ("outrigger-cni", &CNI[..]),
            false => ("outrigger", &WEBHOOK[..]),
        };
        let only = format!("--show-only=templates/{template}");
        let all: Vec<_> = common.iter().chain(arguments).copied().chain([only.as_str()]).collect();
        let source = format!("---\n# Source: {chart}/templates/{template}\n");
        let rendered = printed(&all)
            .replace(&source, "---\n")
            .replace(CA_BUNDLE.1, CA_BUNDLE.0);
        let objects = rendered.strip_prefix("---\n").expect("it begins with a separator");
        let origin = format!("# Made of charts/{chart}/templates/{template} by `make manifests`.\n");
        is_or_becomes(path, &format!("{origin}{purpose}{objects}"));
    }
}
