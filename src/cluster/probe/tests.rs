use super::*;
use crate::policy::probe::{Answer, MAX_AGE, Refuser, digest};
use futures::stream;
use kube::api::{ObjectMeta, PartialObjectMetaExt};
use kube::runtime::watcher::{self, Event};
use serde_json::Map;

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

#[tokio::test]
async fn whatever_happens_after_a_failure_shows_that_the_watch_stands() {
    let probe = probe_of_shop();
    let gone = ObjectMeta {
        name: Some("gone".to_owned()),
        ..ObjectMeta::default()
    };
    let told = [
        Ok(Event::Init),
        Ok(Event::InitDone),
        Err(watcher::Error::NoResourceVersion),
        Ok(Event::Delete(gone.into_response_partial())),
    ];
    namespaces::heed(&probe.shared, stream::iter(told)).await;
    assert_eq!(probe.shared.state().watched, Ok(()));
    for event in [Event::Apply, Event::Delete] {
        let policy = ObjectMeta::default().into_response_partial();
        let told = [
            Ok(Event::Init),
            Ok(Event::InitDone),
            Err(watcher::Error::NoResourceVersion),
            Ok(event(policy)),
        ];
        triggers::listen(&probe.shared, "policies", stream::iter(told), &mut None).await;
        let metrics = probe.health().metrics().unwrap();
        assert!(metrics.contains("watch_failing{resource=\"policies\"} 0"), "{metrics}");
    }
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
