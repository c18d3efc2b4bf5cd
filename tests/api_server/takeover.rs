//! From Linkerd's injector to ours and back, by the steps of `docs/takeover.md`, with pods created all the while.
//!
//! Linkerd's manifests are real, its answers recorded. A pod counts as injected twice where it has anything of a proxy
//! twice or half.

mod crowd;
mod linkerd;
mod script;
mod stage;

use std::time::Duration;

use crate::announce;
use crate::cluster::{FailurePolicy, poll};
use crate::conformance_folder::conformance;
use crowd::{Crowd, Fate, Told, must_be_meshed_once, summary, tally};
use stage::{Setting, Stage};

/// How many pods are created at least while one injector takes over from the other.
const CROWD: usize = 200;

/// How many between two steps.
const PAUSE: usize = 20;

/// The API server learns of a configuration by a watch, in well under a second.
const LIMIT: Duration = Duration::from_secs(60);

/// What our webhook counts when it is asked about a pod that has a proxy.
const SEEN: &str = "decision=\"sidecar_already_exists\"";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_pod_goes_without_a_proxy_or_gets_two_on_the_way_there_and_back() {
    let setting = Setting {
        namespace: "linkerd",
        policy: FailurePolicy::Ignore,
        opt_in: None,
        plugin: true,
        range: "127.97.0.0/16",
    };
    there_and_back(setting).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_holds_in_another_namespace_with_other_selectors_and_where_both_fail_closed() {
    let setting = Setting {
        namespace: "l5d",
        policy: FailurePolicy::Fail,
        opt_in: Some(("mesh", "yes")),
        plugin: true,
        range: "127.98.0.0/16",
    };
    there_and_back(setting).await;
}

async fn there_and_back(setting: Setting) {
    let Some(folder) = conformance() else { return };
    let mut stage = Stage::new(&folder, setting).await;
    // What Linkerd's registration does not select it does not inject: before, and when it is back.
    let linkerds_own = if setting.opt_in.is_some() {
        Fate::Bare
    } else {
        Fate::Linkerds
    };
    assert_eq!(stage.apart.fate().await, linkerds_own);
    let told = there(&mut stage).await;
    assert_eq!(stage.apart.fate().await, Fate::Ours("cni"));
    announce(&format!("takeover in {}: {}", setting.namespace, summary(&told)));
    must_be_meshed_once(&told);
    assert!(told.len() >= CROWD);
    linkerds_alone(&told, "");
    ours_alone(&told, "who");
    if let FailurePolicy::Fail = setting.policy {
        ours_alone(&told, "ha");
    }
    ours_alone(&told, "stand-down");

    let back = back(&mut stage, told.len()).await;
    assert_eq!(stage.apart.fate().await, linkerds_own);
    announce(&format!("and back: {}", summary(&back)));
    must_be_meshed_once(&back);
    assert!(back.len() >= CROWD);
    ours_alone(&back, "");
    ours_alone(&back, "linkerd-answers");
    linkerds_alone(&back, "who");
    linkerds_alone(&back, "remove");
}

/// The steps, a crowd between and during them.
async fn there(stage: &mut Stage) -> Vec<Told> {
    let mut crowd = Crowd::start(&stage.shapes, 0, "");
    crowd.more(PAUSE).await;
    crowd.after("beside");
    stage.beside().await;
    crowd.more(PAUSE).await;
    stage.until("who", "outrigger/").await;
    crowd.after("who");
    crowd.more(PAUSE).await;
    if let FailurePolicy::Fail = stage.setting.policy {
        stage.step("ha").await;
        crowd.after("ha");
        crowd.more(PAUSE).await;
    }
    stage.step("stand-down").await;
    crowd.after("stand-down");
    crowd.more(PAUSE).await;
    crowd.at_least(CROWD).await;
    crowd.finish().await
}

async fn back(stage: &mut Stage, first: usize) -> Vec<Told> {
    let mut crowd = Crowd::start(&stage.shapes, first, "");
    crowd.more(PAUSE).await;
    stage.step("stand-up").await;
    stage.until("linkerd-answers", "linkerd/proxy-injector ").await;
    crowd.after("linkerd-answers");
    crowd.more(PAUSE).await;
    crowd.after("unregister");
    stage.step("unregister").await;
    stage.until("who", "linkerd/proxy-injector ").await;
    crowd.after("who");
    crowd.more(PAUSE).await;
    stage.step("remove").await;
    drop(stage.webhook.take());
    crowd.after("remove");
    crowd.more(PAUSE).await;
    crowd.at_least(CROWD).await;
    crowd.finish().await
}

/// The fates of pods that were created after `step`, by whether their namespace enforces a level.
fn fates(told: &[Told], step: &str) -> [Vec<Fate>; 2] {
    let of = |free: bool| {
        let here = told
            .iter()
            .filter(|one| one.step == step && one.namespace.starts_with("free") == free);
        let fates: Vec<_> = tally(here).into_keys().collect();
        assert!(!fates.is_empty(), "no pod after {step:?}");
        fates
    };
    [of(true), of(false)]
}

fn linkerds_alone(told: &[Told], step: &str) {
    assert_eq!(fates(told, step), [vec![Fate::Linkerds], vec![Fate::Denied]], "{step}");
}

fn ours_alone(told: &[Told], step: &str) {
    let ours = || vec![Fate::Ours("cni")];
    assert_eq!(fates(told, step), [ours(), ours()], "{step}");
}

/// What Linkerd's chart puts back, ours is asked before; and it works though nobody answers for Linkerd's. There is no CNI
/// plugin here: where a level is enforced, ours denies what nobody admits.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_upgrade_of_linkerd_and_an_outage_of_either_leave_no_gap() {
    let Some(folder) = conformance() else { return };
    let mut stage = Stage::new(
        &folder,
        Setting {
            namespace: "linkerd",
            policy: FailurePolicy::Ignore,
            opt_in: None,
            plugin: false,
            range: "127.99.0.0/16",
        },
    )
    .await;
    stage.beside().await;
    stage.until("who", "outrigger/").await;
    stage.step("stand-down").await;
    let mut crowd = Crowd::start(&stage.shapes, 0, "taken over");
    crowd.more(PAUSE).await;
    stage.linkerd.stop();
    stage.register_linkerds();
    crowd.more(PAUSE).await;
    stage.linkerd.resume().await;
    stage.until("linkerd-answers", "linkerd/proxy-injector ").await;
    crowd.more(PAUSE).await;
    let told = crowd.finish().await;
    announce(&format!("Linkerd's registration comes back: {}", summary(&told)));
    must_be_meshed_once(&told);
    let ours = vec![Fate::Ours("init-container")];
    assert_eq!(fates(&told, "taken over"), [ours, vec![Fate::Denied]]);

    // Both are registered. Who cannot be asked is passed over, and the other does it.
    let mut crowd = Crowd::start(&stage.shapes, told.len(), "both");
    crowd.more(PAUSE).await;
    drop(stage.webhook.take());
    stage.until("who", "linkerd/proxy-injector ").await;
    crowd.after("ours is away");
    crowd.more(PAUSE).await;
    let told = crowd.finish().await;
    announce(&format!("ours ends while both are registered: {}", summary(&told)));
    must_be_meshed_once(&told);
    linkerds_alone(&told, "ours is away");
}

