//! What `outrigger policy psp` prints for workloads, applied, admits them; without it they are refused.

use crate::printed::{manifests, pods, printed};
use crate::scene::{PLAIN, Scene};
use crate::site::{Place, install, is_meshed, policy_of, shared};

/// How the server refuses a pod for which no policy may be used.
const NONE_GRANTED: &str = "PodSecurityPolicy: unable to admit pod: []";

async fn is_enough(file: &str, name: &str, accounts: &[&str], meshed: usize) {
    let scene = Scene::in_cluster(shared().await, PLAIN).await;
    let place = Place::create(name, &[scene.registration.label()], accounts).await;
    let text = manifests(file).replace("emojivoto", name);
    let workloads = pods(&text);
    for (controller, pod) in &workloads {
        let refused = place.make(controller, pod).await;
        assert_eq!(refused.code, 403, "{}", refused.body);
        assert!(refused.message().ends_with(NONE_GRANTED), "{}", refused.message());
    }

    let objects = printed(&["psp", "--server-version", "1.24", "--namespace", name], &text);
    install(&scene.client, &objects).await;
    let (controller, first) = &workloads[0];
    place
        .until(controller, first, |reply| is_meshed(reply, Some("init-container")))
        .await;
    let mut count = 0;
    for (controller, pod) in &workloads {
        let reply = place.make(controller, pod).await;
        assert_eq!(reply.code, 201, "{}", reply.message());
        assert_eq!(policy_of(&reply.body), objects[0]["metadata"]["name"].as_str());
        count += usize::from(is_meshed(&reply, Some("init-container")));
    }
    assert_eq!(count, meshed);
}

#[tokio::test]
async fn for_workloads_that_say_nothing_of_security() {
    is_enough("emojivoto", "plain", &["emoji", "voting", "web"], 4).await;
}

#[tokio::test]
async fn for_workloads_that_ask_for_more() {
    // One of the three says that it is not injected.
    is_enough("mixed", "infra", &["db"], 2).await;
}
