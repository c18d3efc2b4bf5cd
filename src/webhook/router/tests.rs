use super::*;
use crate::cluster::Cluster;
use crate::webhook::answer;
use crate::webhook::reload::{Reloaded, Source};
use axum::body::{Body, Bytes, to_bytes};
use axum::http::Method;
use axum::http::header::CONTENT_LENGTH;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::io::Write;
use std::sync::Mutex;
use tower::ServiceExt;

/// The router of a cluster with the namespace `shop`, and its metrics.
fn router(timings: Timings) -> (Router, Arc<Metrics>) {
    let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    let cluster = Arc::new(Cluster::of_manifests(&[shop], None).unwrap());
    let (events, _publish) = Events::through(None);
    let metrics = Arc::new(Metrics::new(Arc::clone(&cluster), events.clone()));
    let setup = Reloaded::load([Source::Nothing], |[_]| {
        answer::read(&[], None, "linkerd").and_then(answer::complete)
    })
    .unwrap();
    let app = App {
        setup: Arc::new(setup),
        cluster,
    };
    (
        Entrance::new(app, events, Arc::clone(&metrics), &timings).router(),
        metrics,
    )
}

/// Nothing of these tests takes this long, unless it never ends.
const PATIENCE: Timings = Timings {
    request: Duration::from_secs(60),
    body: Duration::from_secs(60),
    ..Timings::DEFAULT
};

fn patient() -> Router {
    router(PATIENCE).0
}

fn review() -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "namespace": "shop", "operation": "CREATE",
        "object": {"metadata": {"generateName": "web-"}, "spec": {"containers": [{"env": [{"value": "s3cret"}]}]}}}})
}

fn post(path: &str, body: impl Into<Body>) -> Request {
    Request::post(path).body(body.into()).unwrap()
}

