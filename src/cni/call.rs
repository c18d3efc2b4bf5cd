//! What the runtime asks, by the variables of the environment.

use super::failure::Failure;

/// A verb of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Set the pod up.
    Add,
    /// Undo it.
    Del,
    /// Is it still as ADD left it?
    Check,
    /// Remove what belongs to no pod.
    Gc,
    /// Would ADD succeed?
    Status,
    /// Which versions are spoken?
    Version,
}

impl Verb {
    const ALL: [Self; 6] = [Self::Add, Self::Del, Self::Check, Self::Gc, Self::Status, Self::Version];

    /// As `CNI_COMMAND` has it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Del => "DEL",
            Self::Check => "CHECK",
            Self::Gc => "GC",
            Self::Status => "STATUS",
            Self::Version => "VERSION",
        }
    }

    fn read(value: String) -> Result<Self, Failure> {
        let known = Self::ALL.into_iter().find(|verb| verb.word() == value);
        known.ok_or_else(|| Failure::Environment {
            variable: "CNI_COMMAND",
            why: format!("expected one of {}", Self::ALL.map(Self::word).join(", ")),
            value,
        })
    }

    const fn needs_container(self) -> bool {
        matches!(self, Self::Add | Self::Del | Self::Check)
    }
}

/// A call, as far as the environment tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What is asked.
    pub verb: Verb,
    /// The sandbox, `CNI_CONTAINERID`; empty for verbs without one.
    pub sandbox: String,
    /// Path of the pod's network namespace; empty where there is none any more, or none yet.
    pub netns: String,
    /// The pod, where `CNI_ARGS` names one.
    pub pod: Option<PodName>,
}

/// Which pod a sandbox belongs to: `K8S_POD_*` in `CNI_ARGS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID, where the runtime says it; that of a static pod is the hash of its manifest.
    pub uid: Option<String>,
}

impl PodName {
    /// `namespace/name`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

impl Call {
    /// Reads a call from the variables that `variable` looks up.
    ///
    /// # Errors
    /// Where a variable that the verb needs is missing or malformed, with its name.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let value = |name| variable(name).unwrap_or_default();
        let verb = Verb::read(value("CNI_COMMAND"))?;
        if !verb.needs_container() {
            return Ok(Self {
                verb,
                sandbox: String::new(),
                netns: String::new(),
                pod: None,
            });
        }
        let sandbox = value("CNI_CONTAINERID");
        expect(is_identifier(&sandbox), "CNI_CONTAINERID", &sandbox, IDENTIFIER)?;
        let interface = value("CNI_IFNAME");
        expect(is_interface(&interface), "CNI_IFNAME", &interface, INTERFACE)?;
        let netns = value("CNI_NETNS");
        let named = verb == Verb::Del || !netns.is_empty();
        expect(named, "CNI_NETNS", &netns, "expected the path of a network namespace")?;
        Ok(Self {
            verb,
            sandbox,
            netns,
            pod: pod(&value("CNI_ARGS"))?,
        })
    }
}

const IDENTIFIER: &str = "expected a letter or digit, then letters, digits and any of _ . -";

/// The kernel's rule (`dev_valid_name`), 16 bytes with the closing zero.
const INTERFACE: &str = "expected the name of a network device, 15 bytes at most";

fn expect(right: bool, variable: &'static str, value: &str, why: &str) -> Result<(), Failure> {
    let wrong = || Failure::Environment {
        variable,
        value: value.to_owned(),
        why: why.to_owned(),
    };
    if right { Ok(()) } else { Err(wrong()) }
}

/// Whether `text` is a container ID or a network's name: `^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`.
pub(super) fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

fn is_interface(text: &str) -> bool {
    let stray = |c: char| c == '/' || c == ':' || c.is_whitespace();
    !text.is_empty() && text.len() <= 15 && text != "." && text != ".." && !text.contains(stray)
}

