//! The ways to render the charts that the tests go through.

/// Options of one rendering.
pub(crate) struct Options {
    pub(crate) chart: &'static str,
    pub(crate) namespace: &'static str,
    /// Minor release of Kubernetes.
    pub(crate) minor: u32,
    /// As helm takes them.
    pub(crate) helm: &'static [&'static str],
    /// Flags of `outrigger install` or `install-cni` that mean the same; with none it gets those of helm.
    pub(crate) ours: &'static [&'static str],
}

impl Options {
    /// What `outrigger` is started with.
    pub(crate) fn command(&self) -> Vec<String> {
        let command = if self.chart == "outrigger" {
            "install"
        } else {
            "install-cni"
        };
        let release = format!("1.{}", self.minor);
        let own = if self.ours.is_empty() { self.helm } else { self.ours };
        let all = [command, "--namespace", self.namespace, "--server-version", &release];
        all.iter().chain(own).map(|&argument| argument.to_owned()).collect()
    }
}

const fn webhook(minor: u32, helm: &'static [&'static str], ours: &'static [&'static str]) -> Options {
    Options {
        chart: "outrigger",
        namespace: "linkerd",
        minor,
        helm,
        ours,
    }
}

const fn cni(minor: u32, helm: &'static [&'static str], ours: &'static [&'static str]) -> Options {
    Options {
        chart: "outrigger-cni",
        namespace: "linkerd-cni",
        minor,
        helm,
        ours,
    }
}

/// Every option of the charts occurs in one of these.
pub(crate) const ALL: [Options; 25] = [
    webhook(36, &[], &[]),
    webhook(29, &[], &[]),
    webhook(23, &[], &[]),
    webhook(36, &["-f", "outrigger/values-ha.yaml"], &["--ha"]),
    webhook(
        27,
        &["-f", "outrigger/values-ha.yaml", "--set", "cniEnabled=true"],
        &["--ha", "--no-init-container"],
    ),
    webhook(36, &["--set", "certificates.mode=cert-manager"], &[]),
    webhook(
        36,
        &[
            "--set",
            "certificates.mode=cert-manager,certificates.certManager.issuer.name=corp,certificates.certManager.issuer.kind=ClusterIssuer",
        ],
        &[],
    ),
    webhook(
        36,
        &[
            "--set",
            "certificates.mode=secret,certificates.caBundle=Q0E=,certificates.secretName=pair",
        ],
        &[],
    ),
    webhook(
        36,
        &["--set", "probe.enabled=true", "--set", "probe.namespaces={shop,bank}"],
        &[],
    ),
    webhook(29, &["--set", "probe.enabled=true,probe.namespaces={shop,bank}"], &[]),
    webhook(
        36,
        &[
            "--set",
            "monitoring.podMonitor.enabled=true,monitoring.serviceMonitor.enabled=true,monitoring.interval=30s,monitoring.labels.release=prometheus",
        ],
        &[],
    ),
    webhook(
        36,
        &[
            "--set",
            "monitoring.prometheusRule.enabled=true,monitoring.dashboards.enabled=true",
        ],
        &[],
    ),
    webhook(
        24,
        &[
            "--set",
            "autoscaling.enabled=true,networkPolicy.enabled=true,networkPolicy.apiServerPorts={8443},webhook.selection=opt-in",
        ],
        &[],
    ),
    webhook(36, &["-f", "../tests/charts/everything.yaml"], &[]),
    webhook(
        36,
        &[
            "--set",
            "egress.enabled=true,egress.gateway.enabled=true,egress.gateway.clusterNetworks={10.96.0.0/12}",
        ],
        &[],
    ),
    webhook(
        24,
        &[
            "--set",
            "egress.enabled=true,egress.gateway.enabled=true,egress.gateway.clusterNetworks={10.96.0.0/12},\
             egress.gateway.networkPolicy=false,podDisruptionBudget.enabled=false",
        ],
        &[],
    ),
    webhook(
        36,
        &["--set", "name=linkerd-outrigger,certificates.clients.name=api-servers"],
        &[],
    ),
    webhook(
        36,
        &["--set", "name=linkerd-outrigger,certificates.mode=cert-manager"],
        &[],
    ),
    Options {
        namespace: "mesh",
        ..webhook(
            24,
            &[
                "-f",
                "outrigger/values-ha.yaml",
                "--set",
                "name=linkerd-outrigger,certificates.mode=secret,monitoring.podMonitor.enabled=true,networkPolicy.enabled=true",
            ],
            &[
                "--ha",
                "--set",
                "name=linkerd-outrigger,certificates.mode=secret,monitoring.podMonitor.enabled=true,networkPolicy.enabled=true",
            ],
        )
    },
    Options {
        namespace: "mesh",
        ..webhook(
            24,
            &[
                "--set",
                "cniEnabled=true,podSecurityPolicy.controlPlaneAccounts=null,podDisruptionBudget.enabled=false",
            ],
            &[],
        )
    },
    cni(36, &[], &[]),
    cni(29, &[], &[]),
    cni(23, &["--set", "repair=false,maxUnavailable=1"], &[]),
    cni(
        36,
        &["--set", "createNamespace=true,linkerdNamespace=mesh"],
        &["--create-namespace", "-L", "mesh"],
    ),
    Options {
        namespace: "cni",
        ..cni(36, &["-f", "../tests/charts/cni-everything.yaml"], &[])
    },
];
