//! `outrigger egress-controller` on a real API server, with the rights of the chart's account alone.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cluster::audit::granted_by;
use crate::cluster::{AuditEvent, Options, Verb};
use crate::operated::{Controller, World};

const GATEWAY_API: &str = "/apis/gateway.networking.k8s.io";

fn closed(host: &str) -> Value {
    json!({"hosts": [host], "allowlist": "Enabled"})
}

/// The kinds of objects, each as often as it is there.
fn kinds(objects: &BTreeSet<String>, namespace: &str) -> String {
    let here = objects.iter().filter(|it| it.contains(&format!(" {namespace}/")));
    here.map(|it| it.split(' ').next().unwrap())
        .collect::<Vec<_>>()
        .join(" ")
}

#[tokio::test]
async fn policies_become_objects_and_conditions() {
    let Some(world) = World::new(&["shop", "agents", "linkerd-egress"], &[]).await else {
        return;
    };
    world.add("shop", "github", &closed("api.github.com")).await;
    let controller = world.controller("one");
    world.until("shop", "github", "Programmed", &controller).await;
    controller.until("/ready", "ok").await;
    is_seen_by_kubectl(&world);
    follows_changes(&world, &controller).await;
    opens_nothing_of_what_cannot_be_read(&world, &controller).await;
    leads_to_the_gateway(&world, &controller).await;
    knows_every_kind(&world, &controller).await;
    has_the_rights_that_it_needs(&world);
    assert_eq!(world.holder().await, "one");
    assert!(controller.stop().await.success());
    assert_eq!(world.holder().await, Value::Null);
}

fn is_seen_by_kubectl(world: &World) {
    let ours = world.ours();
    assert_eq!(kinds(&ours, "shop"), "EgressNetwork EgressNetwork HTTPRoute TLSRoute");
    for object in world.objects(&["--namespace", "shop", "--show-managed-fields"]) {
        let manager = &object["metadata"]["managedFields"][0];
        assert_eq!(
            (&manager["manager"], &manager["operation"]),
            (&"outrigger".into(), &"Update".into())
        );
    }
    let output = world.cluster.kubectl(["get", "egresspolicies", "--namespace", "shop"]);
    let shown = String::from_utf8(output.stdout).unwrap();
    let row: Vec<_> = shown.lines().nth(1).unwrap().split_whitespace().collect();
    let expected = [
        "github",
        "[\"api.github.com\"]",
        "Enabled",
        "Enforce",
        "Client",
        "Accepted",
        "Programmed",
    ];
    assert_eq!(row[..expected.len()], expected, "{shown}");
}

async fn follows_changes(world: &World, controller: &Controller) {
    let before = world.policy("shop", "github").await["status"]["conditions"].clone();
    let ours = world.ours();
    // The old route goes, and no time moves, for no status flips.
    let hosts = json!({"hosts": ["api.github.com", "b.example"]});
    world.change("shop", "github", &hosts).await;
    let changed = world.until("shop", "github", "Programmed", controller).await;
    for (before, after) in before.as_array().unwrap().iter().zip(changed.as_array().unwrap()) {
        let generations = (&before["observedGeneration"], &after["observedGeneration"]);
        assert_eq!(generations, (&1.into(), &2.into()));
        assert_eq!(before["lastTransitionTime"], after["lastTransitionTime"]);
    }
    let is_same_kinds = |now: &BTreeSet<String>| kinds(now, "shop") == kinds(&ours, "shop");
    world
        .until_ours(controller, |now| is_same_kinds(now) && *now != ours)
        .await;

    // What somebody changes is as it was soon.
    let network = "/apis/policy.linkerd.io/v1alpha1/namespaces/shop/egressnetworks/outrigger-outside";
    let open = json!({"spec": {"trafficPolicy": "Allow"}});
    let opened = world.send(Verb::Patch, network, Some(&open)).await;
    assert_eq!(opened["spec"]["trafficPolicy"], "Allow");
    let is_closed = |_: &BTreeSet<String>| {
        let shown = world.objects(&["--namespace", "shop"]);
        let is_it = |object: &&Value| object["metadata"]["name"] == "outrigger-outside";
        shown.iter().find(is_it).unwrap()["spec"]["trafficPolicy"] == "Deny"
    };
    world.until_ours(controller, is_closed).await;
    undoes(world, controller, "shop").await;

    // Of what is refused nothing is left.
    let workloads = json!({"workloads": {"serviceAccounts": ["web"]}});
    world.change("shop", "github", &workloads).await;
    let refused = world.until("shop", "github", "NotAccepted", controller).await;
    assert_eq!(refused[0]["reason"], "SelectorUnsupported");
    world.until_ours(controller, BTreeSet::is_empty).await;
    world.change("shop", "github", &json!({"workloads": null})).await;
}

