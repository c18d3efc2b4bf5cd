use super::*;
use crate::cluster::watch::Steps;
use crate::policy::probe::{Answer, MAX_AGE, Refuser, digest};
use futures::stream;
use kube::api::{ObjectMeta, PartialObjectMetaExt};
use kube::runtime::watcher::{self, Event};
use serde_json::Map;
use std::cell::RefCell;

const PERIOD: Duration = Duration::from_secs(600);

/// A probe of a cluster that is not asked, to which the namespace `shop` has come.
fn probe_of_shop() -> Probe {
    let options = Options {
        control_plane: "linkerd".to_owned(),
        namespaces: BTreeSet::new(),
        listed_only: false,
        pause: Duration::ZERO,
        period: PERIOD,
    };
    let client = Client::new(axum::Router::new(), "default");

    let setup = Arc::new(Setup::read(&["{}"], None, "linkerd").unwrap());
    let probe = Probe::new(client, options, watch::Sender::new(setup).subscribe());
    probe.shared.state().schedule.put(shop(), Instant::now());
    probe
}

fn shop() -> Namespace {
    Namespace {
        name: "shop".to_owned(),
        labels: Map::new(),
        annotations: Map::new(),
    }
}

/// What was found out at second `at`: `linkerd-init` is refused.
fn finding(at: u64) -> Finding {
    Finding {
        at,
        labels: digest(Some(&Map::new())),
        plain: Answer::Admitted,
        init_container: Answer::refused(Refuser::Webhook("deny.example.com".to_owned()), "no"),
        cni: Answer::Admitted,
    }
}

#[tokio::test]
async fn a_dry_run_that_fails_for_a_while_erases_nothing() {
    let probe = probe_of_shop();
    probe.shared.record("shop", finding(1));
    let busy = Finding {
        plain: Answer::unknown(Cause::Busy, "too many requests"),
        ..finding(601)
    };
    probe.shared.record("shop", busy);
    assert_eq!(probe.shared.state().findings["shop"], finding(1));
}

/// Watches that tell the lists of `begun`, one after the other, and nothing more.
fn watches<K, const N: usize>(
    begun: [Vec<watcher::Result<Event<K>>>; N],
) -> impl Fn() -> stream::BoxStream<'static, watcher::Result<Event<K>>>
where
    watcher::Result<Event<K>>: Send + 'static,
{
    let begun = Mutex::new(begun.into_iter());
    move || {
        let events = begun.lock().unwrap().next().expect("no watch is begun without need");
        // What is seen of it is seen between two events.
        let events = stream::iter(events).then(async |event| {
            tokio::task::yield_now().await;
            event
        });
        events.chain(stream::pending()).boxed()
    }
}

/// Polls `work` until `done`.
async fn until(work: impl Future<Output = ()>, done: impl Fn() -> bool) {
    let done = async {
        while !done() {
            tokio::task::yield_now().await;
        }
    };
    let both = timeout(Duration::from_secs(20), async {
        // In this order: in a random one a state can come and go between two looks.
        tokio::select! { biased; () = work => {}, () = done => {} }
    });
    both.await.expect("it comes to that");
}

