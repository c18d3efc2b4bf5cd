//! Linkerd's configuration, and the injectors that there are.

use super::admission::COMPONENTS;
use super::{label, name, namespace, place};
use crate::cli::check::code::Code;
use crate::cli::check::finding::{Finding, count};
use crate::config::annotation::CONTROL_PLANE_COMPONENT;
use crate::pod::{image, list, text};
use crate::webhook::options::{REGISTRATION, SECRET, TLS_FOLDER};
use serde_json::{Map, Value};

/// The name of the Deployment, Linkerd's and ours.
const DEPLOYMENT: &str = "linkerd-proxy-injector";

/// A Deployment whose pods answer as the injector.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::check) struct Injector<'a>(&'a Value);

impl<'a> Injector<'a> {
    /// Reads a Deployment; nothing where it is something else.
    pub(in crate::cli::check) fn read(deployment: &'a Value) -> Option<Self> {
        let component = label(deployment, CONTROL_PLANE_COMPONENT);
        let labelled = component.is_some_and(|component| COMPONENTS.contains(&component));
        (labelled || name(deployment) == DEPLOYMENT).then_some(Self(deployment))
    }

    /// Whether it runs `outrigger webhook`. Linkerd's runs `proxy-injector` of its controller image.
    pub(in crate::cli::check) fn is_ours(self) -> bool {
        let containers = || self.containers();
        containers().any(|container| list(container, "args").next().is_some_and(|it| it == "webhook"))
            || containers()
                .filter_map(|container| text(container, "image"))
                .any(|reference| image(reference).repository.ends_with("outrigger"))
    }

    /// `namespace/name`
    pub(super) fn place(self) -> String {
        place(self.0)
    }

    /// Whether a Service with this selector, in this namespace, sends to its pods.
    pub(super) fn is_behind(self, service_namespace: &str, selector: &Map<String, Value>) -> bool {
        let labels = self.0.pointer("/spec/template/metadata/labels");
        let has = |(key, value): (&String, &Value)| labels.and_then(|labels| labels.get(key)) == Some(value);
        namespace(self.0) == service_namespace && selector.iter().all(has)
    }

    /// Whether a Service with Linkerd's selector sends to the pods of both.
    fn shares_service(self, other: Self) -> bool {
        let of = |injector: Self| (namespace(injector.0), label(injector.0, CONTROL_PLANE_COMPONENT));
        of(self) == of(other)
    }

    /// The Secret of its certificate: that which its replicas look after, else that which is mounted where they serve from.
    pub(in crate::cli::check) fn secret(self) -> Option<&'a str> {
        if self.manages_certificate() {
            return Some(self.flag("--certificate-secret").unwrap_or(SECRET));
        }
        let folder = self.flag("--tls-dir").unwrap_or(TLS_FOLDER);
        let mounts = || self.containers().flat_map(|container| list(container, "volumeMounts"));
        let mount = mounts().find(|mount| text(mount, "mountPath").is_some_and(|path| path == folder))?;
        let spec = self.0.pointer("/spec/template/spec")?;
        let volume = list(spec, "volumes").find(|volume| text(volume, "name") == text(mount, "name"))?;
        volume.pointer("/secret/secretName")?.as_str()
    }

    /// Whether its replicas look after the certificate themselves.
    pub(in crate::cli::check) fn manages_certificate(self) -> bool {
        self.arguments().any(|argument| argument == "--manage-certificate")
    }

    /// The name of the registration that it takes for its own.
    pub(in crate::cli::check) fn registration(self) -> &'a str {
        self.flag("--webhook-configuration").unwrap_or(REGISTRATION)
    }

    /// Namespace and name.
    pub(in crate::cli::check) fn names(self) -> (&'a str, &'a str) {
        (namespace(self.0), name(self.0))
    }

    /// The value of a flag: after its `=`, or the next argument.
    fn flag(self, flag: &str) -> Option<&'a str> {
        let mut arguments = self.arguments();
        while let Some(argument) = arguments.next() {
            match argument.strip_prefix(flag) {
                Some("") => return arguments.next(),
                Some(rest) if rest.starts_with('=') => return rest.strip_prefix('='),
                Some(_) | None => {}
            }
        }
        None
    }

    fn arguments(self) -> impl Iterator<Item = &'a str> + use<'a> {
        let arguments = self.containers().flat_map(|container| list(container, "args"));
        arguments.filter_map(Value::as_str)
    }

    /// The tag of its image; nothing where it has none, or a digest alone.
    pub(super) fn version(self) -> Option<&'a str> {
        image(self.containers().find_map(|container| text(container, "image"))?).tag
    }

    /// The account that its pods run as.
    pub(in crate::cli::check) fn account(self) -> Option<(&'a str, &'a str)> {
        let account = self.0.pointer("/spec/template/spec/serviceAccountName")?.as_str()?;
        Some((namespace(self.0), account))
    }

    fn ready(self) -> u64 {
        self.0
            .pointer("/status/readyReplicas")
            .and_then(Value::as_u64)
            .unwrap_or_default()
    }

    fn wanted(self) -> u64 {
        self.0.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1)
    }

    fn containers(self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.0.pointer("/spec/template/spec").unwrap_or(&Value::Null);
        list(spec, "containers")
    }
}

