//! `make demo`: the pods of a sample application, sent to the real server.
//!
//! The server listens on loopback with a certificate made for this run, and takes the cluster from `cluster.yaml`. The
//! workloads of `app.yaml` are sent as the API server would send their pods: one AdmissionReview each, over TLS.
#![expect(clippy::print_stdout, reason = "a demonstration prints")]
#![expect(
    clippy::indexing_slicing,
    reason = "every workload of the sample has a template that is a map"
)]

mod client;
mod report;

use anyhow::{Context, Result};
use outrigger::pod::manifest;
use outrigger::pod::workload::Kind;
use outrigger::webhook::{Options, Phase, Server};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use tokio::sync::watch;

/// A pod that was asked about, and the answer.
struct Answer {
    namespace: String,
    workload: String,
    pod: Value,
    response: Value,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/demo");
    let cluster = objects(&folder.join("cluster.yaml"))?;
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::bind(Options {
        listen: loopback,
        admin_listen: loopback,
        values: Some(folder.join("values.yaml")),
        ..Options::standalone(cluster.clone(), None)
    })
    .await?;
    let certificate = server.certificate().context("the server has no certificate")?;
    let mut connection = client::Connection::new(server.address(), certificate);

    let (stop, phase) = watch::channel(Phase::Serving);
    let asking = async move {
        let mut answers = Vec::new();
        for workload in objects(&folder.join("app.yaml"))? {
            answers.push(ask(&mut connection, &workload).await?);
        }
        drop(connection);
        stop.send_replace(Phase::Draining);
        anyhow::Ok(answers)
    };
    let (answers, ()) = tokio::join!(asking, server.run(phase));
    print!("{}", report::render(&answers?, &cluster)?);
    Ok(())
}

/// Asks about a pod of `workload`, as its controller would create it.
async fn ask(connection: &mut client::Connection, workload: &Value) -> Result<Answer> {
    let field = |pointer: &str| workload.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, name, namespace) = (field("/kind"), field("/metadata/name"), field("/metadata/namespace"));
    let pointer = Kind::of(workload)
        .and_then(Kind::template_pointer)
        .context("no workload")?;
    let mut pod = workload.pointer(pointer).cloned().context("no pod template")?;
    pod["metadata"]["generateName"] = format!("{name}-").into();
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": field("/apiVersion"), "kind": kind, "name": name, "uid": "1", "controller": true}]);
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": format!("{namespace}-{name}"),
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": namespace,
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
            "object": pod,
        },
    });
    Ok(Answer {
        namespace: namespace.to_owned(),
        workload: format!("{kind}/{name}"),
        response: connection.review(&review).await?,
        pod,
    })
}

/// The objects of a manifest.
#[expect(clippy::disallowed_methods, reason = "the sample application is files")]
fn objects(path: &Path) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(manifest::read(&text)?
        .into_iter()
        .map(|document| document.value)
        .collect())
}
