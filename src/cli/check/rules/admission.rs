//! Mutating webhooks, as the API server has them registered.

use super::selector::{Requirement, Selector};
use super::{label, name};
use crate::config::annotation::CONTROL_PLANE_COMPONENT;
use crate::pod::{integer, list, text};
use serde_json::Value;

/// The entries by which pods come to an injector: Linkerd's or ours in its place, and ours beside it.
const INJECTORS: [&str; 2] = ["linkerd-proxy-injector.linkerd.io", "linkerd-outrigger.linkerd.io"];

/// What the labels of an injector's objects say: Linkerd's or ours in its place, and ours beside it.
pub(super) const COMPONENTS: [&str; 2] = ["proxy-injector", "outrigger"];

/// How the entry begins that answers what nobody waits for: Services, pods that are not injected, dry runs of workloads.
const BEST_EFFORT: &str = "best-effort.";

/// One entry of a `MutatingWebhookConfiguration`.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::check) struct Webhook<'a> {
    configuration: &'a Value,
    entry: &'a Value,
}

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli::check) enum Target<'a> {
    /// Behind a Service.
    Service {
        /// Its namespace.
        namespace: &'a str,
        /// Its name.
        name: &'a str,
        /// Its port.
        port: i64,
    },
    /// At a URL.
    Url(&'a str),
}

impl<'a> Webhook<'a> {
    /// Every entry of `configurations`, in the order in which the API server calls them: by the name of the
    /// configuration (`k8s.io/apiserver/pkg/admission/configuration`, `mutatingWebhookConfigurationManager`).
    pub(in crate::cli::check) fn all(configurations: &'a [Value]) -> Vec<Self> {
        let mut sorted: Vec<_> = configurations.iter().collect();
        sorted.sort_by_key(|configuration| name(configuration));
        let entries =
            |configuration: &'a Value| list(configuration, "webhooks").map(move |entry| Self { configuration, entry });
        sorted.into_iter().flat_map(entries).collect()
    }

    /// Whether it is an injector's own entry for pods, ours or Linkerd's, and may be asked about any.
    pub(in crate::cli::check) fn is_injector(&self) -> bool {
        self.is_of_injector() && !self.selects_nothing()
    }

    /// The same, be there pods or not about which it is asked.
    pub(in crate::cli::check) fn is_of_injector(&self) -> bool {
        let component = label(self.configuration, CONTROL_PLANE_COMPONENT);
        let labelled = component.is_some_and(|component| COMPONENTS.contains(&component));
        INJECTORS.contains(&self.name()) || labelled && !self.is_best_effort() && self.sees_pods()
    }

    /// Whether no namespace meets its selector: so is Linkerd's left where ours has taken over.
    pub(in crate::cli::check) fn selects_nothing(&self) -> bool {
        self.namespace_selector().matches_no_namespace()
    }

    /// Whether its name says that it is ours, beside Linkerd's.
    pub(super) fn is_named_for_us(&self) -> bool {
        INJECTORS.last() == Some(&self.name())
    }

    /// Whether it is the entry for what nobody waits for.
    pub(in crate::cli::check) fn is_best_effort(&self) -> bool {
        let rest = self.name().strip_prefix(BEST_EFFORT);
        rest.is_some_and(|rest| INJECTORS.contains(&rest))
    }

    /// Whether it is called for Services alone.
    pub(in crate::cli::check) fn sees_services_alone(&self) -> bool {
        let resources = list(self.entry, "rules").flat_map(|rule| list(rule, "resources"));
        resources.into_iter().all(|resource| resource == "services")
    }