/// What somebody changes in objects, or adds to them, goes; what he writes beside that stays.
async fn undoes(world: &World, controller: &Controller, namespace: &str) {
    let specs = || {
        let objects = world.objects(&["--namespace", namespace]);
        let specs = objects
            .iter()
            .map(|it| (it["metadata"]["name"].clone(), it["spec"].clone()));
        specs.collect::<Vec<_>>()
    };
    let before = specs();
    let objects = world.ours();
    let here = objects.iter().filter(|it| it.contains(&format!(" {namespace}/")));
    for object in here.clone() {
        let spec = match object.split(' ').next().unwrap() {
            "EgressNetwork" => json!({"networks": [{"cidr": "198.51.100.0/24"}]}),
            "NetworkPolicy" => json!({"ingress": [{}]}),
            _ => json!({"parentRefs": []}),
        };
        let changed = world.meddle(object, &json!({"metadata": {"labels": {"team": "a"}}, "spec": spec}));
        assert!(before.iter().all(|(_, before)| *before != changed["spec"]), "{changed}");
    }
    world.until_ours(controller, |_| specs() == before).await;
    let labelled = world.objects(&["--namespace", namespace, "--selector", "team=a"]);
    assert_eq!(labelled.len(), here.count());
}

/// The schema lets an address through that is none.
async fn opens_nothing_of_what_cannot_be_read(world: &World, controller: &Controller) {
    world.until("shop", "github", "Programmed", controller).await;
    let bad = json!({"addresses": ["300.0.0.1"], "ports": [{"port": 5432, "protocol": "TCP"}]});
    world.add("shop", "bad", &bad).await;
    let conditions = world.until("shop", "bad", "NotAccepted", controller).await;
    assert_eq!(conditions[0]["reason"], "Invalid");
    let message = conditions[0]["message"].as_str().unwrap();
    assert!(message.starts_with("spec.addresses[0]: \"300.0.0.1\" "), "{message}");
    let ours = world.ours();
    world.change("shop", "github", &json!({"allowlist": "Disabled"})).await;
    let conditions = world.until("shop", "github", "Held", controller).await;
    let expected = "EgressPolicy/shop/bad cannot be read, and nothing is opened or deleted until it can";
    assert_eq!(conditions[1]["message"], expected);
    assert_eq!(world.ours(), ours);
    // What somebody takes away comes again, as it was.
    let taken = ["delete", "tlsroutes,httproutes", "--all", "--namespace", "shop"];
    assert!(world.cluster.kubectl(taken).status.success());
    world.until_ours(controller, |now| *now == ours).await;
    undoes(world, controller, "shop").await;
    world.delete(&[("shop", "bad")]).await;
    world.until("shop", "github", "Programmed", controller).await;
    world.change("shop", "github", &json!({"allowlist": "Enabled"})).await;
    world.until("shop", "github", "Programmed", controller).await;
}

