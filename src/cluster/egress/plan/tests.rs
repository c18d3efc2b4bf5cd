use super::*;
use crate::cluster::egress::known::{Listed, Seen};
use crate::egress::compile::kinds::{KINDS, NETWORK};
use crate::egress::compile::{GatewayService, MANAGED_BY};
use serde_json::json;
use std::time::Duration;

const GLOBAL: &str = "linkerd-egress";

/// A cluster with these namespaces, of which every kind was listed.
fn view(namespaces: &[&str]) -> View {
    let mut view = View::default();
    view.policies.iter_mut().for_each(|found| found.reset(Vec::new()));
    let there = namespaces.iter().map(|name| ((*name).into(), ()));
    view.namespaces.reset(there.collect());
    view.objects
        .iter_mut()
        .for_each(|listed| listed.found.reset(Vec::new()));
    view
}

fn add_policy(view: &mut View, namespace: Option<&str>, name: &str, spec: &Value) {
    let kind = if namespace.is_some() {
        "EgressPolicy"
    } else {
        "ClusterEgressPolicy"
    };
    let object = json!({
        "apiVersion": "outrigger.linkerd.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    });
    let path = format!("{}/{name}", namespace.unwrap_or_default());
    view.policies[usize::from(namespace.is_none())].apply(path.as_str().into(), object);
}

fn closed(host: &str) -> Value {
    json!({"hosts": [host], "allowlist": "Enabled"})
}

fn add_object(view: &mut View, kind: &str, path: &str, is_ours: bool) {
    let index = KINDS.iter().position(|it| it.name == kind).unwrap();
    let seen = Seen {
        stamp: Stamp {
            uid: path.to_owned(),
            generation: 1,
        },
        is_ours,
        is_going: false,
    };
    view.objects[index].found.apply(path.into(), seen);
}

fn plan(view: &View, attempts: &Attempts) -> Plan {
    let surroundings = Surroundings {
        global_namespace: GLOBAL.to_owned(),
        gateway: Some(GatewayService {
            name: "gate".to_owned(),
            namespace: "linkerd".to_owned(),
        }),
        cluster_networks: vec!["10.96.0.0/12".parse().unwrap()],
        ..Surroundings::default()
    };
    Plan::new(view, attempts, &surroundings, Instant::now())
}

/// What is applied in a namespace, in order: the kinds.
fn applied(plan: &Plan, namespace: &str) -> Vec<&'static str> {
    let work = plan.work.get(namespace);
    let keys = work.into_iter().flat_map(|work| &work.apply).map(|apply| &apply.key);
    keys.map(|key| key.kind().unwrap().name).collect()
}

fn deleted(plan: &Plan, namespace: &str) -> Vec<String> {
    let work = plan.work.get(namespace);
    work.into_iter()
        .flat_map(|work| &work.delete)
        .map(|(key, _)| key.to_string())
        .collect()
}

fn hindrances(plan: &Plan) -> BTreeSet<&'static str> {
    plan.hindered.iter().map(|(_, _, hindrance)| hindrance.code()).collect()
}

#[test]
fn routes_come_before_networks_and_networks_go_before_routes() {
    let mut view = view(&["shop"]);
    add_policy(&mut view, Some("shop"), "a", &closed("a.example"));
    for (kind, path) in [
        ("EgressNetwork", "shop/old"),
        ("HTTPRoute", "shop/old"),
        ("TLSRoute", "shop/old"),
    ] {
        add_object(&mut view, kind, path, true);
    }
    let plan = plan(&view, &Attempts::default());
    let expected = ["HTTPRoute", "TLSRoute", "EgressNetwork", "EgressNetwork"];
    assert_eq!(applied(&plan, "shop"), expected);
    let expected = ["EgressNetwork shop/old", "TLSRoute shop/old", "HTTPRoute shop/old"];
    assert_eq!(deleted(&plan, "shop"), expected);
}

