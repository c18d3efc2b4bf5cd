//! `outrigger webhook`: the admission server, with the flags of Linkerd's `proxy-injector` beside its own.

mod certificates;

use certificates::Certificates;

use super::input;
use super::installation::ControlPlane;
use super::logging::Logging;
use super::{print, warn};
use crate::policy::Release;
use crate::webhook;
use crate::webhook::options::{FactSource, Options, address};
use anyhow::Result;
use clap::{ArgAction, Args};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Arguments of `webhook`. Where none is given, paths and ports are those of Linkerd's injector.
#[derive(Args, Clone, Debug)]
pub(super) struct Arguments {
    /// Address to answer reviews on, over TLS
    #[arg(long, alias = "addr", value_name = "ADDR", default_value = ":8443", value_parser = address)]
    listen: SocketAddr,
    /// Address to answer probes and metrics on
    #[arg(long, alias = "metrics-addr", value_name = "ADDR", value_parser = address)]
    admin_listen: Option<SocketAddr>,
    #[command(flatten)]
    certificates: Certificates,
    /// Values of the installation [default: /var/run/linkerd/config/values]
    #[arg(long, value_name = "FILE")]
    values: Option<PathBuf>,
    /// Values that lie over those
    #[arg(long, value_name = "FILE")]
    overrides: Option<PathBuf>,
    /// Trust anchors of the installation [default: /var/run/linkerd/identity/trust-roots/ca-bundle.crt]
    #[arg(long, value_name = "FILE")]
    trust_anchors: Option<PathBuf>,
    #[command(flatten)]
    control_plane: ControlPlane,
    /// Ask no API server: the cluster is what --objects holds
    #[arg(long)]
    standalone: bool,
    /// With --standalone, manifests of the cluster's objects; may be repeated
    #[arg(long, value_name = "FILE", requires = "standalone")]
    objects: Vec<PathBuf>,
    /// With --standalone, the release of the API server, 1.N
    #[arg(long, value_name = "RELEASE", requires = "standalone")]
    server_version: Option<Release>,
    /// File with the cluster's address and credentials, outside of a cluster
    #[arg(long, value_name = "FILE", conflicts_with = "standalone")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    logging: Logging,
    /// Print the version and stop
    #[arg(long, hide = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    version: bool,
    /// Linkerd's profiler; there is none here
    #[arg(long, hide = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false")]
    enable_pprof: bool,
}

/// Serves until it is told to stop.
pub(super) fn run(arguments: Arguments) -> Result<()> {
    if arguments.version {
        return print(concat!(env!("CARGO_PKG_VERSION"), "\n"));
    }
    if arguments.enable_pprof {
        warn("--enable-pprof: there is no profiler here; the flag is ignored");
    }
    arguments.logging.start();
    Ok(webhook::serve(arguments.options()?)?)
}

impl Arguments {
    fn options(self) -> Result<Options> {
        let mut options = if self.standalone {
            Options::standalone(objects(&self.objects)?, self.server_version.map(Into::into))
        } else {
            Options {
                facts: FactSource::Server {
                    kubeconfig: self.kubeconfig,
                },
                ..Options::in_cluster()
            }
        };
        options.listen = self.listen;
        options.admin_listen = self.admin_listen.unwrap_or(options.admin_listen);
        options.linkerd_namespace = self.control_plane.linkerd_namespace;
        self.certificates.put_into(&mut options);
        options.values = self.values.or(options.values);
        options.overrides = self.overrides;
        options.trust_anchors = self.trust_anchors.or(options.trust_anchors);
        Ok(options)
    }
}

/// Every object of the manifests.
fn objects(files: &[PathBuf]) -> Result<Vec<Value>> {
    match files {
        [] => Ok(Vec::new()),
        files => {
            let objects = super::objects::read(&input::read(files)?)?;
            Ok(objects.into_iter().map(|object| object.value).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::options::{CertificateSource, ClientFiles, SECRET};
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn options(arguments: &str) -> Options {
        let command = Command::parse_from(std::iter::once("webhook").chain(arguments.split_whitespace()));
        command.arguments.options().unwrap()
    }

    #[test]
    fn the_flags_of_linkerds_injector_are_taken() {
        let options = options(
            "--addr :1 --metrics-addr :2 --kubeconfig k --linkerd-namespace l5d --enable-pprof=false --log-level=debug --log-format json",
        );
        assert_eq!((options.listen.port(), options.admin_listen.port()), (1, 2));
        assert_eq!(options.linkerd_namespace, "l5d");
        assert_eq!(
            options.certificate,
            CertificateSource::Folder("/var/run/linkerd/tls".into())
        );
        assert_eq!(options.values.unwrap().to_str(), Some("/var/run/linkerd/config/values"));
        assert!(matches!(options.facts, FactSource::Server { kubeconfig: Some(file) } if file.as_os_str() == "k"));
    }

    #[test]
    fn the_certificate_comes_from_one_place() {
        let source = |arguments: &str| options(arguments).certificate;
        assert_eq!(source("--tls-dir d"), CertificateSource::Folder("d".into()));
        assert_eq!(
            source("--standalone --tls-dir d"),
            CertificateSource::Folder("d".into())
        );
        assert_eq!(
            source("--manage-certificate"),
            CertificateSource::Secret(SECRET.to_owned())
        );
        let named = source("--manage-certificate --certificate-secret s");
        assert_eq!(named, CertificateSource::Secret("s".to_owned()));
        let clients = ClientFiles {
            authority: "f".into(),
            names: vec!["a".to_owned(), "b".to_owned()],
        };
        let named = options("--client-ca f --client-name a --client-name b").clients;
        assert_eq!((named, options("").clients), (Some(clients), None));
        for wrong in [
            "--manage-certificate --tls-dir d",
            "--manage-certificate --standalone",
            "--certificate-secret s",
            "--manage-certificate --certificate-secret a/b",
            "--webhook-configuration A",
            "--service a/b",
            "--client-name a",
        ] {
            let words = std::iter::once("webhook").chain(wrong.split_whitespace());
            assert!(Command::try_parse_from(words).is_err(), "{wrong}");
        }
    }

    #[test]
    fn standalone_needs_no_files() {
        let options = options("--standalone --listen 127.0.0.1:0 --server-version 1.29");
        assert_eq!((options.values, options.trust_anchors), (None, None));
        assert_eq!(options.certificate, CertificateSource::Process);
        assert!(
            matches!(options.facts, FactSource::Manifests { server: Some(server), .. } if server.release == Release(29))
        );
    }
}
