//! Writing down what was found out, where the webhook reads it.

use super::{Shared, State};
use crate::policy::probe::{CONFIG_MAP, Report};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, info, warn};

/// Who writes, for server-side apply.
const MANAGER: &str = "outrigger-probe";

/// How long one call may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How soon a call that has failed is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// Writes whenever there is something to write, for as long as it is polled.
pub(super) async fn run(shared: &Shared) {
    let api = Api::<ConfigMap>::namespaced(shared.client.clone(), &shared.options.control_plane);
    recall(shared, &api).await;
    loop {
        let by = shared.state().write_by;
        let is_time = async {
            match by {
                Some(by) => sleep_until(by).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = is_time => {}
            () = shared.write.notified() => continue,
        }
        // As long as namespaces are not known, what was written before is better than nothing.
        if !shared.state().listed {
            sleep(AGAIN).await;
            continue;
        }
        let written = write(shared, &api).await;
        note(shared, written).await;
    }
}

/// Reads what was found out by an earlier probe: it counts until it is too old or found out anew.
async fn recall(shared: &Shared, api: &Api<ConfigMap>) {
    loop {
        let error = match timeout(TIMEOUT, api.get_opt(CONFIG_MAP)).await {
            Ok(Ok(found)) => {
                let data = found.and_then(|found| found.data).unwrap_or_default();
                let report = Report::read(data.iter().map(|(key, text)| (key.as_str(), text.as_str())));
                let State { findings, .. } = &mut *shared.state();
                for (namespace, finding) in report.findings() {
                    findings.entry(namespace.to_owned()).or_insert_with(|| finding.clone());
                }
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        note(shared, Err(format!("ConfigMap {CONFIG_MAP} cannot be read: {error}"))).await;
    }
}

/// Writes all of it.
async fn write(shared: &Shared, api: &Api<ConfigMap>) -> Result<(), String> {
    let (data, left_out) = {
        let mut state = shared.state();
        state.write_by = None;
        // Those of an earlier probe may be of namespaces that are not meshed any more.
        let State { schedule, findings, .. } = &mut *state;
        findings.retain(|name, _| schedule.has(name));
        let all: Vec<_> = findings
            .iter()
            .map(|(name, finding)| (name.as_str(), finding))
            .collect();
        Report::write(&all)
    };
    shared.metrics.left_out(left_out);
    if left_out > 0 {
        warn!(left_out, "the ConfigMap has no room for the findings of all namespaces");
    }
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}, "data": data});
    // Nobody else has anything to write there.
    let parameters = PatchParams::apply(MANAGER).force();
    let written = timeout(
        TIMEOUT,
        api.patch_metadata(CONFIG_MAP, &parameters, &Patch::Apply(object)),
    )
    .await;
    match written {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(kube::Error::Api(status))) => Err(status.message.clone()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// Says once that findings cannot be written, and once that they can; waits after a failure.
async fn note(shared: &Shared, written: Result<(), String>) {
    shared.metrics.published(written.is_ok());
    let before = {
        let mut state = shared.state();
        if written.is_err() {
            state.write_within(AGAIN, Instant::now());
        }
        std::mem::replace(&mut state.written, written.clone())
    };
    match (&before, &written) {
        (Ok(()), Ok(())) => {}
        (Err(_), Ok(())) => info!("findings are written"),
        (before, Err(error)) if before.as_ref().err() == Some(error) => debug!(error, "findings are not written"),
        (_, Err(error)) => warn!(error, "findings are not written, trying again"),
    }
    if written.is_err() {
        sleep(AGAIN).await;
    }
}
