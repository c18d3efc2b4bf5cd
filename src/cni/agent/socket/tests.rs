use super::*;
use serde_json::{Value, json};
use tempfile::TempDir;

async fn ask(path: &Path, line: &str) -> Value {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(line.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    assert!(reply.ends_with('\n'), "{reply}");
    serde_json::from_str(&reply).unwrap()
}

#[tokio::test]
async fn every_line_has_an_answer() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run/cni.sock");
    let (pods, metrics) = (Arc::new(Pods::new()), Arc::new(Metrics::new()));
    let (listener, _) = bind(&path).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    tokio::spawn(serve(listener, Arc::clone(&pods), Arc::clone(&metrics)));
    let not_yet = json!({"error": "the pods of this node are not listed yet"});
    assert_eq!(ask(&path, "{\"status\": true}\n").await, not_yet);
    pods.listed(&[json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "app", "name": "web", "uid": "1"}, "spec": {"containers": [{"name": "app"}]},
    })]);
    assert_eq!(ask(&path, "{\"status\": true}\n").await, json!({"ready": true}));
    let found = ask(
        &path,
        "{\"namespace\": \"app\", \"name\": \"web\", \"uid\": \"1\", \"sandbox\": \"s\", \"new\": 1}\n",
    );
    assert_eq!(found.await.pointer("/pod/metadata/uid"), Some(&json!("1")));
    let unknown = ask(
        &path,
        "{\"namespace\": \"app\", \"name\": \"web\", \"uid\": \"2\", \"sandbox\": \"s\"}\n",
    );
    assert_eq!(unknown.await, json!({"error": "no such pod is known on this node"}));
    for line in ["\n", "{}\n", "{\"namespace\": \"a\"}\n", "\u{0}\n"] {
        assert!(ask(&path, line).await.get("error").is_some(), "{line}");
    }
    // Whoever talks on and on is cut off, and nobody else notices.
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(&vec![b'x'; 20_000]).await.ok();
    stream.read_to_end(&mut Vec::new()).await.ok();
    assert_eq!(ask(&path, "{\"status\": true}\n").await, json!({"ready": true}));
    let text = metrics.encode().unwrap();
    assert!(
        text.contains("outrigger_cni_questions_total{outcome=\"found\"} 1\n"),
        "{text}"
    );
}

#[tokio::test]
async fn a_successor_takes_the_socket_over() {
    let folder = TempDir::new().unwrap();
    let mode = |mode| std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o755);
    let path = folder.path().join("cni.sock");
    let (_first, file) = bind(&path).unwrap();
    assert_eq!(std::fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
    mode(0o755);
    std::fs::DirBuilder::new().create(folder.path().join("others")).unwrap();
    let (second, successor) = bind(&path).unwrap();
    assert_eq!(std::fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o755);
    let pods = Arc::new(Pods::new());
    pods.listed(&[]);
    tokio::spawn(serve(second, pods, Arc::new(Metrics::new())));
    assert_eq!(ask(&path, "{\"status\": true}\n").await, json!({"ready": true}));
    // Who leaves takes its own away and no other's.
    file.remove().unwrap();
    assert!(path.exists());
    successor.remove().unwrap();
    assert!(!path.exists());
    successor.remove().unwrap();
}
