use super::resource::PODS;
use super::*;
use axum::Router;
use axum::extract::{Request as HttpRequest, State};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A server with 1,201 pods, each in a namespace of its own, that counts what it is asked.
fn server(asked: &Arc<AtomicUsize>) -> Client {
    let answer = async |State(asked): State<Arc<AtomicUsize>>, request: HttpRequest| {
        asked.fetch_add(1, Ordering::Relaxed);
        assert_eq!(request.uri().path(), "/api/v1/pods");
        let query = request.uri().query().unwrap_or_default();
        assert!(query.contains("limit=500"), "{query}");
        let (first, rest) = match query.split("continue=").nth(1) {
            None => (0, "500"),
            Some(token) if token.starts_with("500") => (500, "1000"),
            Some(_) => (1000, ""),
        };
        let items: Vec<_> = (first..(first + 500).min(1201))
            .map(|number| json!({"metadata": {"name": "web", "namespace": format!("n{number}"), "managedFields": []}}))
            .collect();
        json!({"metadata": {"continue": rest}, "items": items}).to_string()
    };
    let router = Router::new().fallback(answer).with_state(Arc::clone(asked));
    Client::new(router, "default")
}

#[tokio::test]
async fn a_list_takes_a_request_a_page_however_many_namespaces_there_are() {
    let asked = Arc::default();
    let pods = list(&server(&asked), &PODS, None, |pod| Some(tidied(pod)))
        .await
        .unwrap();
    assert_eq!((pods.len(), asked.load(Ordering::Relaxed)), (1201, 3));
    let metadata = json!({"name": "web", "namespace": "n1200"});
    assert_eq!(
        pods[1200],
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    );
}

#[test]
fn paths_are_those_of_the_api() {
    assert_eq!(PODS.path(Some("shop")), "/api/v1/namespaces/shop/pods");
    let resource = Resource::of(Source::Role);
    assert_eq!(resource.path(None), "/apis/rbac.authorization.k8s.io/v1/roles");
}