async fn leads_to_the_gateway(world: &World, controller: &Controller) {
    let mut spec = closed("api.github.com");
    spec["placement"] = "Gateway".into();
    spec["workloads"] = json!({"serviceAccounts": ["agent"]});
    world.add("agents", "github", &spec).await;
    world.until("agents", "github", "Programmed", controller).await;
    let objects = world.objects(&["--namespace", "agents"]);
    let of_kind = |kind: &str| objects.iter().filter(|it| it["kind"] == kind).collect::<Vec<_>>();
    let [fence] = &of_kind("NetworkPolicy")[..] else {
        panic!("{objects:#?}")
    };
    let selected = &fence["spec"]["podSelector"]["matchExpressions"][0];
    assert_eq!(
        (&selected["key"], &selected["values"]),
        (&"outrigger.linkerd.io/service-account".into(), &json!(["agent"]))
    );
    assert_eq!(fence["spec"]["egress"][2]["to"][0]["ipBlock"]["cidr"], "10.96.0.0/12");
    for route in of_kind("TCPRoute") {
        let backend = &route["spec"]["rules"][0]["backendRefs"][0];
        assert_eq!(
            (&backend["name"], &backend["namespace"]),
            (&"outrigger-egress-gateway".into(), &"linkerd".into())
        );
    }
    assert_eq!(of_kind("TCPRoute").len(), 2);
    undoes(world, controller, "agents").await;
    world.delete(&[("agents", "github")]).await;
    world
        .until_ours(controller, |now| kinds(now, "agents").is_empty())
        .await;
}

async fn knows_every_kind(world: &World, controller: &Controller) {
    let rpc =
        json!({"hosts": ["rpc.example"], "ports": [{"port": 50051, "protocol": "GRPC"}], "tls": {"mode": "Optional"}});
    world.add("shop", "rpc", &rpc).await;
    let database = json!({"addresses": ["203.0.113.0/24"], "ports": [{"port": 5432, "protocol": "TCP"}]});
    world.add("shop", "database", &database).await;
    world.add_wide("wide", &json!({"hosts": ["wide.example"]})).await;
    let all = [("shop", "github"), ("shop", "rpc"), ("shop", "database"), ("", "wide")];
    for (namespace, name) in all {
        world.until(namespace, name, "Programmed", controller).await;
    }
    let ours = world.ours();
    let there: BTreeSet<_> = ours.iter().map(|it| it.split(' ').next().unwrap()).collect();
    assert_eq!(there.len(), 5, "{ours:?}");
    assert!(!kinds(&ours, "linkerd-egress").is_empty(), "{ours:?}");
    undoes(world, controller, "shop").await;
    world.delete(&all).await;
    world.until_ours(controller, BTreeSet::is_empty).await;
}

/// It was refused nothing, and has no right that it has not used.
fn has_the_rights_that_it_needs(world: &World) {
    let mut asked = world.cluster.audit_log();
    asked.retain(AuditEvent::is_of_the_controller);
    let refused: Vec<_> = asked.iter().filter(|event| event.code() == 403).collect();
    assert!(refused.is_empty(), "{refused:?}");
    let used: BTreeSet<_> = asked.iter().filter_map(AuditEvent::right).collect();
    let granted = granted_by(&world.rights);
    let idle: Vec<_> = granted.difference(&used).collect();
    assert!(granted.len() > 30 && idle.is_empty(), "nobody needs {idle:?}");
}

