//! Many pods at once.

use crate::agent::Agent;
use crate::netns::Netns;
use crate::pods::meshed;
use crate::rules::native;
use crate::runtime::{Run, config};
use std::path::Path;
use std::thread;

const PODS: usize = 100;

#[test]
fn a_hundred_pods_at_once_all_get_their_rules_and_none_keeps_them() {
    let agent = Agent::knowing(meshed());
    let config = config(&agent.socket(), Path::new("/nonexistent/kubeconfig"));
    let namespaces: Vec<Netns> = (0..PODS).map(|_| Netns::new()).collect();
    let all = |verb: &str| {
        thread::scope(|scope| {
            for namespace in &namespaces {
                let run = Run::new(verb, &namespace.path(), "app/meshed", &config);
                scope.spawn(move || run.run().done());
            }
        });
    };
    all("ADD");
    all("CHECK");
    let rules: Vec<String> = namespaces.iter().map(native).collect();
    assert!(rules[0].contains("skuid 2102"), "{}", rules[0]);
    assert!(rules.iter().all(|other| *other == rules[0]));
    // A second ADD beside the DEL of others: half of them end with rules, half without.
    thread::scope(|scope| {
        for (index, namespace) in namespaces.iter().enumerate() {
            let verb = if index % 2 == 0 { "ADD" } else { "DEL" };
            let run = Run::new(verb, &namespace.path(), "app/meshed", &config);
            scope.spawn(move || run.run().done());
        }
    });
    let with = namespaces
        .iter()
        .filter(|namespace| native(namespace) == rules[0])
        .count();
    assert_eq!(with, PODS / 2);
    all("DEL");
    assert!(namespaces.iter().all(|namespace| native(namespace).is_empty()));
}