/// Judges the injectors among `deployments`; `version` is this program's.
pub(in crate::cli::check) fn judge(deployments: &[Value], version: &str) -> Vec<Finding> {
    let injectors: Vec<_> = deployments.iter().filter_map(Injector::read).collect();
    let (ours, linkerds): (Vec<_>, Vec<_>) = injectors.iter().copied().partition(|injector| injector.is_ours());
    let mut findings = Vec::new();
    if ours
        .iter()
        .any(|it| linkerds.iter().any(|other| it.shares_service(*other)))
    {
        let titles = injectors.iter().map(|it| {
            let whose = if it.is_ours() { "ours" } else { "Linkerd's" };
            format!("{}: {whose}", place(it.0))
        });
        let message = "Linkerd's injector and ours are both there";
        findings.push(Finding::failed(Code::TwoInjectors, message).with(titles));
    }
    if ours.len() > 1 {
        let message = format!("{} run outrigger webhook", count(ours.len(), "Deployment"));
        findings.push(Finding::warning(Code::InstalledTwice, message).with(ours.iter().map(|it| it.place())));
    }
    if let Some(&injector) = ours.first() {
        findings.extend([running(injector), same_version(injector, version)]);
    } else {
        let beside = match linkerds.is_empty() {
            true => "",
            false => "; Linkerd's own injector is there",
        };
        let message = format!("no Deployment runs outrigger webhook{beside}");
        findings.push(Finding::failed(Code::InjectorMissing, message));
    }
    findings
}

fn running(injector: Injector<'_>) -> Finding {
    let (ready, wanted) = (injector.ready(), injector.wanted());
    let message = format!(
        "Deployment {}: {ready} of {wanted} replicas are ready",
        place(injector.0)
    );
    match (ready < wanted, ready) {
        (_, 0) => Finding::failed(Code::InjectorNotReady, message),
        (true, _) => Finding::warning(Code::InjectorNotReady, message),
        (false, _) => Finding::ok(Code::InjectorRunning, message),
    }
}