#[tokio::test]
async fn what_others_made_is_left_alone_and_reported() {
    let Some(world) = World::new(&["shop", "bank", "spare"], &[]).await else {
        return;
    };
    // The name of a route depends on policy and hosts alone.
    world.add("spare", "a", &closed("a.example")).await;
    let controller = world.controller("one");
    world.until("spare", "a", "Programmed", &controller).await;
    let ours = world.ours();
    let path = ours.iter().find(|it| it.starts_with("TLSRoute spare/")).unwrap();
    assert!(path.starts_with("TLSRoute spare/outrigger-a-"));

    let network = json!({
        "apiVersion": "policy.linkerd.io/v1alpha1", "kind": "EgressNetwork",
        "metadata": {"name": "outrigger-outside"}, "spec": {"trafficPolicy": "Allow"},
    });
    let networks = "/apis/policy.linkerd.io/v1alpha1/namespaces/bank/egressnetworks";
    let theirs = world.send(Verb::Create, networks, Some(&network)).await;
    world.add("bank", "a", &closed("a.example")).await;
    let conditions = world.until("bank", "a", "ForeignEgressNetwork", &controller).await;
    let message = conditions[1]["message"].as_str().unwrap();
    assert!(
        message.contains("EgressNetwork bank/outrigger-outside is not Outrigger's"),
        "{message}"
    );

    // A route that somebody has made his own.
    world.add("shop", "a", &closed("a.example")).await;
    world.until("shop", "a", "Programmed", &controller).await;
    let ours = world.ours();
    let name = ours.iter().find_map(|it| it.strip_prefix("TLSRoute shop/")).unwrap();
    let route = format!("{GATEWAY_API}/v1alpha2/namespaces/shop/tlsroutes/{name}");
    let taken =
        json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}, "spec": {"hostnames": ["me.example"]}});
    let taken = world.send(Verb::Patch, &route, Some(&taken)).await;
    let conditions = world.until("shop", "a", "ForeignObject", &controller).await;
    let message = conditions[1]["message"].as_str().unwrap();
    assert_eq!(
        message,
        format!("TLSRoute shop/{name} is not Outrigger's, and is left as it is")
    );
    world.delete(&[("bank", "a"), ("spare", "a")]).await;
    world
        .until_ours(&controller, |now| now.iter().all(|it| it.contains(" shop/")))
        .await;
    let outside = format!("{networks}/outrigger-outside");
    assert_eq!(
        world.send(Verb::Get, &outside, None).await["metadata"]["resourceVersion"],
        theirs["metadata"]["resourceVersion"]
    );
    assert_eq!(
        world.send(Verb::Get, &route, None).await["metadata"]["generation"],
        taken["metadata"]["generation"]
    );

    // Once it is gone, ours takes its place.
    world.send(Verb::Delete, &route, None).await;
    world.until("shop", "a", "Programmed", &controller).await;
    assert!(world.ours().contains(&format!("TLSRoute shop/{name}")));
}

#[tokio::test]
async fn a_kind_that_is_missing_hinders_those_alone_who_need_it() {
    let Some(world) = World::new(&["shop", "bank"], &["TLSRoute"]).await else {
        return;
    };
    world.add("shop", "a", &closed("a.example")).await;
    let plain = json!({"hosts": ["b.example"], "ports": [{"port": 8080, "protocol": "HTTP"}]});
    world.add("bank", "b", &plain).await;
    world.add_wide("wide", &plain).await;
    let controller = world.controller("one");
    let conditions = world.until("shop", "a", "KindMissing", &controller).await;
    let expected = "the API server has no TLSRoute of gateway.networking.k8s.io/v1alpha2";
    assert_eq!(conditions[1]["message"], expected);
    world.until("bank", "b", "Programmed", &controller).await;
    let conditions = world.until("", "wide", "NamespaceMissing", &controller).await;
    assert_eq!(conditions[1]["message"], "there is no namespace linkerd-egress");
    let output = world.cluster.kubectl([
        "get",
        "egressnetworks,httproutes",
        "--namespace",
        "shop",
        "--output",
        "name",
    ]);
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 4);
    controller.until("/ready", "ok").await;

    let mut definitions = crate::foreign::gateway_api("1.4");
    definitions.retain(|definition| definition["spec"]["names"]["kind"] == "TLSRoute");
    crate::define(&world.cluster, &definitions);
    world.until("shop", "a", "Programmed", &controller).await;
    let namespace = json!({"metadata": {"name": "linkerd-egress"}});
    world.send(Verb::Create, "/api/v1/namespaces", Some(&namespace)).await;
    world.until("", "wide", "Programmed", &controller).await;
}

