//! What a probe reports, where there is one: decisions take its word as long as it counts.

use crate::cli::check::code::Code;
use crate::cli::check::finding::{Finding, count};
use crate::policy::probe::Standing;

/// Judges how much a probe tells; nothing where none reports, for it is there only where somebody wants it.
pub(in crate::cli::check) fn judge(standing: Option<Standing>) -> Option<Finding> {
    let Standing {
        usable,
        unknown,
        stale,
        unreadable,
    } = standing?;
    let silent = [
        (stale, "too old to count"),
        (unreadable, "unreadable"),
        (unknown, "undecided"),
    ];
    let silent: Vec<_> = silent
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    let told = format!("the probe tells about {}", count(usable, "namespace"));
    if silent.is_empty() {
        return Some(Finding::ok(Code::ProbeFindings, told));
    }
    let message = format!("{told}; other findings: {}", silent.join(", "));
    Some(match stale + unreadable {
        0 => Finding::unknown(Code::ProbeFindingsDoubtful, message),
        _ => Finding::warning(Code::ProbeFindingsDoubtful, message),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::finding::Status;

    #[test]
    fn findings_that_do_not_count_are_told() {
        let judged = |usable, unknown, stale| {
            let standing = Standing {
                usable,
                unknown,
                stale,
                unreadable: 0,
            };
            let finding = judge(Some(standing)).unwrap();
            (finding.status, finding.message)
        };
        assert_eq!(judge(None), None);
        assert_eq!(
            judged(3, 0, 0),
            (Status::Ok, "the probe tells about 3 namespaces".to_owned())
        );
        let doubtful = "the probe tells about 1 namespace; other findings: 2 too old to count, 1 undecided";
        assert_eq!(judged(1, 1, 2), (Status::Warning, doubtful.to_owned()));
        assert_eq!(judged(1, 1, 0).0, Status::Unknown);
    }
}
