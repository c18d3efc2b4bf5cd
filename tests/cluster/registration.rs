//! Making the API server call a webhook, for the namespaces of one test.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use serde_json::{Value, json};

use super::{Namespace, Verb, Webhook, call, poll, repository};

/// How the label of the namespaces whose objects go to a webhook begins; the number of its registration follows.
const LABEL: &str = "test/webhook-";

/// The label of pods that show whether the registration is in force.
const TRIPWIRE: &str = "test/tripwire";

/// The API server learns of a configuration by a watch, in well under a second.
const LIMIT: Duration = Duration::from_secs(30);

/// What the API server does with a request when its webhook cannot answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FailurePolicy {
    Fail,
    Ignore,
}

impl FailurePolicy {
    /// The file in `webhook-config` that has it.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Fail => "webhook-config/ha/mutating-webhook-configuration.yaml",
            Self::Ignore => "webhook-config/mutating-webhook-configuration.yaml",
        }
    }

    /// The manifest with that authority (PEM) for `CA_BUNDLE`, and `port` of the webhook's Service.
    pub(crate) fn filled_in(self, authority: &[u8], port: u16) -> String {
        let text = fs::read_to_string(repository().join(self.file())).expect("the manifest is there");
        let text = text.replace("CA_BUNDLE", &STANDARD.encode(authority));
        text.replace("      path: /\n", &format!("      path: /\n      port: {port}\n"))
    }

    /// What is installed for a server of that minor release.
    pub(crate) fn manifest(self, minor: u32) -> Value {
        let mut program = Command::new(env!("CARGO_BIN_EXE_outrigger"));
        program.args(["install", "--show-only=templates/mutating-webhook-configuration.yaml"]);
        program.arg(format!("--server-version=1.{minor}"));
        program.args(match self {
            Self::Fail => &["--ha"][..],
            Self::Ignore => &[],
        });
        let output = program.output().expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_saphyr::from_slice(&output.stdout).expect("it prints YAML")
    }
}

/// A webhook configuration that is in force.
#[derive(Debug)]
pub(crate) struct Registration {
    name: String,
    label: String,
}

impl Registration {
    /// Has `webhook` called as an installation says, and waits until the API server heeds it.
    pub(crate) async fn create(client: &Client, webhook: &Webhook, on_failure: FailurePolicy) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let registration = Self {
            name: format!("test-{number}"),
            label: format!("{LABEL}{number}"),
        };
        let object = registration.configuration(webhook, on_failure.manifest(minor(client).await));
        let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
        let reply = call(client, Verb::Create, path, Some(&object))
            .await
            .expect("the API server answers");
        assert!(reply.accepted(), "{}", reply.body);
        registration.wait(client).await;
        registration
    }

    /// The label that a namespace needs for its objects to go to the webhook.
    pub(crate) fn label(&self) -> (&str, &str) {
        (&self.label, "called")
    }

    /// The manifest `object`, for an address instead of a service and for namespaces with our label alone.
    ///
    /// All entries come into force at once; one more tells when, for it cannot but fail.
    fn configuration(&self, webhook: &Webhook, mut object: Value) -> Value {
        object["metadata"]["name"] = self.name.as_str().into();
        let ours = json!({"key": self.label, "operator": "Exists"});
        let entries = object["webhooks"].as_array_mut().expect("the manifest has webhooks");
        let mut tripwire = entries.first().expect("the manifest has an entry").clone();
        for entry in &mut *entries {
            entry["clientConfig"] = json!({
                "url": format!("https://{}/", webhook.address()),
                "caBundle": STANDARD.encode(webhook.authority().certificate()),
            });
            push(&mut entry["namespaceSelector"], ours.clone());
            push(
                &mut entry["objectSelector"],
                json!({"key": TRIPWIRE, "operator": "DoesNotExist"}),
            );
        }
        tripwire["name"] = "tripwire.outrigger.test".into();
        tripwire["clientConfig"] = json!({"url": "https://127.0.0.1:1/"});
        tripwire["failurePolicy"] = "Fail".into();
        push(&mut tripwire["namespaceSelector"], ours);
        push(
            &mut tripwire["objectSelector"],
            json!({"key": TRIPWIRE, "operator": "Exists"}),
        );
        entries.push(tripwire);
        object
    }

    async fn wait(&self, client: &Client) {
        let namespace = Namespace::create(client, "tripwire", &[self.label()], &[]).await;
        let pod = json!({
            "metadata": {"name": "tripwire", "labels": {TRIPWIRE: ""}},
            "spec": {"containers": [{"name": "tripwire", "image": "tripwire"}]},
        });
        let called = async || {
            namespace
                .try_pod(&pod)
                .await
                .message()
                .contains("failed calling webhook")
                .then_some(())
        };
        poll(LIMIT, called)
            .await
            .expect("the API server heeds the webhook configuration");
    }
}

/// The server's minor release.
async fn minor(client: &Client) -> u32 {
    let reply = call(client, Verb::Get, "/version", None).await;
    let reply = reply.expect("the API server answers");
    let minor = reply.body["minor"].as_str().and_then(|minor| minor.parse().ok());
    minor.unwrap_or_else(|| panic!("no release: {}", reply.body))
}

/// Adds a requirement to a label selector.
fn push(selector: &mut Value, requirement: Value) {
    let requirements = selector["matchExpressions"].as_array_mut();
    requirements
        .expect("the manifest's selectors have expressions")
        .push(requirement);
}