#[tokio::test]
async fn one_of_two_works() {
    let Some(world) = World::new(&["shop"], &[]).await else {
        return;
    };
    let one = world.controller("one");
    one.leads().await;
    let two = world.controller("two");
    two.until("/ready", "ok").await;
    two.until("/metrics", "outrigger_egress_controller_leading 0\n").await;
    world.add("shop", "a", &closed("a.example")).await;
    world.until("shop", "a", "Programmed", &one).await;
    assert_eq!(world.holder().await, "one");
    two.until("/metrics", "outrigger_egress_controller_passes_total 0\n")
        .await;

    // Killed, it says nothing to anybody, and what is changed meanwhile is seen by the next one.
    drop(one);
    let narrow = json!({"spec": {"networks": [{"cidr": "198.51.100.0/24"}]}});
    world.meddle("EgressNetwork shop/outrigger-outside", &narrow);
    two.leads().await;
    let is_wide = |_: &BTreeSet<String>| {
        let shown = world.objects(&["--namespace", "shop"]);
        let outside = shown.iter().find(|it| it["metadata"]["name"] == "outrigger-outside");
        outside.unwrap()["spec"] == json!({"trafficPolicy": "Deny"})
    };
    world.until_ours(&two, is_wide).await;
    world.add("shop", "b", &closed("b.example")).await;
    world.until("shop", "b", "Programmed", &two).await;

    // Told to stop, it hands over.
    let three = world.controller("three");
    three.until("/ready", "ok").await;
    assert!(two.stop().await.success());
    three.leads().await;
    assert_eq!(world.holder().await, "three");
}

#[tokio::test]
async fn a_hundred_policies_are_written_once() {
    let names: Vec<_> = (0..10).map(|number| format!("team-{number}")).collect();
    let namespaces: Vec<_> = names.iter().map(String::as_str).collect();
    let Some(world) = World::new(&namespaces, &[]).await else {
        return;
    };
    for namespace in &namespaces {
        for number in 0..10 {
            world
                .add(namespace, &format!("p{number}"), &closed(&format!("h{number}.example")))
                .await;
        }
    }
    let controller = world.controller("one");
    for namespace in &namespaces {
        for number in 0..10 {
            world
                .until(namespace, &format!("p{number}"), "Programmed", &controller)
                .await;
        }
    }
    let objects = world.ours().len();
    assert_eq!(objects, 10 * (2 + 10 * 2));
    let writes = world.writes();
    let once: BTreeSet<_> = writes.iter().collect();
    assert_eq!((writes.len(), once.len()), (objects + 100, objects + 100));
    let reads = world.asked().len() - writes.len();

    // What comes later is all that is written then, though everything is compiled anew.
    world.add("team-0", "late", &closed("late.example")).await;
    world.until("team-0", "late", "Programmed", &controller).await;
    let later = world.writes();
    assert_eq!(later[..writes.len()], writes[..]);
    let new: BTreeSet<_> = later[writes.len()..]
        .iter()
        .map(|it| it.split('-').next().unwrap())
        .collect();
    assert_eq!(later.len(), writes.len() + 3, "two routes and a status: {new:?}");
    assert_eq!(world.asked().len() - later.len(), reads, "nothing is listed anew");

    // One that starts anew finds everything as it has to be.
    assert!(controller.stop().await.success());
    let versions = |world: &World| -> Vec<Value> {
        let all = world.objects(&["--all-namespaces"]);
        all.iter()
            .map(|object| object["metadata"]["resourceVersion"].clone())
            .collect()
    };
    let before = versions(&world);
    let other = world.controller("two");
    world.add("team-1", "late", &closed("late.example")).await;
    world.until("team-1", "late", "Programmed", &other).await;
    world.delete(&[("team-1", "late")]).await;
    world.until_ours(&other, |now| now.len() == objects + 2).await;
    assert_eq!(versions(&world), before);
    let statuses = world.writes().iter().filter(|it| it.contains("/status")).count();
    assert_eq!(statuses, 102);
}

