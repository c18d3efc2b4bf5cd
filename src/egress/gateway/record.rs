//! What became of a connection: one line of the log and one count each.

use super::Client;
use super::dial::DialError;
use super::judge::Verdict;
use super::originate::TlsError;
use super::resolve::ResolveError;
use crate::egress::host::Host;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tracing::info;

/// Series of the counter, at most: a hundred policies for a hundred workloads each. What comes then is counted together.
const SERIES: usize = 10_000;

/// Counts what becomes of connections and requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    decisions: Family<Labels, Counter>,
    series: Arc<AtomicUsize>,
}

/// What a count is of. None takes more values than there are policies and workloads: `rule` is the host or address as a policy writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    namespace: String,
    service_account: String,
    policy: String,
    rule: String,
    traffic: &'static str,
    outcome: &'static str,
    reason: &'static str,
    failure: &'static str,
}

/// Why what may pass does not.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the ConfigMap with its authorities, which the policy names, is not there")]
    NoAuthorities,
    #[error("its response failed: {0}")]
    Response(hyper::Error),
}

/// A request that is on its way.
pub(super) struct Pending<'a> {
    records: &'a Records,
    client: &'a Client,
    verdict: &'a Verdict,
    failed: bool,
}

impl Failure {
    /// Its word.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::Resolve(ResolveError::NoSuchName) => "name_unknown",
            Self::Resolve(ResolveError::Failed(_)) => "resolver_failed",
            Self::Dial(DialError::Fenced { .. }) => "address_forbidden",
            Self::Dial(DialError::Unreachable(_)) => "server_unreachable",
            Self::Tls(TlsError::Certificate(_)) => "certificate_refused",
            Self::Tls(TlsError::NoHttp2) => "http2_missing",
            Self::Tls(TlsError::Handshake(_) | TlsError::Late | TlsError::Name(_)) => "tls_failed",
            Self::NoAuthorities => "authorities_missing",
            Self::Response(_) => "response_failed",
        }
    }
}

impl Labels {
    fn of(verdict: &Verdict, failure: Option<&Failure>) -> Self {
        let workload = verdict.member.as_deref().map(|member| &member.workload);
        Self {
            namespace: workload.map(|workload| workload.namespace.clone()).unwrap_or_default(),
            service_account: workload
                .map(|workload| workload.service_account.clone())
                .unwrap_or_default(),
            policy: verdict.policy.clone().unwrap_or_default(),
            rule: verdict.told_rule().unwrap_or_default().to_owned(),
            traffic: verdict.traffic.word(),
            outcome: verdict.outcome.word(),
            reason: verdict.reason.code(),
            failure: failure.map_or("", Failure::code),
        }
    }
}

impl Pending<'_> {
    /// It failed, and is noted as that.
    pub(super) fn failed(mut self, failure: &Failure) {
        self.failed = true;
        self.records.failed(self.client, self.verdict, failure);
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.failed {
            self.records.decided(self.client, self.verdict);
        }
    }
}

impl Verdict {
    /// The host as the policy writes it, where it may be told.
    fn told_rule(&self) -> Option<&str> {
        self.rule.as_deref().filter(|_| self.telemetry)
    }
}

impl Records {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register(
            "decisions",
            "Connections, and requests of HTTP, by what became of them; rule is the host as the policy writes it",
            all.decisions.clone(),
        );
        all
    }

    /// What the policies said is what happened.
    pub(super) fn decided(&self, client: &Client, verdict: &Verdict) {
        self.note(client, verdict, None);
    }

    /// It was to pass, and failed.
    pub(super) fn failed(&self, client: &Client, verdict: &Verdict, failure: &Failure) {
        self.note(client, verdict, Some(failure));
    }

    /// What is noted as decided when its end is reached, however it ends: by then something may have gone out.
    pub(super) fn pending<'a>(&'a self, client: &'a Client, verdict: &'a Verdict) -> Pending<'a> {
        Pending {
            records: self,
            client,
            verdict,
            failed: false,
        }
    }

    /// What is decided so often that a line each would only fill the log.
    pub(super) fn counted(&self, verdict: &Verdict) {
        self.count(Labels::of(verdict, None));
    }

    /// Writes a [`Record`](crate::egress::record::Record), with what else is known, and counts.
    fn note(&self, client: &Client, verdict: &Verdict, failure: Option<&Failure>) {
        let member = verdict.member.as_deref();
        let workload = member.map(|member| &member.workload);
        let (name, address) = match verdict.host.as_ref().filter(|_| verdict.telemetry) {
            Some(Host::Name(name)) => (Some(name.as_str()), None),
            Some(Host::Address(address)) => (None, Some(address)),
            None => (None, None),
        };
        // The words of a failure name the host's addresses and certificate.
        let error = failure.filter(|_| verdict.telemetry).map(tracing::field::display);
        info!(
            outcome = verdict.outcome.word(),
            reason = verdict.reason.code(),
            failure = failure.map(Failure::code),
            host = name,
            address = address.map(tracing::field::display),
            port = client.port.get(),
            traffic = verdict.traffic.word(),
            policy = verdict.policy,
            rule = verdict.told_rule(),
            namespace = workload.map_or("", |workload| &*workload.namespace),
            "serviceAccount" = workload.map_or("", |workload| &*workload.service_account),
            pod = member.map(|member| &*member.name),
            source = %client.source,
            error,
            "egress",
        );
        self.count(Labels::of(verdict, failure));
    }

    fn count(&self, labels: Labels) {
        if let Some(counter) = self.decisions.get(&labels) {
            counter.inc();
            return;
        }
        let is_new = self.series.fetch_add(1, Ordering::Relaxed) < SERIES;
        let labels = match is_new {
            true => labels,
            false => Labels {
                traffic: labels.traffic,
                outcome: labels.outcome,
                reason: labels.reason,
                failure: labels.failure,
                ..Labels::default()
            },
        };
        self.decisions.get_or_create(&labels).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_bounded() {
        let records = Records::default();
        for number in 0..SERIES + 100 {
            records.count(Labels {
                policy: number.to_string(),
                reason: "listed",
                ..Labels::default()
            });
        }
        let together = Labels {
            reason: "listed",
            ..Labels::default()
        };
        assert_eq!(records.decisions.get(&together).unwrap().get(), 100);
    }
}
