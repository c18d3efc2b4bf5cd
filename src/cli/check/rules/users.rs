//! Containers that run as the proxy's user: the rules exempt their traffic.

use super::workloads::Judged;
use crate::cli::check::code::Code;
use crate::cli::check::finding::{Finding, count};

/// The reason of a decision against a container of the application that runs as the proxy's user.
const CLASH: &str = "proxy_user_clash";

/// Looks through the templates of workloads that ask for the mesh.
pub(in crate::cli::check) fn judge(workloads: &[Judged]) -> Vec<Finding> {
    let asking = || workloads.iter().filter(|it| it.asked);
    let clashing: Vec<_> = asking()
        .filter(|it| it.reason == CLASH)
        .map(|it| format!("{}: {}", it.place(), it.message))
        .collect();
    let exempt: Vec<_> = asking()
        .filter(|it| !it.exempt.is_empty())
        .map(|it| format!("{}: {}", it.place(), it.exempt.join(", ")))
        .collect();
    let mut findings = Vec::new();
    if !clashing.is_empty() {
        let message = format!("{} would run as the proxy's user", count(clashing.len(), "workload"));
        findings.push(Finding::failed(Code::UidClash, message).with(clashing));
    }
    if !exempt.is_empty() {
        let message = format!(
            "init containers of {} run as the proxy's user",
            count(exempt.len(), "workload")
        );
        findings.push(Finding::warning(Code::UidExemptInit, message).with(exempt));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::slice;

    #[test]
    fn clashes_and_exemptions_are_told_apart() {
        let well = Judged::sample("shop", "Deployment/web");
        assert_eq!(judge(slice::from_ref(&well)), []);
        let clashing = Judged {
            reason: CLASH,
            ..well.clone()
        };
        let exempt = Judged {
            exempt: vec!["setup".to_owned()],
            ..well
        };
        let findings = judge(&[clashing, exempt]);
        let codes: Vec<_> = findings.iter().map(|it| it.code.word()).collect();
        assert_eq!(codes, ["uid_clash", "uid_exempt_init_container"]);
        assert_eq!(findings[1].details, ["shop/Deployment/web: setup"]);
    }
}