    /// Its name.
    pub(in crate::cli::check) fn name(&self) -> &'a str {
        text(self.entry, "name").unwrap_or_default()
    }

    /// An annotation of its configuration.
    pub(super) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.configuration.pointer("/metadata/annotations")?.get(key)?.as_str()
    }

    /// The configuration that it is of.
    pub(in crate::cli::check) fn configuration(&self) -> &'a str {
        name(self.configuration)
    }

    /// When that was created, RFC 3339.
    pub(in crate::cli::check) fn created(&self) -> Option<&'a str> {
        self.configuration.pointer("/metadata/creationTimestamp")?.as_str()
    }

    /// Whether a field stands in the entry.
    pub(in crate::cli::check) fn has(&self, key: &str) -> bool {
        self.entry.get(key).is_some_and(|value| !value.is_null())
    }

    /// A field of the entry that is a text.
    pub(in crate::cli::check) fn text(&self, key: &str) -> Option<&'a str> {
        text(self.entry, key)
    }

    /// Whether the API server refuses what it cannot ask about: the default.
    pub(in crate::cli::check) fn fails_closed(&self) -> bool {
        self.text("failurePolicy") != Some("Ignore")
    }

    /// Whether a rule covers the creation of pods.
    pub(in crate::cli::check) fn sees_pods(&self) -> bool {
        let holds = |rule: &Value, key: &str, wanted: &[&str]| {
            list(rule, key)
                .filter_map(Value::as_str)
                .any(|value| wanted.contains(&value))
        };
        list(self.entry, "rules").any(|rule| {
            holds(rule, "operations", &["CREATE", "*"])
                && holds(rule, "apiGroups", &["", "*"])
                && holds(rule, "resources", &["pods", "*", "*/*"])
                && text(rule, "scope").is_none_or(|scope| scope != "Cluster")
        })
    }

    /// Its selector of namespaces.
    pub(in crate::cli::check) fn namespace_selector(&self) -> Selector<'a> {
        Selector::new(self.entry.get("namespaceSelector").unwrap_or(&Value::Null))
    }

    /// The requirement that keeps it from being asked about a pod with these labels; nothing where it is asked.
    pub(in crate::cli::check) fn keeps_out(&self, namespace_labels: &Value, labels: &Value) -> Option<Requirement<'a>> {
        let objects = Selector::new(self.entry.get("objectSelector").unwrap_or(&Value::Null));
        let namespaces = self.namespace_selector().unmet(namespace_labels);
        namespaces.or_else(|| objects.unmet(labels))
    }

    /// Where it is; nothing where the entry says nothing of it.
    pub(in crate::cli::check) fn target(&self) -> Option<Target<'a>> {
        let client = self.entry.get("clientConfig")?;
        if let Some(url) = text(client, "url") {
            return Some(Target::Url(url));
        }
        let service = client.get("service")?;
        Some(Target::Service {
            namespace: text(service, "namespace")?,
            name: text(service, "name")?,
            // The API's default.
            port: integer(service, "port").unwrap_or(443),
        })
    }

    /// Base64 of the certificates in PEM that the API server trusts for it.
    pub(in crate::cli::check) fn ca_bundle(&self) -> Option<&'a str> {
        text(self.entry.get("clientConfig")?, "caBundle").filter(|bundle| !bundle.is_empty())
    }
}

impl Target<'_> {
    /// The name that the certificate must have.
    pub(in crate::cli::check) fn host(&self) -> Option<String> {
        match self {
            Self::Service { namespace, name, .. } => Some(format!("{name}.{namespace}.svc")),
            Self::Url(_) => self.authority().map(|(host, _)| host),
        }
    }

    /// Host and port of a URL.
    pub(in crate::cli::check) fn authority(&self) -> Option<(String, u16)> {
        let Self::Url(url) = self else {
            return None;
        };
        let rest = url.strip_prefix("https://")?;
        let authority = rest.split(['/', '?', '#']).next()?;
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
            _ => (authority, 443),
        };
        Some((host.trim_matches(['[', ']']).to_owned(), port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_are_in_the_order_in_which_they_are_called() {
        let configuration = |name: &str, entries: &[&str]| {
            let entries: Vec<_> = entries.iter().map(|name| json!({"name": name})).collect();
            json!({"metadata": {"name": name}, "webhooks": entries})
        };
        let all = [configuration("z", &["a"]), configuration("b", &["y", "x"])];
        let names: Vec<_> = Webhook::all(&all).iter().map(Webhook::name).collect();
        assert_eq!(names, ["y", "x", "a"]);
    }

    #[test]
    fn a_target_has_a_name_and_maybe_an_address() {
        let client = |client: Value| json!([{"webhooks": [{"clientConfig": client}]}]);
        let service = client(json!({"service": {"namespace": "linkerd", "name": "injector"}}));
        let service = Webhook::all(service.as_array().unwrap())[0].target().unwrap().host();
        assert_eq!(service.as_deref(), Some("injector.linkerd.svc"));
        for (url, host, port) in [
            ("https://127.0.0.1:8443/", "127.0.0.1", 8443),
            ("https://injector.example.com/x?y", "injector.example.com", 443),
            ("https://[::1]:1", "::1", 1),
            ("https://[::1]", "::1", 443),
        ] {
            assert_eq!(Target::Url(url).authority(), Some((host.to_owned(), port)), "{url}");
        }
        assert_eq!(Target::Url("http://x").authority(), None);
        assert_eq!(Target::Url("https://x:port/").authority(), None);
    }
}
