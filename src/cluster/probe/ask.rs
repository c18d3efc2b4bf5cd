//! The dry runs themselves.

use super::metrics::Metrics;
use crate::cluster::facts::Namespace;
use crate::decide::Setup;
use crate::decide::rehearsal::{NAME, Rehearsal, rehearse};
use crate::policy::Release;
use crate::policy::probe::{Answer, Cause, Finding, Found, Shape, classify, digest};
use kube::Client;
use kube::api::PostParams;
use kube::core::Request;
use serde_json::Value;
use std::time::{Duration, SystemTime};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout};

/// How long one dry run may take. The API server gives a webhook 10 s unless its configuration says otherwise.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The words for a pod that nobody asked for, because the plain one told enough.
const NOT_ASKED: &str = "not asked for";

/// How fast dry runs follow each other, whoever they are about.
#[derive(Debug)]
pub(super) struct Pace {
    pause: Duration,
    next: Mutex<Instant>,
}

impl Pace {
    pub(super) fn new(pause: Duration) -> Self {
        Self {
            pause,
            next: Mutex::new(Instant::now()),
        }
    }

    /// Waits for the next turn.
    async fn turn(&self) {
        let mut next = self.next.lock().await;
        sleep_until(*next).await;
        *next = Instant::now() + self.pause;
    }
}

/// What asks.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a> {
    pub(super) client: &'a Client,
    pub(super) pace: &'a Pace,
    pub(super) metrics: &'a Metrics,
}

impl Asker<'_> {
    /// What is found out in `namespace`, for pods as `setup` makes them on a server of `release`.
    ///
    /// The plain pod is asked for first, and again after a refusal: a policy may have come in between. A shape that is refused
    /// and was not when `known` was found out is asked for again: whoever starts anew may refuse for a moment.
    pub(super) async fn find_out(
        &self,
        setup: &Setup,
        namespace: &Namespace,
        release: Release,
        known: Option<&Finding>,
    ) -> Finding {
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let not_asked = Answer::unknown(Cause::Other, NOT_ASKED);
        let mut finding = Finding {
            at: at.unwrap_or_default().as_secs(),
            labels: digest(Some(&namespace.labels)),
            plain: not_asked.clone(),
            init_container: not_asked.clone(),
            cni: not_asked,
        };
        let rehearsal = match prepared(setup, namespace, release, false) {
            Ok(rehearsal) => rehearsal,
            Err(why) => {
                finding.plain = Answer::unknown(Cause::Unmade, &why);
                return finding;
            }
        };
        finding.plain = self.create(namespace, &rehearsal.plain).await.but_for_quotas();
        if finding.plain != Answer::Admitted {
            return finding;
        }
        let filled = || prepared(setup, namespace, release, true);
        for shape in Shape::ALL {
            let mut answer = self.judge(namespace, &rehearsal, filled, shape).await;
            let is_known = known.is_some_and(|known| matches!(known.of(shape), Found::Refused(_)));
            if matches!(answer, Answer::Refused(_)) && !is_known {
                answer = self.judge(namespace, &rehearsal, filled, shape).await;
            }
            match shape {
                Shape::InitContainer => finding.init_container = answer,
                Shape::Cni => finding.cni = answer,
            }
        }
        if finding
            .answers()
            .iter()
            .any(|answer| matches!(answer, Answer::Refused(_)))
        {
            finding.plain = self.create(namespace, &rehearsal.plain).await.but_for_quotas();
        }
        finding
    }

    /// What policies say of a shape. Where a quota demands figures, it gets them, by `filled`.
    async fn judge(
        &self,
        namespace: &Namespace,
        rehearsal: &Rehearsal,
        filled: impl Fn() -> Result<Rehearsal, String>,
        shape: Shape,
    ) -> Answer {
        let mut answer = self.create_shape(namespace, rehearsal, shape).await;
        if answer.demands_figures()
            && let Ok(filled) = filled()
        {
            answer = self.create_shape(namespace, &filled, shape).await;
        }
        answer.but_for_quotas()
    }

    async fn create_shape(&self, namespace: &Namespace, rehearsal: &Rehearsal, shape: Shape) -> Answer {
        let patch = match shape {
            Shape::InitContainer => &rehearsal.init_container,
            Shape::Cni => &rehearsal.cni,
        };
        let injected = patch.as_ref().map_err(Clone::clone);
        match injected.and_then(|patch| patch.applied_to(&rehearsal.plain)) {
            Ok(pod) => self.create(namespace, &pod).await,
            Err(why) => Answer::unknown(Cause::Unmade, &why),
        }
    }

    /// Asks for `pod`, which is never created.
    async fn create(&self, namespace: &Namespace, pod: &Value) -> Answer {
        self.pace.turn().await;
        let answer = self.dry_run(namespace, pod).await;
        self.metrics.count(&answer);
        answer
    }

    async fn dry_run(&self, namespace: &Namespace, pod: &Value) -> Answer {
        let path = format!("/api/v1/namespaces/{}/pods", namespace.name);
        let dry_run = PostParams {
            dry_run: true,
            field_manager: None,
        };
        let request = match Request::new(path).create(&dry_run, pod.to_string().into_bytes()) {
            Ok(request) => request,
            Err(error) => return Answer::unknown(Cause::Unmade, &error.to_string()),
        };
        match timeout(TIMEOUT, self.client.request_text(request)).await {
            Ok(Ok(_)) => Answer::Admitted,
            Ok(Err(kube::Error::Api(status))) => classify(status.code, &nameless(&status.message)),
            Ok(Err(error)) => Answer::unknown(Cause::Unreachable, &error.to_string()),
            Err(_) => {
                let message = format!("no answer within {} s", TIMEOUT.as_secs());
                Answer::unknown(Cause::Timeout, &message)
            }
        }
    }
}

