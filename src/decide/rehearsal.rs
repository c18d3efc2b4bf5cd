//! The pods by whose dry-run creation a probe finds out what no API tells.
//!
//! They have the installation's real containers, images and names, as a pod of the namespace would get them. They bear a
//! label that Linkerd's injector and ours pass over, so that nobody injects into what is injected already.

use super::eligibility::asks_for_injection;
use super::{Namespace, settings};
use crate::config::annotation::{CONTROL_PLANE_COMPONENT, INJECT};
use crate::config::{Demand, Figures, Variant};
use crate::inject::patch::Patch;
use crate::inject::{self, Metadata, Prepared, Redirection, Shape};
use crate::pod::Pod;
use crate::policy::Release;
use serde_json::{Value, json};

/// How the names of the pods begin; the API server adds five characters.
pub const NAME: &str = "outrigger-probe-";

/// What they say of themselves.
pub const COMPONENT: &str = "outrigger-probe";

/// A plain pod, and how it is injected.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    /// A pod that asks for nothing, as `restricted` wants it.
    pub plain: Value,
    /// The patch that gives it `linkerd-init`; why there is none.
    pub init_container: Result<Patch, String>,
    /// The patch that gives it the validator; why there is none.
    pub cni: Result<Patch, String>,
}

/// Whether pods of `namespace` are injected unless they say otherwise.
pub fn is_meshed(namespace: &Namespace<'_>) -> bool {
    namespace.name != "kube-system" && asks_for_injection(namespace)
}

/// The pods for `namespace`, on a server of `release`; `with_figures` gives every container requests and limits, where a
/// quota demands them.
///
/// # Errors
/// Where the configuration makes no proxy at all.
pub fn rehearse(
    installation: &Prepared,
    namespace: &Namespace<'_>,
    release: Release,
    with_figures: bool,
) -> Result<Rehearsal, String> {
    if let Some(fault) = installation.fault() {
        return Err(fault.to_string());
    }
    let values = &installation.values;
    let plain = plain(&format!("{}:{}", values.proxy.image.name, values.proxy_version()));
    let pod = Pod::new(&plain);
    let mut settings = settings(installation, namespace, &pod, release < Release::NATIVE_SIDECARS);
    if with_figures {
        let figures = Figures {
            cpu: Demand::Limit,
            memory: Demand::Limit,
        };
        settings = settings.with_variant(Variant {
            figures,
            ..Variant::default()
        });
    }
    let made = installation.made(settings);
    let config = made.config();
    if let Some(problem) = config.fatal_problem() {
        return Err(problem.to_string());
    }
    inject::check(config).map_err(|error| error.to_string())?;
    let patch = |redirection| {
        let shape = Shape::new(installation, &made, &pod, redirection, false).map_err(|error| error.to_string())?;
        let metadata = Metadata::injected(installation, config, None, namespace.name);
        Ok(shape.into_patch(&metadata.with_redirection(redirection), &plain, ""))
    };
    let (init_container, cni) = (patch(Redirection::InitContainer), patch(Redirection::Cni));
    Ok(Rehearsal {
        plain,
        init_container,
        cni,
    })
}

/// A pod that no policy should mind.
fn plain(image: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": NAME,
            "labels": {CONTROL_PLANE_COMPONENT: COMPONENT, "app.kubernetes.io/name": COMPONENT},
            "annotations": {INJECT: "disabled"},
        },
        "spec": {
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "probe",
                "image": image,
                // The figures that injected containers get where a quota demands some.
                "resources": {
                    "requests": {"cpu": "100m", "memory": "20Mi"},
                    "limits": {"cpu": "1", "memory": "250Mi"},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "capabilities": {"drop": ["ALL"]},
                    "readOnlyRootFilesystem": true,
                },
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Installation;
    use crate::policy::pod_security::{Level, Policy, Server, Version, evaluate};
    use serde_json::Map;

    fn map(entries: &[(&str, &str)]) -> Map<String, Value> {
        entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
            .collect()
    }

    #[expect(clippy::unwrap_in_result, reason = "only what is rehearsed may fail")]
    fn rehearsed(values: &str, annotations: &[(&str, &str)], with_figures: bool) -> Result<Rehearsal, String> {
        let installation = Prepared::from(Installation::parse(&[values], Some("anchors"), "linkerd").unwrap());
        let namespace = Namespace {
            name: "shop",
            labels: None,
            annotations: Some(&map(annotations)),
        };
        rehearse(&installation, &namespace, Release::NEWEST, with_figures)
    }

    fn injected(rehearsal: &Rehearsal, patch: &Result<Patch, String>) -> Value {
        patch.as_ref().unwrap().applied_to(&rehearsal.plain).unwrap()
    }

    #[test]
    fn the_pods_differ_in_what_policies_look_at() {
        let version = [("config.linkerd.io/proxy-version", "v7")];
        let rehearsal = rehearsed("linkerdVersion: v1", &version, false).unwrap();
        let (init, cni) = (
            injected(&rehearsal, &rehearsal.init_container),
            injected(&rehearsal, &rehearsal.cni),
        );
        let judged = |pod: &Value, level| {
            let policy = Policy {
                level,
                version: Version::Latest,
            };
            evaluate(policy, Server::from(Release::NEWEST), &Pod::new(pod)).allowed
        };
        assert!(judged(&rehearsal.plain, Level::Restricted) && judged(&cni, Level::Restricted));
        assert!(judged(&init, Level::Privileged) && !judged(&init, Level::Baseline));
        for (pod, name) in [(&init, "linkerd-init"), (&cni, "linkerd-network-validator")] {
            assert_eq!(pod["spec"]["initContainers"][0]["name"], name);
            assert!(pod.to_string().contains("proxy:v7"), "the namespace's version: {pod}");
            assert_eq!(pod["metadata"]["labels"][CONTROL_PLANE_COMPONENT], COMPONENT);
            assert_eq!(pod["metadata"]["labels"]["linkerd.io/workload-ns"], "shop");
        }
    }

    #[test]
    fn figures_are_filled_in_where_a_quota_demands_them() {
        let limits = |with_figures| {
            let rehearsal = rehearsed("linkerdVersion: v1", &[], with_figures).unwrap();
            let pod = injected(&rehearsal, &rehearsal.cni);
            pod["spec"]["initContainers"][0]["resources"]["limits"].clone()
        };
        assert_ne!(limits(true)["cpu"], Value::Null);
        let error = rehearsed("{}", &[], false).unwrap_err();
        assert!(
            error.contains("linkerdVersion and proxy.image.version are both missing"),
            "{error}"
        );
    }

    #[test]
    fn namespaces_are_meshed_as_pods_would_be() {
        let meshed = |name, annotations: &[(&str, &str)], labels: &[(&str, &str)]| {
            is_meshed(&Namespace {
                name,
                labels: Some(&map(labels)),
                annotations: Some(&map(annotations)),
            })
        };
        let inject = |value| [(INJECT, value)];
        assert!(meshed("shop", &inject("enabled"), &[]) && meshed("shop", &[], &inject("ingress")));
        assert!(!meshed("shop", &inject("disabled"), &inject("enabled")));
        assert!(!meshed("shop", &[], &[]) && !meshed("kube-system", &inject("enabled"), &[]));
    }
}