/// Whether `resource` counts as one that cannot be watched.
fn is_failing(probe: &Probe, resource: &str) -> Option<bool> {
    let metrics = probe.health().metrics().unwrap();
    let series = format!("outrigger_probe_watch_failing{{resource=\"{resource}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&series))?;
    Some(line == "1")
}

/// How long a watch is quiet until it is begun anew, in tests.
const BRIEFLY: Duration = Duration::from_millis(50);

#[tokio::test]
async fn whatever_happens_after_a_failure_shows_that_the_watch_stands() {
    let probe = probe_of_shop();
    let gone = ObjectMeta {
        name: Some("gone".to_owned()),
        ..ObjectMeta::default()
    };
    let told = vec![
        Ok(Event::Init),
        Ok(Event::InitDone),
        Err(watcher::Error::NoResourceVersion),
        Ok(Event::Delete(gone.into_response_partial())),
    ];
    let heed = namespaces::heed(&probe.shared, watches([told]), PERIOD);
    until(heed, || probe.shared.state().watched == Ok(())).await;
    for event in [Event::Apply, Event::Delete] {
        let policy = ObjectMeta::default().into_response_partial();
        let told = vec![
            Ok(Event::Init),
            Ok(Event::InitDone),
            Err(watcher::Error::NoResourceVersion),
            Ok(event(policy)),
        ];
        let (steps, mut seen) = (Steps::new(watches([told]), PERIOD), None);
        let listen = triggers::listen(&probe.shared, "policies", steps, &mut seen);
        until(listen, || is_failing(&probe, "policies") == Some(false)).await;
    }
}

/// Silence after a failure may be a watch that stands, and may be a server that does not answer.
#[tokio::test]
async fn silence_after_a_failure_shows_nothing() {
    let standing = || vec![Ok(Event::Init), Ok(Event::InitDone)];
    let failing = || {
        [standing(), vec![Err(watcher::Error::NoResourceVersion)]]
            .into_iter()
            .flatten()
            .collect()
    };
    let hanging = || vec![Ok(Event::Init)];
    let probe = probe_of_shop();
    let heed = namespaces::heed(&probe.shared, watches([failing(), hanging(), standing()]), BRIEFLY);
    let seen = RefCell::new(Vec::new());
    until(heed, || {
        let watched = probe.shared.state().watched.clone();
        let mut seen = seen.borrow_mut();
        if seen.last() != Some(&watched) {
            seen.push(watched);
        }
        seen.len() == 5
    })
    .await;
    let why = |why: &str| Err(format!("namespaces: {why}"));
    let seen = seen.into_inner();
    assert_eq!(seen[0], Err("starting".to_owned()));
    assert_eq!((&seen[1], &seen[4]), (&Ok(()), &Ok(())));
    assert!(
        seen[2].is_err() && seen[3] == why("the API server does not answer"),
        "{seen:?}"
    );
}

#[tokio::test]
async fn a_resource_that_is_gone_is_no_failure() {
    let probe = probe_of_shop();
    let gone = kube::core::Status::failure("", "NotFound").with_code(404).boxed();
    let told = vec![
        Err(watcher::Error::NoResourceVersion),
        Err(watcher::Error::InitialListFailed(kube::Error::Api(gone))),
    ];
    let (steps, mut seen) = (Steps::new(watches([told]), PERIOD), None);
    triggers::listen(&probe.shared, "policies", steps, &mut seen).await;
    assert_eq!(is_failing(&probe, "policies"), Some(false));
}

#[tokio::test]
async fn news_is_confirmed_soon() {
    let probe = probe_of_shop();
    let settled = |finding| {
        let now = Instant::now();
        assert!(probe.shared.state().schedule.take(now + PERIOD).is_ok());
        probe.shared.record("shop", finding);
        let due = probe.shared.state().schedule.take(now).unwrap_err().unwrap();
        due.duration_since(now) < PERIOD / 2
    };
    let admitted = Finding {
        init_container: Answer::Admitted,
        ..finding(1)
    };
    assert!(
        settled(admitted.clone()) && !settled(admitted),
        "it is new, and then known"
    );
    assert!(settled(finding(601)), "it is refused of late");
    assert!(!settled(finding(1201)), "as before");
}

#[tokio::test]
async fn what_is_only_confirmed_is_not_written_all_the_time() {
    let probe = probe_of_shop();
    let written_within = |finding| {
        let now = Instant::now();
        probe.shared.state().write_by = None;
        probe.shared.record("shop", finding);
        probe.shared.state().write_by.unwrap().duration_since(now)
    };
    assert!(written_within(finding(1)) < Duration::from_secs(60));
    let often = MAX_AGE.as_secs() / written_within(finding(601)).as_secs();
    assert!((4..=20).contains(&often), "{often} times before it is too old");
}
