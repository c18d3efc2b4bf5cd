//! Where the plugin learns about a pod: the agent first, then the API server, and nothing without an answer.

use crate::agent::Agent;
use crate::api::{Answer, Api, TOKEN, refusal};
use crate::netns::Netns;
use crate::pods::{UID, meshed};
use crate::runtime::{Run, config, has_rules};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The longest that a kubelet is kept waiting.
const LIMIT: Duration = Duration::from_secs(10);

fn add(namespace: &Netns, socket: &Path, kubeconfig: &Path) -> Run {
    Run::new("ADD", &namespace.path(), "app/meshed", &config(socket, kubeconfig))
}

fn nowhere() -> PathBuf {
    PathBuf::from("/nonexistent/outrigger")
}

#[test]
fn the_api_server_is_asked_where_there_is_no_agent() {
    let (namespace, api) = (Netns::new(), Api::with(&meshed()));
    add(&namespace, &nowhere(), &api.kubeconfig()).run().done();
    assert!(has_rules(&namespace));
    let requests = api.requests();
    assert_eq!(requests.len(), 1, "{requests:?}");
    assert!(
        requests[0].starts_with("GET /api/v1/namespaces/app/pods/meshed HTTP/1.1\r\n"),
        "{requests:?}"
    );
    assert!(
        requests[0].contains(&format!("\r\nAuthorization: Bearer {TOKEN}\r\n")),
        "{requests:?}"
    );
}

#[test]
fn the_api_server_is_not_asked_where_the_agent_answers() {
    let (namespace, api, agent) = (Netns::new(), Api::refusing(500), Agent::knowing(meshed()));
    add(&namespace, &agent.socket(), &api.kubeconfig()).run().done();
    assert!(has_rules(&namespace));
    assert_eq!(api.requests(), Vec::<String>::new());
}

#[test]
fn an_agent_that_cannot_tell_is_no_reason_to_fail() {
    let mut other = meshed();
    other["metadata"]["uid"] = json!("another");
    let args = format!("K8S_POD_NAMESPACE=app;K8S_POD_NAME=meshed;K8S_POD_UID={UID}");
    for reply in [
        json!({"error": "not synchronised yet"}).to_string(),
        json!({"pod": other}).to_string(),
        json!({"ready": true}).to_string(),
        "nonsense".to_owned(),
        String::new(),
    ] {
        let (namespace, api) = (Netns::new(), Api::with(&meshed()));
        let agent = Agent::new(move |_| reply.clone() + "\n");
        let run = add(&namespace, &agent.socket(), &api.kubeconfig()).with("CNI_ARGS", &args);
        run.run().done();
        assert!(has_rules(&namespace));
    }
}

#[test]
fn an_api_server_in_trouble_is_asked_again() {
    let namespace = Netns::new();
    let api = Api::new([refusal(503), refusal(429), refusal(404), Answer::Send(200, meshed())]);
    add(&namespace, &nowhere(), &api.kubeconfig()).run().done();
    assert!(has_rules(&namespace));
    assert_eq!(api.requests().len(), 4);
}

#[test]
fn credentials_that_are_refused_are_named_and_succeed_once_they_are_renewed() {
    let namespace = Netns::new();
    for (status, words) in [(401, "the token, which may have expired"), (403, "may not get pods")] {
        let api = Api::new([refusal(status), Answer::Send(200, meshed())]);
        let run = add(&namespace, &nowhere(), &api.kubeconfig());
        let message = run.run().failed(11);
        let path = api.kubeconfig().display().to_string();
        assert!(
            message.contains(words) && message.contains(&path) && !message.contains(TOKEN),
            "{message}"
        );
        assert!(!has_rules(&namespace));
        run.run().done();
        assert!(has_rules(&namespace));
        run.with("CNI_COMMAND", "DEL").run().done();
    }
}

#[test]
fn a_token_file_is_read_each_time() {
    let (namespace, api) = (Netns::new(), Api::with(&meshed()));
    api.write_credentials(&json!({"tokenFile": "token"}));
    for token in ["first", "second"] {
        std::fs::write(api.folder().join("token"), format!("{token}\n")).expect("a file can be written");
        add(&namespace, &nowhere(), &api.kubeconfig()).run().done();
        assert!(
            api.requests()
                .last()
                .is_some_and(|request| request.contains(&format!("Bearer {token}\r\n")))
        );
    }
}