#[test]
fn what_loosens_comes_last_and_what_closes_everything_before_what_closes_a_part() {
    let mut view = view(&["agents", "shop"]);
    let mut gated = closed("a.example");
    gated["placement"] = "Gateway".into();
    gated["workloads"] = json!({"serviceAccounts": ["agent"]});
    add_policy(&mut view, Some("agents"), "gated", &gated);
    let open = json!({"addresses": ["203.0.113.7"], "ports": [{"port": 5432, "protocol": "TCP"}]});
    add_policy(&mut view, Some("agents"), "open", &open);
    add_policy(&mut view, Some("shop"), "a", &closed("a.example"));
    let plan = plan(&view, &Attempts::default());
    let kinds = applied(&plan, "agents");
    let fence = kinds.iter().position(|kind| *kind == "NetworkPolicy");
    assert!(fence.is_none_or(|place| kinds[..place].iter().all(|kind| kind.ends_with("Route"))));
    let networks = |namespace: &str| {
        let all = plan.work[namespace]
            .apply
            .iter()
            .filter(|apply| apply.key.kind() == Some(&NETWORK));
        all.map(|apply| (apply.key.name.clone(), apply.loosens()))
            .collect::<Vec<_>>()
    };
    let named = |expected: [(&str, bool); 2]| expected.map(|(name, loosens)| (name.to_owned(), loosens)).to_vec();
    assert_eq!(
        networks("shop"),
        named([("outrigger-outside", false), ("outrigger-metadata", false)])
    );
    let agents = networks("agents");
    assert_eq!(agents[0], ("outrigger-metadata".to_owned(), false));
    assert_eq!(agents[1..].iter().filter(|(_, loosens)| *loosens).count(), 2);
}

#[test]
fn what_is_not_ours_is_neither_applied_to_nor_deleted() {
    let mut view = view(&["shop"]);
    add_policy(&mut view, Some("shop"), "a", &closed("a.example"));
    add_object(&mut view, "EgressNetwork", "shop/outrigger-outside", false);
    add_object(&mut view, "HTTPRoute", "shop/theirs", false);
    let plan = plan(&view, &Attempts::default());
    assert_eq!(applied(&plan, "shop"), ["HTTPRoute", "TLSRoute", "EgressNetwork"]);
    assert_eq!(deleted(&plan, "shop"), [""; 0]);
    assert_eq!(hindrances(&plan), BTreeSet::from(["ForeignObject"]));
}

#[test]
fn what_is_missing_hinders_no_more_than_it_must() {
    let mut view = view(&["shop"]);
    add_policy(&mut view, Some("shop"), "a", &closed("a.example"));
    add_policy(&mut view, None, "wide", &closed("b.example"));
    let tls = KINDS.iter().position(|kind| kind.name == "TLSRoute").unwrap();
    view.objects[tls] = Listed {
        is_missing: true,
        ..Listed::default()
    };
    let plan = plan(&view, &Attempts::default());
    assert!(applied(&plan, "shop").contains(&"EgressNetwork"));
    assert!(!applied(&plan, "shop").contains(&"TLSRoute"));
    assert_eq!(applied(&plan, GLOBAL), [""; 0]);
    assert_eq!(hindrances(&plan), BTreeSet::from(["KindMissing", "NamespaceMissing"]));
}

/// Of an address that is none, the schema knows nothing.
#[test]
fn a_policy_that_cannot_be_read_holds_its_namespace() {
    let mut view = view(&["bank", "shop"]);
    for namespace in ["bank", "shop"] {
        add_policy(&mut view, Some(namespace), "a", &closed("a.example"));
        add_object(&mut view, "EgressNetwork", &format!("{namespace}/old"), true);
    }
    add_policy(&mut view, Some("shop"), "bad", &json!({"addresses": ["300.0.0.1"]}));
    let held = plan(&view, &Attempts::default());
    // Those that deny.
    assert_eq!(applied(&held, "shop"), ["EgressNetwork"; 2]);
    assert_eq!(deleted(&held, "shop"), [""; 0]);
    assert!(!applied(&held, "bank").is_empty() && !deleted(&held, "bank").is_empty());
    assert_eq!(hindrances(&held), BTreeSet::from(["Held"]));
    let bad = held
        .compiled
        .verdicts
        .iter()
        .find(|it| it.policy == "EgressPolicy/shop/bad");
    assert_eq!(bad.unwrap().conditions[0].reason, "Invalid");

    add_policy(&mut view, None, "bad", &json!({"addresses": ["300.0.0.1"]}));
    let held = plan(&view, &Attempts::default());
    for namespace in ["bank", "shop"] {
        assert_eq!(applied(&held, namespace), ["EgressNetwork"; 2]);
        assert_eq!(deleted(&held, namespace), [""; 0]);
    }
}