/// The same without the end of the pod's name, which is another in each dry run: people would be told something new each
/// time.
fn nameless(message: &str) -> String {
    let (mut text, mut rest) = (String::with_capacity(message.len()), message);
    while let Some((before, after)) = rest.split_once(NAME) {
        text.extend([before, NAME.trim_end_matches('-')]);
        rest = after.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
    }
    text + rest
}

/// The pods to ask for.
fn prepared(setup: &Setup, namespace: &Namespace, release: Release, with_figures: bool) -> Result<Rehearsal, String> {
    rehearse(&setup.installation, &namespace.view(), release, with_figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// What is found out where the API server refuses the dry runs of the numbers in `refused`, counted from 0; and how
    /// many there are.
    async fn found_out(refused: &'static [usize], known: Option<&Finding>) -> (Finding, usize) {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let reply = move || {
            let number = counter.fetch_add(1, Ordering::Relaxed);
            let message = "admission webhook \"deny.example.com\" denied the request: no";
            let status = json!({"kind": "Status", "status": "Failure", "message": message, "code": 403});
            let code = if refused.contains(&number) { 403 } else { 201 };
            async move { (axum::http::StatusCode::from_u16(code).unwrap(), status.to_string()) }
        };
        let asker = Asker {
            client: &Client::new(axum::Router::new().fallback(reply), "default"),
            pace: &Pace::new(Duration::ZERO),
            metrics: &Metrics::new(),
        };
        let setup = Setup::read(&["linkerdVersion: v1"], Some("anchors"), "linkerd").unwrap();
        let namespace = Namespace {
            name: "shop".to_owned(),
            labels: Map::new(),
            annotations: Map::new(),
        };
        let finding = asker.find_out(&setup, &namespace, Release::NEWEST, known).await;
        (finding, asked.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn a_shape_is_refused_when_it_is_refused_twice() {
        let (admitted, asked) = found_out(&[], None).await;
        assert_eq!((admitted.of(Shape::InitContainer), asked), (Found::Admitted, 3));
        let (once, asked) = found_out(&[1], Some(&admitted)).await;
        assert!(once.says_the_same(&admitted), "{once:?}");
        assert_eq!(asked, 4);
        let (twice, asked) = found_out(&[1, 2], Some(&admitted)).await;
        assert!(matches!(twice.of(Shape::InitContainer), Found::Refused(_)));
        assert_eq!((twice.of(Shape::Cni), asked), (Found::Admitted, 5));
        // What is known to be refused is no news.
        let (again, asked) = found_out(&[1], Some(&twice)).await;
        assert!(again.says_the_same(&twice), "{again:?}");
        assert_eq!(asked, 4);
    }

    #[test]
    fn names_of_pods_that_never_were_are_not_told() {
        let message = "resource Pod/shop/outrigger-probe-x7k2p was blocked: Pod \"outrigger-probe-x7k2p\" runs as root";
        let told = "resource Pod/shop/outrigger-probe was blocked: Pod \"outrigger-probe\" runs as root";
        assert_eq!((nameless(message), nameless("no")), (told.to_owned(), "no".to_owned()));
    }
}