#[test]
fn proxies_of_the_environment_are_not_used() {
    let (namespace, api) = (Netns::new(), Api::with(&meshed()));
    let names = [
        "HTTPS_PROXY",
        "https_proxy",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ];
    let run = add(&namespace, &nowhere(), &api.kubeconfig());
    let run = names.iter().fold(run, |run, name| run.with(name, "http://127.0.0.1:1"));
    run.run().done();
    assert_eq!(api.requests().len(), 1);
}

#[test]
fn a_server_that_nobody_vouches_for_is_not_told_the_token() {
    let (namespace, api, other) = (Netns::new(), Api::with(&meshed()), Api::with(&meshed()));
    std::fs::copy(other.folder().join("ca.crt"), api.folder().join("ca.crt")).expect("a file can be copied");
    let begun = Instant::now();
    let message = add(&namespace, &nowhere(), &api.kubeconfig()).run().failed(11);
    assert!(begun.elapsed() <= LIMIT, "{:?}", begun.elapsed());
    assert!(message.contains("certificate"), "{message}");
    assert_eq!(api.requests(), Vec::<String>::new());
    assert!(!has_rules(&namespace));
}

#[test]
fn a_kubelet_is_never_kept_waiting_for_longer_than_ten_seconds() {
    let silent = Api::new([Answer::Nothing]);
    let closed = Api::with(&meshed());
    let text = std::fs::read_to_string(closed.kubeconfig()).expect("it was written");
    let url = text
        .split('"')
        .find(|part| part.starts_with("https://"))
        .expect("it names a server");
    std::fs::write(closed.kubeconfig(), text.replace(url, "https://127.0.0.1:1")).expect("a file can be written");
    let mute = Agent::new(|_| {
        std::thread::park();
        String::new()
    });
    let namespace = Netns::new();
    let kubeconfigs = [silent.kubeconfig(), closed.kubeconfig(), nowhere()];
    std::thread::scope(|scope| {
        for (kubeconfig, socket) in kubeconfigs.iter().zip([mute.socket(), nowhere(), nowhere()]) {
            let namespace = &namespace;
            scope.spawn(move || {
                let begun = Instant::now();
                let message = add(namespace, &socket, kubeconfig).run().failed(11);
                assert!(begun.elapsed() <= LIMIT, "{:?}: {message}", begun.elapsed());
            });
        }
    });
    assert!(!has_rules(&namespace));
}

#[test]
fn status_says_whether_anybody_can_be_asked() {
    let namespace = Netns::new();
    let status =
        |socket: &Path, kubeconfig: &Path| add(&namespace, socket, kubeconfig).with("CNI_COMMAND", "STATUS").run();
    let agent = Agent::knowing(meshed());
    assert_eq!(status(&agent.socket(), &nowhere()).done(), "");
    assert_eq!(agent.asked(), [json!({"status": true})]);
    for api in [Api::with(&meshed()), Api::refusing(404)] {
        assert_eq!(status(&nowhere(), &api.kubeconfig()).done(), "");
        let starting = Agent::new(|_| json!({"error": "not synchronised yet"}).to_string() + "\n");
        assert_eq!(status(&starting.socket(), &api.kubeconfig()).done(), "");
    }
    for code in [401, 403, 500] {
        let message = status(&nowhere(), &Api::refusing(code).kubeconfig()).failed(50);
        assert!(message.contains(&format!("status {code}")), "{message}");
    }
    let neither = status(&nowhere(), &nowhere()).failed(50);
    assert!(
        neither.contains("agent at /nonexistent/outrigger") && neither.contains("credentials"),
        "{neither}"
    );
    let mut without = config(&nowhere(), &nowhere());
    without["kubernetes"] = json!(null);
    let unnamed = add(&namespace, &nowhere(), &nowhere())
        .with("CNI_COMMAND", "STATUS")
        .input(&without.to_string());
    assert!(unnamed.run().failed(50).contains("kubernetes.kubeconfig"));
}

#[test]
fn what_is_no_api_server_is_not_believed() {
    let namespace = Netns::new();
    let api = Api::new([Answer::Send(404, json!({"message": "not found"}))]);
    let run = add(&namespace, &nowhere(), &api.kubeconfig());
    assert!(
        run.with("CNI_COMMAND", "STATUS")
            .run()
            .failed(50)
            .contains("status 404")
    );
    let api = Api::new([Answer::Send(200, Value::Null)]);
    let message = add(&namespace, &nowhere(), &api.kubeconfig()).run().failed(11);
    assert!(message.contains("its answer is no pod"), "{message}");
    assert!(!has_rules(&namespace));
}