fn same_version(injector: Injector<'_>, version: &str) -> Finding {
    match injector.version() {
        Some(tag) if tag.trim_start_matches('v') == version => Finding::ok(
            Code::InjectorVersion,
            format!("the webhook is of this version, {version}"),
        ),
        Some(tag) => {
            let message = format!("the webhook's image is {tag}, this outrigger is {version}");
            Finding::warning(Code::InjectorVersionSkew, message)
        }
        None => {
            let message = "the webhook's image has no tag that would tell its version";
            Finding::unknown(Code::InjectorVersion, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::slice;

    fn deployment(name: &str, image: &str, command: &str, ready: u64) -> Value {
        json!({
            "metadata": {"namespace": "linkerd", "name": name, "labels": {CONTROL_PLANE_COMPONENT: "proxy-injector"}},
            "spec": {"replicas": 2, "template": {"spec": {
                "serviceAccountName": "injector", "containers": [{"image": image, "args": [command]}]}}},
            "status": {"readyReplicas": ready},
        })
    }

    fn codes(deployments: &[Value]) -> Vec<(&'static str, &'static str)> {
        let findings = judge(deployments, "0.1.0");
        findings.iter().map(|it| (it.code.word(), it.status.word())).collect()
    }

    #[test]
    fn our_injector_is_told_from_linkerds() {
        let ours = deployment("a", "localhost:5000/outrigger:0.1.0", "webhook", 2);
        let linkerds = deployment("b", "cr.l5d.io/linkerd/controller:edge-26.1.1", "proxy-injector", 1);
        assert_eq!(Injector::read(&ours).unwrap().account(), Some(("linkerd", "injector")));
        let well = [("injector_running", "ok"), ("injector_version", "ok")];
        assert_eq!(codes(slice::from_ref(&ours)), well);
        assert_eq!(codes(slice::from_ref(&linkerds)), [("injector_missing", "failed")]);
        let second = deployment("c", "localhost:5000/outrigger:0.1.0", "webhook", 2);
        assert_eq!(codes(&[ours.clone(), second])[0], ("installed_twice", "warning"));
        assert_eq!(codes(&[ours, linkerds])[0], ("two_injectors", "failed"));
        assert!(Injector::read(&json!({"metadata": {"name": "web"}})).is_none());
    }

    #[test]
    fn the_secret_is_the_one_that_its_flags_and_volumes_name() {
        let injector = |arguments: Value| {
            json!({"metadata": {"name": DEPLOYMENT}, "spec": {"template": {"spec": {
                "containers": [{"args": arguments, "volumeMounts": [
                    {"name": "pair", "mountPath": "/var/run/linkerd/tls"}, {"name": "other", "mountPath": "/tls"}]}],
                "volumes": [{"name": "other", "secret": {"secretName": "o"}}, {"name": "pair", "secret": {"secretName": "p"}}],
            }}}})
        };
        for (arguments, secret) in [
            (json!(["webhook"]), "p"),
            (json!(["webhook", "--tls-dir", "/tls"]), "o"),
            (json!(["webhook", "--manage-certificate"]), SECRET),
            (
                json!(["webhook", "--manage-certificate", "--certificate-secret=s"]),
                "s",
            ),
        ] {
            let deployment = injector(arguments.clone());
            let injector = Injector::read(&deployment).unwrap();
            assert_eq!(injector.secret(), Some(secret), "{arguments}");
            assert_eq!(injector.registration(), REGISTRATION);
        }
        let named = injector(json!(["webhook", "--webhook-configuration=ours"]));
        assert_eq!(Injector::read(&named).unwrap().registration(), "ours");
    }

    #[test]
    fn replicas_and_versions_are_compared() {
        let ours = |image: &str, ready| codes(&[deployment("a", image, "webhook", ready)]);
        assert_eq!(ours("outrigger:0.1.0", 1)[0], ("injector_not_ready", "warning"));
        assert_eq!(ours("outrigger:0.1.0", 0)[0], ("injector_not_ready", "failed"));
        assert_eq!(ours("outrigger:v0.1.0", 2)[1], ("injector_version", "ok"));
        assert_eq!(
            ours("outrigger:0.2.0@sha256:ab", 2)[1],
            ("injector_version_skew", "warning")
        );
        for untagged in ["localhost:5000/outrigger", "localhost:5000/outrigger@sha256:ab"] {
            assert_eq!(ours(untagged, 2)[1], ("injector_version", "unknown"), "{untagged}");
        }
    }
}