/// Has the API server refuse to create `resources` in the namespace `bank`, and networks too; the path of what says so.
async fn refuse_in_bank(world: &World, resources: &[(&str, &str)]) -> String {
    let rules: Vec<_> = [("policy.linkerd.io", "egressnetworks")]
        .iter()
        .chain(resources)
        .map(|(group, resource)| {
            json!({"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE"], "resources": [resource]})
        })
        .collect();
    let admission = "/apis/admissionregistration.k8s.io/v1";
    let never = json!({"metadata": {"name": "never"}, "spec": {
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "object.metadata.namespace != 'bank'", "message": "not in the bank"}],
    }});
    let path = format!("{admission}/validatingadmissionpolicies");
    world.send(Verb::Create, &path, Some(&never)).await;
    let binding =
        json!({"metadata": {"name": "never"}, "spec": {"policyName": "never", "validationActions": ["Deny"]}});
    let path = format!("{admission}/validatingadmissionpolicybindings");
    world.send(Verb::Create, &path, Some(&binding)).await;
    world.is_refused("bank").await;
    format!("{path}/never")
}

#[tokio::test]
async fn what_closes_stays_until_everything_is_there_that_replaces_it() {
    let Some(world) = World::new(&["bank"], &[]).await else {
        return;
    };
    world.add("bank", "a", &closed("a.example")).await;
    let controller = world.controller("one");
    world.until("bank", "a", "Programmed", &controller).await;
    let before = world.objects(&["--namespace", "bank"]);
    let binding = refuse_in_bank(&world, &[("gateway.networking.k8s.io", "httproutes")]).await;
    let open = json!({"hosts": ["b.example"], "allowlist": "Disabled"});
    world.change("bank", "a", &open).await;
    let conditions = world.until("bank", "a", "Refused", &controller).await;
    let message = conditions[1]["message"].as_str().unwrap();
    assert!(message.starts_with("HTTPRoute bank/outrigger-a-"), "{message}");
    let specs = |objects: &[Value]| {
        let specs = objects
            .iter()
            .map(|it| format!("{} {}", it["metadata"]["name"], it["spec"]));
        specs.collect::<BTreeSet<_>>()
    };
    assert_eq!(specs(&world.objects(&["--namespace", "bank"])), specs(&before));
    world.send(Verb::Delete, &binding, None).await;
    world.until("bank", "a", "Programmed", &controller).await;
    let is_open = |_: &BTreeSet<String>| {
        let after = specs(&world.objects(&["--namespace", "bank"]));
        let outside = after.iter().find(|it| it.starts_with("\"outrigger-outside\""));
        outside.is_some_and(|it| it.contains("Allow")) && after.iter().all(|it| !it.contains("\"a.example\""))
    };
    world.until_ours(&controller, is_open).await;
}

#[tokio::test]
async fn what_is_refused_is_tried_again_and_holds_up_nobody_else() {
    let Some(mut world) = World::new(&["bank", "shop"], &[]).await else {
        return;
    };
    let binding = refuse_in_bank(&world, &[]).await;
    for namespace in ["bank", "shop"] {
        world.add(namespace, "a", &closed("a.example")).await;
    }
    let controller = world.controller("one");
    world.until("shop", "a", "Programmed", &controller).await;
    let conditions = world.until("bank", "a", "Refused", &controller).await;
    let message = conditions[1]["message"].as_str().unwrap();
    let expected =
        "EgressNetwork bank/outrigger-outside: egressnetworks.policy.linkerd.io \"outrigger-outside\" is forbidden: ";
    assert!(
        message.contains(expected) && message.contains("not in the bank"),
        "{message}"
    );
    let refused = "outrigger_egress_controller_hindered{reason=\"Refused\"} 2\n";
    controller.until("/metrics", refused).await;
    controller.until("/ready", "ok").await;
    world.send(Verb::Delete, &binding, None).await;
    world.until("bank", "a", "Programmed", &controller).await;

    // An API server that was away is as good as one that was not.
    world.cluster.stop_api_server().await;
    controller.until_not_ready().await;
    world.cluster.restart_api_server(Options::default()).await.unwrap();
    world.add("shop", "b", &closed("b.example")).await;
    world.until("shop", "b", "Programmed", &controller).await;
    controller.until("/ready", "ok").await;
}