async fn ask(router: &Router, request: Request) -> (StatusCode, String) {
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn every_path_answers_and_post_alone() {
    let router = patient();
    for path in ["/", "/mutate", "/zzz/a?timeout=5s"] {
        let (status, body) = ask(&router, post(path, review().to_string())).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(answer["response"]["uid"], "u-1");
        assert_eq!(answer["response"]["allowed"], true);
    }
    for method in [Method::GET, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let request = Request::builder().method(&method).body(Body::empty()).unwrap();
        assert_eq!(
            ask(&router, request).await.0,
            StatusCode::METHOD_NOT_ALLOWED,
            "{method}"
        );
    }
    let response = router.oneshot(post("/", review().to_string())).await.unwrap();
    assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
}

#[tokio::test]
async fn a_body_that_is_no_review_is_named() {
    let router = patient();
    let whole = review().to_string();
    let cases = [
        (String::new(), "the body is empty"),
        (whole[..whole.len() / 2].to_owned(), "the body ends early"),
        ("kind: AdmissionReview".to_owned(), "the body is no JSON"),
        (whole.replace("AdmissionReview", "Pod"), "kind is \"Pod\""),
        (whole.replace("u-1", ""), "request.uid is missing"),
    ];
    for (body, message) in cases {
        let (status, answer) = ask(&router, post("/", body)).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(answer.starts_with(message) && answer.ends_with('\n'), "{answer}");
    }
}

#[tokio::test]
async fn a_body_may_have_eight_mebibytes_and_no_more() {
    let (router, metrics) = router(PATIENCE);
    let mut largest = review().to_string();
    largest.push_str(&" ".repeat(BODY_LIMIT - largest.len()));
    assert_eq!(ask(&router, post("/", largest.clone())).await.0, StatusCode::OK);

    let chunks = |text: String| Body::from_stream(stream::iter([Ok::<_, Infallible>(text)]));
    assert_eq!(ask(&router, post("/", chunks(largest.clone()))).await.0, StatusCode::OK);
    let (status, message) = ask(&router, post("/", chunks(largest + " "))).await;
    assert_eq!(
        (status, message.as_str()),
        (StatusCode::PAYLOAD_TOO_LARGE, "the body has more than 8388608 bytes\n")
    );

    // Not a byte of a body that announces too much is read.
    let mut announced = post("/", Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()));
    announced.headers_mut().insert(CONTENT_LENGTH, (BODY_LIMIT + 1).into());
    assert_eq!(ask(&router, announced).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    let text = metrics.encode().unwrap();
    assert!(
        text.contains("outrigger_admission_refused_total{reason=\"too_large\"} 2"),
        "{text}"
    );
}

/// A body that stops after `text`.
fn endless(text: impl Into<Bytes>) -> Body {
    Body::from_stream(stream::iter([Ok::<_, Infallible>(text.into())]).chain(stream::pending()))
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_given_up_before_the_request_is() {
    let timings = Timings {
        body: Duration::from_millis(50),
        ..PATIENCE
    };
    let (router, metrics) = router(timings);
    let (status, message) = ask(&router, post("/", endless("{"))).await;
    assert_eq!(
        (status, message.as_str()),
        (StatusCode::REQUEST_TIMEOUT, "the body did not arrive within 50 ms\n")
    );
    let text = metrics.encode().unwrap();
    assert!(
        text.contains("outrigger_admission_refused_total{reason=\"slow_body\"} 1"),
        "{text}"
    );
    assert!(text.contains("outrigger_admission_in_flight 0"), "{text}");
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_given_up() {
    let timings = Timings {
        request: Duration::from_millis(50),
        ..PATIENCE
    };
    let (status, message) = ask(&router(timings).0, post("/", endless("{"))).await;
    assert_eq!(
        (status, message.as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "no answer within 50 ms\n")
    );
}

#[tokio::test]
async fn slow_bodies_are_in_nobodys_way_however_much_they_announce() {
    let router = patient();
    let slow = |announced: Option<usize>| {
        let mut request = post("/", endless("{"));
        if let Some(length) = announced {
            request.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        Box::pin(ask(&router, request))
    };
    let mut all: Vec<_> = (0..50).flat_map(|_| [slow(None), slow(Some(BODY_LIMIT))]).collect();
    for slow in &mut all {
        assert!(slow.now_or_never().is_none());
    }
    assert_eq!(ask(&router, post("/", review().to_string())).await.0, StatusCode::OK);
}

#[tokio::test]
async fn bodies_wait_for_room_for_a_while_and_get_it_back() {
    let router = patient();
    let full = || Box::pin(ask(&router, post("/", endless(vec![b' '; BODY_LIMIT]))));
    let mut hogs = [full(), full()];
    for hog in &mut hogs {
        assert!(hog.now_or_never().is_none());
    }
    let (status, message) = ask(&router, post("/", review().to_string())).await;
    assert_eq!(
        (status, message.as_str()),
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "too much at once: no room for the body within 1000 ms\n"
        )
    );
    let mut waiting = Box::pin(ask(&router, post("/", review().to_string())));
    assert!((&mut waiting).now_or_never().is_none(), "there is no room");
    drop(hogs);
    assert_eq!(waiting.await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_body_of_more_values_than_any_pod_has_is_refused_unread() {
    let router = patient();
    let (before, after) = ("{\"request\": [", "[]]}");
    let hostile = format!(
        "{before}{}{after}",
        "[],".repeat((BODY_LIMIT - before.len() - after.len()) / 3)
    );
    let (status, message) = ask(&router, post("/", hostile)).await;
    assert_eq!(
        (status, message.as_str()),
        (
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body has more JSON values than any pod\n"
        )
    );
    // Two hundred containers, each with a hundred variables, are still a pod.
    let mut large = review();
    let env: Vec<_> = (0..100)
        .map(|n| json!({"name": format!("N{n}"), "value": "x"}))
        .collect();
    let containers = (0..200).map(|n| json!({"name": format!("c{n}"), "image": "web:1", "env": env}));
    large["request"]["object"]["spec"]["containers"] = containers.collect();
    assert_eq!(ask(&router, post("/", large.to_string())).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_panic_costs_its_own_request() {
    let answer = surviving(async { panic!("of the test") }, "u-1").await;
    let Err(refusal) = answer.map(|(): ()| ()) else {
        panic!("survived as an answer")
    };
    assert_eq!(
        (refusal.status(), refusal.reason()),
        (StatusCode::INTERNAL_SERVER_ERROR, "panic")
    );
    assert!(!refusal.to_string().contains("of the test"));
}

#[tokio::test]
async fn answers_are_counted_ours_and_linkerds() {
    let (router, metrics) = router(PATIENCE);
    ask(&router, post("/", review().to_string())).await;
    let unknown = review().to_string().replace("\"shop\"", "\"made-up\"");
    ask(&router, post("/", unknown)).await;
    let text = metrics.encode().unwrap();
    for (outcome, decision, level) in [
        ("skip", "injection_enable_annotation_absent", "privileged"),
        ("deny", "namespace_not_found", ""),
    ] {
        let labels =
            format!("{{outcome=\"{outcome}\",decision=\"{decision}\",redirection=\"none\",level=\"{level}\"}}");
        assert!(
            text.contains(&format!("outrigger_admission_answers_total{labels} 1")),
            "{text}"
        );
    }
    assert!(text.contains("outrigger_admission_duration_seconds_count 2"), "{text}");
    assert!(
        text.contains(
            "proxy_inject_admission_requests_total{owner_kind=\"pod\",namespace=\"shop\",annotation_at=\"\"} 1"
        )
    );
    assert!(!text.contains("made-up"), "only namespaces that exist: {text}");
    assert!(text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn the_log_has_one_line_an_answer_and_nothing_of_the_object() {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0
                .lock()
                .map_err(|_poisoned| std::io::ErrorKind::Other)?
                .write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let log = tracing_subscriber::fmt()
        .json()
        .with_writer(move || writer.clone())
        .with_max_level(tracing::Level::TRACE);
    let guard = tracing::subscriber::set_default(log.finish());
    let mut review = review();
    review["request"]["uid"] = json!("u\n2");
    ask(&patient(), post("/", review.to_string())).await;
    drop(guard);

    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let ours: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["target"].as_str().unwrap().starts_with("outrigger"))
        .collect();
    assert_eq!(ours.len(), 1, "{text}");
    let fields = &ours[0]["fields"];
    assert_eq!(fields["uid"], "u\n2");
    assert_eq!(
        (&fields["namespace"], &fields["kind"], &fields["name"]),
        (&json!("shop"), &json!("Pod"), &json!("web-"))
    );
    assert_eq!(
        (&fields["decision"], &fields["dry_run"]),
        (&json!("injection_enable_annotation_absent"), &json!(false))
    );
    assert!(fields["ms"].as_f64().unwrap() > 0.0);
    assert!(!text.contains("s3cret"), "{text}");
}