/// Names of namespaces and pods become part of a path of the API.
fn is_object_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    text.len() <= 253 && text.bytes().all(plain) && text.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// The pod that `CNI_ARGS` names, `KEY=VALUE;KEY=VALUE`; other keys are others' business.
fn pod(arguments: &str) -> Result<Option<PodName>, Failure> {
    let malformed = |why: &str| Failure::Environment {
        variable: "CNI_ARGS",
        value: arguments.to_owned(),
        why: why.to_owned(),
    };
    let (mut namespace, mut name, mut uid) = (None, None, None);
    for pair in arguments.split(';').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| malformed("expected KEY=VALUE pairs with ; between them"))?;
        let place = match key {
            "K8S_POD_NAMESPACE" => &mut namespace,
            "K8S_POD_NAME" => &mut name,
            "K8S_POD_UID" => &mut uid,
            _ => continue,
        };
        if !value.is_empty() {
            place.get_or_insert_with(|| value.to_owned());
        }
    }
    let (Some(namespace), Some(name)) = (namespace, name) else {
        return Ok(None);
    };
    if !is_object_name(&namespace) || !is_object_name(&name) {
        return Err(malformed(
            "K8S_POD_NAMESPACE and K8S_POD_NAME must be names of Kubernetes objects",
        ));
    }
    Ok(Some(PodName { namespace, name, uid }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADD: [(&str, &str); 4] = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "c0ffee"),
        ("CNI_NETNS", "/var/run/netns/a"),
        ("CNI_IFNAME", "eth0"),
    ];

    /// Reads ADD with some variables changed.
    fn read(changes: &[(&str, &str)]) -> Result<Call, Failure> {
        Call::read(|name| {
            let of = |list: &[(&str, &str)]| {
                list.iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| (*value).to_owned())
            };
            of(changes).or_else(|| of(&ADD))
        })
    }

    #[test]
    fn a_call_names_the_pod_of_its_sandbox() {
        let args =
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=app;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=c;K8S_POD_UID=u";
        let call = read(&[("CNI_ARGS", args)]).unwrap();
        let pod = PodName {
            namespace: "app".to_owned(),
            name: "web-0".to_owned(),
            uid: Some("u".to_owned()),
        };
        assert_eq!(
            (call.verb, call.sandbox.as_str(), call.pod),
            (Verb::Add, "c0ffee", Some(pod))
        );
        for args in ["", ";", "FOO=bar", "K8S_POD_NAMESPACE=;K8S_POD_NAME=x"] {
            assert_eq!(read(&[("CNI_ARGS", args)]).unwrap().pod, None, "{args}");
        }
    }

    #[test]
    fn a_wrong_variable_is_named() {
        let table = [
            (
                "CNI_COMMAND",
                "",
                "CNI_COMMAND: expected one of ADD, DEL, CHECK, GC, STATUS, VERSION",
            ),
            ("CNI_COMMAND", "add", "CNI_COMMAND \"add\": expected one of"),
            ("CNI_CONTAINERID", "", "CNI_CONTAINERID: expected"),
            ("CNI_CONTAINERID", "../x", "CNI_CONTAINERID \"../x\": expected"),
            ("CNI_IFNAME", "", "CNI_IFNAME: expected"),
            ("CNI_IFNAME", "a/b", "CNI_IFNAME \"a/b\": expected"),
            (
                "CNI_IFNAME",
                "sixteen-bytes-it",
                "CNI_IFNAME \"sixteen-bytes-it\": expected",
            ),
            ("CNI_NETNS", "", "CNI_NETNS: expected"),
            (
                "CNI_ARGS",
                "K8S_POD_NAME",
                "CNI_ARGS \"K8S_POD_NAME\": expected KEY=VALUE",
            ),
            (
                "CNI_ARGS",
                "K8S_POD_NAMESPACE=a/b;K8S_POD_NAME=c",
                "CNI_ARGS \"K8S_POD_NAMESPACE=a/b;K8S_POD_NAME=c\": K8S",
            ),
        ];
        for (variable, value, said) in table {
            let failure = read(&[(variable, value)]).unwrap_err();
            assert!(failure.to_string().starts_with(said), "{failure}");
            assert_eq!(failure.code(), 4);
        }
    }

    #[test]
    fn only_verbs_about_a_pod_need_one() {
        for verb in ["GC", "STATUS", "VERSION"] {
            let call = Call::read(|name| (name == "CNI_COMMAND").then(|| verb.to_owned())).unwrap();
            assert_eq!(call.verb.word(), verb);
        }
        let gone = read(&[("CNI_COMMAND", "DEL"), ("CNI_NETNS", "")]).unwrap();
        assert_eq!((gone.verb, gone.netns.as_str()), (Verb::Del, ""));
    }
}
