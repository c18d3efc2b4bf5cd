//! The fence: what follows from closing the ways around the proxy.

use super::Config;
use super::annotation::{EGRESS_DNS, EGRESS_FENCE};
use super::effective::Overridden;

const SKIPPED: &str = "proxyInit.ignoreOutboundPorts";

impl Config {
    /// With a fence, the pod says so itself, for the CNI plugin reads the pod alone; and only its author's list of skipped
    /// ports counts, since each is a way around the proxy that somebody wanted. The installation's ports go to the proxy.
    pub(super) fn fence(&mut self) {
        let own = &self.values.outrigger;
        if !own.egress_fence {
            return;
        }
        let said = [
            ("outrigger.egressFence", EGRESS_FENCE, "enabled".to_owned()),
            ("outrigger.egressDNS", EGRESS_DNS, own.egress_dns.clone()),
        ];
        for (values_key, key, value) in said {
            if self.set_by(values_key).is_none() && !value.is_empty() {
                self.inherited.push((key.to_owned(), value));
            }
        }
        if self.set_by(SKIPPED).is_some() || self.values.proxy_init.ignore_outbound_ports.is_empty() {
            return;
        }
        self.changed().proxy_init.ignore_outbound_ports.clear();
        let asked = self.set_by("outrigger.egressFence").cloned();
        self.overridden.extend(asked.map(|asked| Overridden {
            values_key: SKIPPED,
            ..asked
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Installation, Layers, NamespaceLayer, Origin};
    use crate::pod::Pod;
    use serde_json::{Value, json};

    fn config(values: &str, namespace: &Value, pod: &Value) -> (Config, Origin) {
        let installation = Installation::parse(&[values], None, "linkerd").unwrap();
        let object = json!({"metadata": {"annotations": pod}});
        let layers = Layers {
            namespace: Some(NamespaceLayer {
                annotations: namespace.as_object(),
                labels: None,
            }),
            pod: &Pod::new(&object),
            workload: None,
        };
        let config = Config::effective(&installation, &layers);
        let origin = config.origin(&installation, "outrigger.egressFence");
        (config, origin)
    }

    fn skipped(config: &Config) -> &str {
        &config.values.proxy_init.ignore_outbound_ports
    }

    #[test]
    fn only_the_list_of_the_pods_author_counts() {
        let (fence, list) = (
            json!({EGRESS_FENCE: "enabled"}),
            "config.linkerd.io/skip-outbound-ports",
        );
        let (none, _) = config("", &json!({}), &json!({}));
        assert_eq!((skipped(&none), none.inherited.len()), ("4567,4568", 0));
        let (by_namespace, origin) = config("", &fence, &json!({}));
        assert_eq!((skipped(&by_namespace), origin), ("", Origin::Namespace));
        assert_eq!(by_namespace.set_by(SKIPPED).unwrap().key, EGRESS_FENCE);
        assert_eq!(
            by_namespace.inherited,
            [(EGRESS_FENCE.to_owned(), "enabled".to_owned())]
        );
        let (listed, _) = config("", &json!({list: "25"}), &fence);
        assert_eq!(skipped(&listed), "25");
        let (off, origin) = config("", &fence, &json!({EGRESS_FENCE: "disabled"}));
        assert_eq!((skipped(&off), origin), ("4567,4568", Origin::Pod));
    }

    #[test]
    fn what_the_values_say_is_written_on_the_pod() {
        let values = "outrigger: {egressFence: true, egressDNS: 10.96.0.10}";
        let (fenced, origin) = config(values, &json!({}), &json!({}));
        assert_eq!((skipped(&fenced), origin), ("", Origin::Values));
        let said = [(EGRESS_FENCE, "enabled"), (EGRESS_DNS, "10.96.0.10")];
        assert_eq!(
            fenced.inherited,
            said.map(|(key, value)| (key.to_owned(), value.to_owned()))
        );
        let (own, _) = config(values, &json!({}), &json!({EGRESS_DNS: "10.0.0.9"}));
        assert_eq!(own.values.outrigger.egress_dns, "10.0.0.9");
    }

    #[test]
    fn a_value_that_cannot_be_read_denies_the_pod() {
        for (values, pod) in [
            ("", json!({EGRESS_FENCE: "yes"})),
            ("", json!({EGRESS_DNS: "kube-dns"})),
            ("outrigger: {egressDNS: kube-dns}", json!({})),
        ] {
            let (config, _) = config(values, &json!({}), &pod);
            assert!(config.fatal_problem().is_some(), "{values} {pod}");
        }
    }
}
