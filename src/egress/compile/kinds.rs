//! The kinds of policies and of what they compile to, as an API server has them.

use crate::egress::policy::{CLUSTER_KIND, GROUP, KIND, VERSION};
use serde_json::Value;

/// A kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its group.
    pub group: &'static str,
    /// The version that is compiled, which Linkerd reads.
    pub version: &'static str,
    /// What an object of it says that it is.
    pub name: &'static str,
    /// What its objects are called in a URL.
    pub plural: &'static str,
}

const GATEWAY_API: &str = "gateway.networking.k8s.io";

/// What is compiled: policies of a namespace, and cluster-wide ones.
pub const POLICIES: [Kind; 2] = [
    Kind {
        group: GROUP,
        version: VERSION,
        name: KIND,
        plural: "egresspolicies",
    },
    Kind {
        group: GROUP,
        version: VERSION,
        name: CLUSTER_KIND,
        plural: "clusteregresspolicies",
    },
];

/// Every kind that is made of them, in the order in which objects are applied; they are deleted in the reverse order.
///
/// A route without its network does nothing, a `NetworkPolicy` closes what goes past proxy and gateway, and a network closes or
/// opens everything that has no route. So routes come first and go last, and a network, which may loosen, comes when all else is
/// there: in between nothing is open that policies close, and nothing closed that they open.
pub const KINDS: [Kind; 6] = [
    Kind {
        group: GATEWAY_API,
        version: "v1",
        name: "HTTPRoute",
        plural: "httproutes",
    },
    Kind {
        group: GATEWAY_API,
        version: "v1",
        name: "GRPCRoute",
        plural: "grpcroutes",
    },
    Kind {
        group: GATEWAY_API,
        version: "v1alpha2",
        name: "TLSRoute",
        plural: "tlsroutes",
    },
    Kind {
        group: GATEWAY_API,
        version: "v1alpha2",
        name: "TCPRoute",
        plural: "tcproutes",
    },
    FENCE,
    NETWORK,
];

/// The kind that closes what has no route.
pub const NETWORK: Kind = Kind {
    group: "policy.linkerd.io",
    version: "v1alpha1",
    name: "EgressNetwork",
    plural: "egressnetworks",
};

/// The kind that closes what goes past proxy and gateway.
const FENCE: Kind = Kind {
    group: "networking.k8s.io",
    version: "v1",
    name: "NetworkPolicy",
    plural: "networkpolicies",
};

impl Kind {
    /// Whether objects of it close something.
    pub fn closes(&self) -> bool {
        [NETWORK, FENCE].contains(self)
    }

    /// Which of [`KINDS`] `object` is of; nothing where it is of none.
    pub fn index_of(object: &Value) -> Option<usize> {
        let text = |key| object.get(key).and_then(Value::as_str);
        KINDS
            .iter()
            .position(|kind| text("kind") == Some(kind.name) && text("apiVersion") == Some(&kind.api_version()))
    }

    /// Group and version, as objects have them.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}
