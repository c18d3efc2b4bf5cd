//! Keeps the plugin installed, and knows whether a pod could be set up now.

use super::install::Report;
use super::{Shared, probe};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tracing::{info, warn};

/// How often the node is looked at. A change by others is put right in about that time; a look reads a few small files.
const LOOK: Duration = Duration::from_secs(1);

/// How often the installed plugin is asked while it is fine.
const PROBE: Duration = Duration::from_secs(30);

/// How often it is asked while it is not.
const IMPATIENT_PROBE: Duration = Duration::from_secs(2);

/// What was said last, so that it is said once.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    used: Option<String>,
    problems: Vec<(String, String)>,
    errors: Vec<String>,
}

/// Looks again and again, for as long as it is polled.
pub(super) async fn keep_installed(shared: &Shared) {
    let mut said = Said::default();
    let mut probed: Option<(Instant, Result<(), String>)> = None;
    loop {
        let report = shared
            .with_installer(|installer| installer.reconcile(Instant::now()))
            .await;
        tell(shared, &report, &mut said);
        let obstacle = match shared.reading() {
            Some(reading) => report.obstacle(reading),
            None => Some("this node is not seen yet".to_owned()),
        };
        let state = if let Some(obstacle) = obstacle {
            Err(obstacle)
        } else if shared.pods.settled() {
            let due = probed.as_ref().is_none_or(|(last, found)| {
                let interval = if found.is_ok() { PROBE } else { IMPATIENT_PROBE };
                last.elapsed() >= interval || !report.changed.is_empty()
            });
            if due {
                let found = shared.with_installer(|installer| probe::status(installer)).await;
                probed = Some((Instant::now(), found));
            }
            probed.as_ref().map_or(Ok(()), |(_, found)| found.clone())
        } else {
            Err("the pods of this node are not listed yet".to_owned())
        };
        shared.set_ready(state);
        // Whoever has something new to install wakes this up.
        timeout(LOOK, shared.wake.notified()).await.ok();
    }
}

fn tell(shared: &Shared, report: &Report, said: &mut Said) {
    let paths = |paths: &[PathBuf]| {
        paths
            .iter()
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    if !report.changed.is_empty() {
        shared
            .metrics
            .writes
            .inc_by(u64::try_from(report.changed.len()).unwrap_or_default());
        info!(files = paths(&report.changed), "installed");
    }
    let now = Said {
        used: report.used.clone(),
        problems: report
            .problems
            .iter()
            .map(|problem| (problem.file.clone(), problem.why.clone()))
            .collect(),
        errors: report.errors.clone(),
    };
    shared
        .metrics
        .problems
        .set(i64::try_from(now.problems.len()).unwrap_or_default());
    if now == *said {
        return;
    }
    for (file, why) in now.problems.iter().filter(|problem| !said.problems.contains(problem)) {
        warn!(file, why, "a network configuration is left alone");
    }
    for why in now.errors.iter().filter(|error| !said.errors.contains(error)) {
        warn!(why, "the plugin is not installed");
    }
    if let Some(used) = now.used.as_ref().filter(|_| now.used != said.used) {
        info!(
            configuration = used,
            "the plugin is in the configuration that the runtime uses"
        );
    }
    *said = now;
}
