//! The plugin's token is replaced long before it ends, and goes on to be used while no other can be had.
//!
//! An API server grants ten minutes at least, so this is a stand-in that grants seconds.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::agent::{LIMIT, Node};
use crate::cluster::poll;

/// The life of a token. It is replaced after a third of it, and a busy machine has the rest.
const LIFE: Duration = Duration::from_secs(30);

/// Grants tokens, but for the second time that it is asked, and knows nothing else.
fn serve(mut stream: &TcpStream, asked: &AtomicUsize) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head)? > 0 {
        let last = head.lines().last().unwrap_or_default().to_ascii_lowercase();
        if let Some(value) = last.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    let (code, body) =
        match head.starts_with("POST /api/v1/namespaces/linkerd-cni/serviceaccounts/outrigger-cni-plugin/token") {
            true => grant(asked.fetch_add(1, Ordering::Relaxed)),
            false => (404, failure(404)),
        };
    let body = body.to_string();
    write!(
        stream,
        "HTTP/1.1 {code} Text\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn grant(number: usize) -> (u16, Value) {
    if number == 1 {
        return (500, failure(500));
    }
    let end = Timestamp::now() + LIFE;
    let status = json!({"token": format!("token-{number}"), "expirationTimestamp": end.to_string()});
    let version = "authentication.k8s.io/v1";
    (
        201,
        json!({"apiVersion": version, "kind": "TokenRequest", "metadata": {}, "spec": {"audiences": []}, "status": status}),
    )
}

fn failure(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "", "reason": ""})
}

/// Serves until the test process ends.
fn listen() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let count = Arc::clone(&count);
            std::thread::spawn(move || serve(&stream, &count));
        }
    });
    (address, asked)
}

#[tokio::test]
async fn a_token_is_replaced_before_it_ends() {
    let (address, asked) = listen();
    let node = Node::new();
    let agent = node.start_with(
        &json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "test", "user": {"token": "the agent's own"}}],
        }),
        &[],
    );
    let has = |token: &str| {
        node.text("run/kubeconfig")
            .contains(&format!("\"token\": \"{token}\""))
            .then_some(())
    };
    let first = poll(LIMIT, async || has("token-0")).await;
    assert!(first.is_some(), "{}", agent.log_tail());
    let granted = Instant::now();
    // The next time nothing is granted: what is there stays, and it is asked again.
    let refused = poll(LIMIT, async || (asked.load(Ordering::Relaxed) > 1).then_some(())).await;
    assert!(refused.is_some(), "{}", agent.log_tail());
    assert_eq!(
        has("token-0").or_else(|| has("token-2")),
        Some(()),
        "{}",
        node.text("run/kubeconfig")
    );
    let second = poll(LIMIT, async || has("token-2")).await;
    assert!(second.is_some(), "{}", agent.log_tail());
    assert!(
        granted.elapsed() < LIFE,
        "the first has ended: {:?}; {}",
        granted.elapsed(),
        agent.log_tail()
    );
    let counted = async || {
        let metrics = node.ask("/metrics").await.1;
        let lines = ["{outcome=\"done\"} 2", "{outcome=\"failed\"} 1"];
        let all = lines.map(|line| metrics.contains(&format!("outrigger_cni_renewals_total{line}\n")));
        (all == [true; 2]).then_some(())
    };
    let found = poll(LIMIT, counted).await;
    assert!(found.is_some(), "{}", node.ask("/metrics").await.1);
    assert!(!agent.log_tail().contains("token-"), "{}", agent.log_tail());
}
