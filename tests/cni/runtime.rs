//! What a container runtime does: the environment, standard input, and reading what comes back.

use crate::netns::Netns;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// The plugin under test.
pub(crate) const PLUGIN: &str = env!("CARGO_BIN_EXE_outrigger-cni");

/// One run of the plugin.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    variables: Vec<(String, String)>,
    input: String,
}

/// What it did.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// `verb` for the pod `namespace/name` in the network namespace at `netns`.
    pub(crate) fn new(verb: &str, netns: &Path, pod: &str, config: &Value) -> Self {
        let (namespace, name) = pod.split_once('/').expect("a pod is namespace/name");
        let args = format!("IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name}");
        let run = Self {
            variables: Vec::new(),
            input: config.to_string(),
        };
        run.with("CNI_COMMAND", verb)
            .with("CNI_CONTAINERID", "c0ffee")
            .with("CNI_NETNS", &netns.display().to_string())
            .with("CNI_IFNAME", "eth0")
            .with("CNI_PATH", "/opt/cni/bin")
            .with("CNI_ARGS", &args)
    }

    /// With a variable of the environment set anew; an empty value unsets it.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        if !value.is_empty() {
            self.variables.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// With other standard input.
    #[must_use]
    pub(crate) fn input(mut self, input: &str) -> Self {
        input.clone_into(&mut self.input);
        self
    }

    pub(crate) fn run(&self) -> Outcome {
        let mut command = Command::new(PLUGIN);
        command.env_clear().envs(self.variables.iter().cloned());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the plugin starts");
        let mut stdin = child.stdin.take().expect("it is piped");
        // A call that is refused at once does not read it.
        let _unread = stdin.write_all(self.input.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().expect("the plugin ends");
        Outcome {
            status: output.status,
            stdout: String::from_utf8(output.stdout).expect("JSON is UTF-8"),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Outcome {
    /// The result; the call must have succeeded.
    pub(crate) fn done(self) -> String {
        assert!(self.status.success(), "{}: {}{}", self.status, self.stdout, self.stderr);
        self.stdout
    }

    /// The message of the error; the call must have failed with `code`, in one sentence.
    pub(crate) fn failed(&self, code: u32) -> String {
        assert_eq!(self.status.code(), Some(1), "{}{}", self.stdout, self.stderr);
        let answer: Value = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: standard output is one object: {}", self.stdout));
        assert_eq!(answer["code"], code, "{answer}");
        assert!(answer["cniVersion"].is_string(), "{answer}");
        let message = answer["msg"].as_str().expect("there is a message").to_owned();
        assert!(
            !message.is_empty() && !message.contains('\n') && !message.ends_with('.'),
            "{message}"
        );
        message
    }
}

/// A network configuration with sources, at CNI 1.1.0.
pub(crate) fn config(socket: &Path, kubeconfig: &Path) -> Value {
    json!({
        "cniVersion": "1.1.0",
        "name": "test-network",
        "type": "outrigger-cni",
        "log_level": "debug",
        "kubernetes": {"kubeconfig": kubeconfig},
        "outrigger": {"socket": socket},
        "linkerd": {"ipv6": true},
    })
}

/// Whether the network namespace has rules of any kind: native, `iptables-nft` or `iptables-legacy`.
pub(crate) fn has_rules(namespace: &Netns) -> bool {
    let programs = ["iptables-nft", "ip6tables-nft", "iptables-legacy", "ip6tables-legacy"];
    let written = programs
        .iter()
        .any(|program| namespace.nat(program).concat().contains("PROXY_INIT"));
    written || !crate::rules::native(namespace).is_empty()
}
