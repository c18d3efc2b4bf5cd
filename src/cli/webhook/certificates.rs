//! Flags about certificates: whose the webhook shows, and whose it asks for.

use crate::cli::names::is_subdomain;
use crate::webhook::options::{CertificateSource, ClientFiles, Options, REGISTRATION, SECRET, SERVICE};
use anyhow::{Result, ensure};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Where the webhook's certificate comes from, and what clients must show.
#[derive(Args, Clone, Debug)]
pub(super) struct Certificates {
    /// Folder of tls.crt and tls.key [default: /var/run/linkerd/tls; with --standalone a certificate is made]
    #[arg(long, value_name = "DIR")]
    tls_dir: Option<PathBuf>,
    /// Have the replicas make and renew the certificate themselves, keep it in a Secret, and have API servers trust it
    #[arg(long, conflicts_with_all = ["tls_dir", "standalone"])]
    manage_certificate: bool,
    /// With --manage-certificate, the Secret in the control plane's namespace [default: linkerd-proxy-injector-k8s-tls]
    #[arg(long, value_name = "NAME", requires = "manage_certificate", value_parser = object)]
    certificate_secret: Option<String>,
    /// With --manage-certificate, seconds for which API servers may not have heard of a certificate; for tests
    #[arg(long, hide = true, value_name = "SECONDS", requires = "manage_certificate")]
    certificate_settle: Option<u64>,
    /// Webhook configuration by which API servers call the webhook
    #[arg(long, value_name = "NAME", default_value = REGISTRATION, value_parser = object)]
    webhook_configuration: String,
    /// Service by which they call it, in the control plane's namespace
    #[arg(long, value_name = "NAME", default_value = SERVICE, value_parser = object)]
    service: String,
    /// Authority, in PEM, of the certificate that API servers must show; without one everybody may ask
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// With --client-ca, common name or DNS name of that certificate; may be repeated [default: any]
    #[arg(long, value_name = "NAME", requires = "client_ca")]
    client_name: Vec<String>,
}

impl Certificates {
    /// Changes `options` as the flags say.
    pub(super) fn put_into(self, options: &mut Options) {
        if let Some(folder) = self.tls_dir {
            options.certificate = CertificateSource::Folder(folder);
        }
        if self.manage_certificate {
            let name = self.certificate_secret.unwrap_or_else(|| SECRET.to_owned());
            options.certificate = CertificateSource::Secret(name);
        }
        if let Some(seconds) = self.certificate_settle {
            options.timings.settle = Duration::from_secs(seconds);
        }
        options.registration = self.webhook_configuration;
        options.service = self.service;
        let names = self.client_name;
        options.clients = self.client_ca.map(|authority| ClientFiles { authority, names });
    }
}

/// Reads the name of an object.
fn object(text: &str) -> Result<String> {
    ensure!(is_subdomain(text), "{text} is no name of an object");
    Ok(text.to_owned())
}