/// A network of its own keeps the global ones away from a namespace: one that is for a part of all addresses comes there after one
/// that closes all.
#[test]
fn where_something_is_held_networks_come_that_only_close() {
    let mut view = view(&["shop"]);
    let open = json!({"hosts": ["a.example"], "allowlist": "Disabled"});
    add_policy(&mut view, Some("shop"), "a", &open);
    add_policy(&mut view, Some("shop"), "bad", &json!({"addresses": ["300.0.0.1"]}));
    assert_eq!(applied(&plan(&view, &Attempts::default()), "shop"), [""; 0]);
    add_policy(&mut view, Some("shop"), "b", &closed("b.example"));
    let names = |plan: &Plan| -> Vec<_> {
        plan.work["shop"]
            .apply
            .iter()
            .map(|apply| apply.key.name.clone())
            .collect()
    };
    assert_eq!(names(&plan(&view, &Attempts::default())), ["outrigger-outside"]);
    add_object(&mut view, "EgressNetwork", "shop/outrigger-outside", true);
    let expected = ["outrigger-outside", "outrigger-metadata"];
    assert_eq!(names(&plan(&view, &Attempts::default())), expected);
    add_object(&mut view, "EgressNetwork", "shop/outrigger-metadata", true);
    assert_eq!(names(&plan(&view, &Attempts::default())), ["outrigger-outside"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_applied_is_repaired_where_something_is_held() {
    let mut view = view(&["shop"]);
    add_policy(&mut view, Some("shop"), "a", &closed("a.example"));
    add_policy(&mut view, Some("shop"), "b", &json!({"hosts": ["b.example"]}));
    let mut attempts = Attempts::default();
    let first = plan(&view, &attempts);
    write(&mut view, &mut attempts, &first);
    // One policy cannot be read any more, and the other is loosened.
    add_policy(&mut view, Some("shop"), "b", &json!({"addresses": ["300.0.0.1"]}));
    let open = json!({"hosts": ["a.example"], "allowlist": "Disabled"});
    add_policy(&mut view, Some("shop"), "a", &open);
    let held = plan(&view, &attempts);
    assert!(held.work.is_empty(), "{:?}", held.work);
    assert_eq!(hindrances(&held), BTreeSet::from(["Held"]));
    attempts.retain(&held.targets);

    // Somebody takes all of it away, and it comes again as it was.
    for listed in &mut view.objects {
        listed.found.reset(Vec::new());
    }
    tokio::time::advance(Duration::from_secs(60)).await;
    let again = plan(&view, &attempts);
    let objects = |plan: &Plan| -> Vec<_> {
        let all = plan.work["shop"].apply.iter().map(|apply| apply.object.to_string());
        all.collect()
    };
    assert_eq!(objects(&again), objects(&first));
    assert!(again.work["shop"].apply.iter().all(|apply| apply.is_repair));
    let key = again.work["shop"].apply[0].key.clone();
    let refused = Hindrance::Refused {
        object: key.to_string(),
        message: "no".to_owned(),
    };
    let object = again.work["shop"].apply[0].object.clone();
    attempts.note(Target::Object(key), object, Outcome::Hindered(refused), Instant::now());
    attempts.retain(&again.targets);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(objects(&plan(&view, &attempts)), objects(&first));
}

/// Everything is written that is planned.
fn write(view: &mut View, attempts: &mut Attempts, plan: &Plan) {
    for Apply { key, object, .. } in plan.work.values().flat_map(|work| &work.apply) {
        add_object(view, key.kind().unwrap().name, &key.path(), true);
        let stamp = view.seen(key).unwrap().stamp.clone();
        let target = Target::Object(key.clone());
        attempts.note(target, object.clone(), Outcome::Done(stamp), Instant::now());
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_written_is_left_alone_until_somebody_changes_it() {
    let mut view = view(&["shop"]);
    add_policy(&mut view, Some("shop"), "a", &closed("a.example"));
    let mut attempts = Attempts::default();
    let first = plan(&view, &attempts);
    write(&mut view, &mut attempts, &first);
    let settled = plan(&view, &attempts);
    assert!(settled.work.is_empty() && settled.again.is_none());
    assert_eq!(settled.targets, first.targets);

    // Somebody changes one, and takes the label off another.
    let [http, _, _, _, _, network] = &mut view.objects;
    let (path, mut seen) = http
        .found
        .named()
        .map(|(path, seen)| (path.to_owned(), seen.clone()))
        .next()
        .unwrap();
    seen.stamp.generation = 2;
    http.found.apply(path.as_str().into(), seen);
    let (path, mut seen) = network
        .found
        .named()
        .map(|(path, seen)| (path.to_owned(), seen.clone()))
        .next()
        .unwrap();
    seen.is_ours = false;
    network.found.apply(path.as_str().into(), seen);
    tokio::time::advance(Duration::from_secs(60)).await;
    let again = plan(&view, &attempts);
    assert_eq!(applied(&again, "shop"), ["HTTPRoute"]);
    assert_eq!(hindrances(&again), BTreeSet::from(["ForeignObject"]));
}

#[test]
fn what_closes_stays_where_what_replaces_it_is_hindered() {
    let mut view = view(&["bank", "shop"]);
    add_policy(&mut view, Some("shop"), "a", &closed("a.example"));
    let mut plan = plan(&view, &Attempts::default());
    for (kind, path) in [
        ("EgressNetwork", "bank/old"),
        ("TLSRoute", "bank/old"),
        ("EgressNetwork", "shop/old"),
        ("TLSRoute", "shop/old"),
    ] {
        add_object(&mut view, kind, path, true);
    }
    let keys: Vec<_> = view.ours().map(|(key, _)| key).collect();
    let mut may = |namespace: &str, name: &str, hindrance: Hindrance| {
        let kind = KINDS.iter().position(|kind| kind.name == name).unwrap();
        let (namespace, name) = (namespace.to_owned(), "new".to_owned());
        let key = Key { kind, namespace, name };
        plan.hindered = vec![(key, Value::Null, hindrance)];
        let barriers = plan.barriers(GLOBAL);
        let free = keys.iter().filter(|key| barriers.let_go(key));
        free.map(Key::to_string).collect::<Vec<_>>().join(", ")
    };
    let named = |text: &str| text.to_owned();
    let hindrances = [
        Hindrance::KindMissing {
            kind: named("a"),
            api_version: named("b"),
        },
        Hindrance::NamespaceMissing {
            namespace: named(GLOBAL),
        },
        Hindrance::ForeignObject { object: named("a") },
        Hindrance::Held { policy: named("a") },
        Hindrance::Refused {
            object: named("a"),
            message: named("no"),
        },
    ];
    assert_eq!(hindrances.each_ref().map(Hindrance::code), Hindrance::CODES);
    for hindrance in hindrances {
        for kind in ["EgressNetwork", "TLSRoute"] {
            assert_eq!(
                may("shop", kind, hindrance.clone()),
                "TLSRoute bank/old, EgressNetwork bank/old"
            );
        }
        for kind in ["EgressNetwork", "NetworkPolicy"] {
            assert_eq!(may(GLOBAL, kind, hindrance.clone()), "TLSRoute shop/old");
        }
        let all = "TLSRoute bank/old, TLSRoute shop/old, EgressNetwork bank/old, EgressNetwork shop/old";
        assert_eq!(may(GLOBAL, "TLSRoute", hindrance), all);
    }
}

#[test]
fn everything_that_is_compiled_is_of_a_kind_that_is_known() {
    let mut view = view(&["agents", "shop"]);
    add_policy(&mut view, Some("shop"), "a", &closed("a.example"));
    let mut gated = closed("a.example");
    gated["placement"] = "Gateway".into();
    add_policy(&mut view, Some("agents"), "gated", &gated);
    let rpc =
        json!({"hosts": ["rpc.example"], "ports": [{"port": 50051, "protocol": "GRPC"}], "tls": {"mode": "Optional"}});
    add_policy(&mut view, Some("shop"), "rpc", &rpc);
    let database = json!({"addresses": ["203.0.113.0/24"], "ports": [{"port": 5432, "protocol": "TCP"}]});
    add_policy(&mut view, Some("shop"), "database", &database);
    let plan = plan(&view, &Attempts::default());
    let kinds: BTreeSet<_> = ["agents", "shop"].iter().flat_map(|it| applied(&plan, it)).collect();
    assert_eq!(kinds, KINDS.map(|kind| kind.name).into());
    let all: Vec<_> = plan.work.values().flat_map(|work| &work.apply).collect();
    assert_eq!(all.len(), plan.compiled.objects.len());
    let labels = all.iter().map(|apply| &apply.object["metadata"]["labels"]);
    assert!(labels.into_iter().all(|labels| labels[MANAGED_BY.0] == MANAGED_BY.1));
}
