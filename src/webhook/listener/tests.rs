use super::*;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

/// A server with one place, whose router answers `/slow` once it is told to.
async fn with_one_place() -> (SocketAddr, Connections, Arc<Notify>) {
    let limits = Limits {
        connections: 1,
        handshake: Duration::from_secs(60),
        head: Duration::from_secs(60),
        idle: Duration::from_secs(60),
    };
    let (socket, metrics) = (bind(([127, 0, 0, 1], 0).into()).await.unwrap(), Connections::default());
    let address = socket.local_addr().unwrap();
    let go_on = Arc::new(Notify::new());
    let wait = Arc::clone(&go_on);
    let slow = get(async move || wait.notified().await);
    let router = Router::new().route("/", get("here\n")).route("/slow", slow);
    let listener = Listener::new(socket, router, None, limits, metrics.clone());
    tokio::spawn(listener.serve_always());
    (address, metrics, go_on)
}

async fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn answer(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    let read = timeout(Duration::from_secs(20), stream.read_to_string(&mut answer));
    read.await.expect("the connection stays open").unwrap();
    answer
}

async fn accepted(metrics: &Connections, count: u64) {
    while metrics.accepted.get() < count {
        task::yield_now().await;
    }
}

#[tokio::test]
async fn a_connection_over_the_limit_takes_the_place_of_a_silent_one() {
    let (address, metrics, _) = with_one_place().await;
    let silent = TcpStream::connect(address).await.unwrap();
    accepted(&metrics, 1).await;
    let second = answer(ask(address, "/").await).await;
    assert!(second.ends_with("\r\n\r\nhere\n"), "{second}");
    assert_eq!(answer(silent).await, "");
}

#[tokio::test]
async fn a_connection_over_the_limit_waits_for_a_busy_one() {
    let (address, metrics, go_on) = with_one_place().await;
    let first = ask(address, "/slow").await;
    accepted(&metrics, 1).await;
    let second = ask(address, "/").await;
    for _ in 0..1000 {
        task::yield_now().await;
    }
    assert_eq!((metrics.accepted.get(), metrics.open.get()), (1, 1));
    go_on.notify_one();
    let (first, second) = (answer(first).await, answer(second).await);
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n"), "{first}");
    assert!(second.ends_with("\r\n\r\nhere\n"), "{second}");
}