/// A registration of ours with a later name than Linkerd's: the wrong order, and still one proxy a pod.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn in_the_wrong_order_each_pod_has_one_proxy_or_is_denied() {
    let Some(folder) = conformance() else { return };
    let mut stage = Stage::new(
        &folder,
        Setting {
            namespace: "linkerd",
            policy: FailurePolicy::Ignore,
            opt_in: None,
            plugin: true,
            range: "127.100.0.0/16",
        },
    )
    .await;
    let mut crowd = Crowd::start(&stage.shapes, 0, "");
    stage.beside_as("zz").await;
    let webhook = stage.webhook.as_ref().unwrap();
    poll(LIMIT, async || {
        webhook.read("/metrics").await.ok()?.1.contains(SEEN).then_some(())
    })
    .await
    .expect("ours is asked");
    crowd.after("both");
    crowd.more(CROWD).await;
    let told = crowd.finish().await;
    announce(&format!("ours second: {}", summary(&told)));
    must_be_meshed_once(&told);
    linkerds_alone(&told, "both");
}

/// The command for Helm and the patch for everybody else come to the same.
#[test]
fn helm_and_kubectl_set_the_same_selector() {
    let script = script::Script::new("none".into(), "linkerd", "shop");
    let selector = "{\"matchExpressions\":[{\"key\":\"kubernetes.io/metadata.name\",\"operator\":\"DoesNotExist\"}]}";
    assert!(
        script
            .text("helm")
            .contains(&format!("'proxyInjector.namespaceSelector={selector}'"))
    );
    assert!(script.text("stand-down").contains(selector));
}
