//! The watches of what policies are compiled from. Those of policies that not every server has run only while the
//! server has them, and so do those of who may use them.

use super::discovery::resource_of;
use super::{Feed, PAGE, QUIET, Resource, follow, pause};
use crate::cluster::index::{self, Collection, Compiler, Index, Kept, Served, Sources};
use crate::policy::installed::Source;
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::watcher::{Config, watcher};
use tokio::time::sleep;

/// Runs all of them.
pub(super) async fn run(feed: &Feed<'_>) {
    let limit_ranges = of(
        feed,
        Source::LimitRange,
        |object| index::limits(Source::LimitRange, object),
        |index| &mut index.sources.limit_ranges,
    );
    let quotas = of(
        feed,
        Source::ResourceQuota,
        |object| index::limits(Source::ResourceQuota, object),
        |index| &mut index.sources.quotas,
    );
    tokio::join!(
        compile(feed),
        limit_ranges,
        quotas,
        while_served(
            feed,
            |served| served.pod_security_policies == Some(true),
            || pod_security_policies(feed),
            |sources| sources.pod_security_policies.forget(),
        ),
        while_served(
            feed,
            |served| served.constraints == Some(true),
            || constraints(feed),
            |sources| sources.constraints.forget(),
        ),
        while_served(feed, Served::grants, || grants(feed), Sources::forget_grants),
    );
}

async fn pod_security_policies(feed: &Feed<'_>) {
    of(
        feed,
        Source::PodSecurityPolicy,
        |object| index::policy(Source::PodSecurityPolicy, object),
        |index| &mut index.sources.pod_security_policies,
    )
    .await;
}

async fn constraints(feed: &Feed<'_>) {
    of(
        feed,
        Source::Constraint,
        |object| index::policy(Source::Constraint, object),
        |index| &mut index.sources.constraints,
    )
    .await;
}

/// Who may use what.
async fn grants(feed: &Feed<'_>) {
    let roles = of(
        feed,
        Source::Role,
        |object| index::role(Source::Role, object),
        |index| &mut index.sources.roles,
    );
    let cluster_roles = of(
        feed,
        Source::ClusterRole,
        |object| index::role(Source::ClusterRole, object),
        |index| &mut index.sources.cluster_roles,
    );
    let role_bindings = of(
        feed,
        Source::RoleBinding,
        |object| index::binding(Source::RoleBinding, object),
        |index| &mut index.sources.role_bindings,
    );
    let cluster_role_bindings = of(
        feed,
        Source::ClusterRoleBinding,
        |object| index::binding(Source::ClusterRoleBinding, object),
        |index| &mut index.sources.cluster_role_bindings,
    );
    tokio::join!(roles, cluster_roles, role_bindings, cluster_role_bindings);
}

/// The watch of one resource.
async fn of<T: PartialEq + 'static>(
    feed: &Feed<'_>,
    source: Source,
    keep: fn(DynamicObject) -> Kept<T>,
    collection: fn(&mut Index) -> &mut Collection<T>,
) {
    let api = Api::<DynamicObject>::all_with(feed.client.clone(), &resource_of(source));
    let resource = Resource::new(source.resource(), keep, collection);
    let watch = || watcher(api.clone(), Config::default().page_size(PAGE));
    Box::pin(follow(watch, feed, &resource, QUIET)).await;
}

/// Runs `watch` whenever the server has what is `wanted`, and has what it told forgotten when it has it no more.
async fn while_served<W: Future<Output = ()>>(
    feed: &Feed<'_>,
    wanted: fn(&Served) -> bool,
    watch: impl Fn() -> W,
    forget: fn(&mut Sources),
) {
    let mut served = feed.served.subscribe();
    while served.wait_for(wanted).await.is_ok() {
        let unserved = async { served.wait_for(|served| !wanted(served)).await.is_ok() };
        tokio::select! {
            () = watch() => return,
            _ = unserved => {}
        }
        forget(&mut feed.index().sources);
        feed.changed.notify_one();
    }
}

/// Compiles policies when something has changed. Requests take what was compiled last, and wait for nothing.
async fn compile(feed: &Feed<'_>) {
    let mut compiler = Compiler::default();
    loop {
        feed.changed.notified().await;
        let (sources, release) = feed.index().snapshot();
        let installed = compiler.compile(&sources, release);
        let settled = {
            let mut index = feed.index();
            index.install(installed, &sources);
            index.settled()
        };
        sleep(pause(settled)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::index::Freshness;
    use crate::policy::installed::Presence;
    use axum::Router;
    use axum::extract::Request;
    use futures::future::{Either, select};
    use kube::Client;
    use serde_json::json;
    use std::pin::pin;
    use std::sync::Mutex;
    use std::time::Duration;
    use tokio::time::timeout;

    /// A server with one constraint and nothing else, whose watches stay silent.
    fn client() -> Client {
        let answer = async |request: Request| {
            if request.uri().to_string().contains("watch=true") {
                std::future::pending::<()>().await;
            }
            let items = match request.uri().path() {
                "/apis/security.openshift.io/v1/securitycontextconstraints" => {
                    json!([{"metadata": {"name": "nonroot"}}])
                }
                _ => json!([]),
            };
            json!({"metadata": {"resourceVersion": "1"}, "items": items}).to_string()
        };
        Client::new(Router::new().fallback(answer), "default")
    }

    #[tokio::test]
    async fn policies_are_watched_for_as_long_as_the_server_has_them() {
        let (index, client) = (Mutex::default(), client());
        let feed = Feed::new(&client, &index);
        let serve = |constraints| {
            let served = Served {
                pod_security_policies: Some(false),
                constraints: Some(constraints),
                trouble: None,
            };
            feed.index().sources.served.clone_from(&served);
            feed.served.send_replace(served);
            feed.changed.notify_one();
        };
        let until = async |done: fn(&mut Index) -> bool| {
            while !done(&mut feed.index()) {
                tokio::task::yield_now().await;
            }
        };
        let seen = async {
            serve(false);
            until(|index| index.status().len() == 5 && is_absent(index)).await;
            for _ in 0..2 {
                serve(true);
                until(is_known).await;
                assert_eq!(feed.index().status().len(), 10);
                serve(false);
                until(|index| is_absent(index) && index.sources.roles.freshness() == Freshness::Pending).await;
                assert_eq!(feed.index().status().len(), 5);
            }
        };
        let (seen, run) = (pin!(seen), pin!(run(&feed)));
        let ended = timeout(Duration::from_secs(20), select(seen, run)).await;
        assert!(matches!(ended, Ok(Either::Left(_))));
    }

    fn is_absent(index: &mut Index) -> bool {
        let constraints = &index.installed().constraints;
        matches!(constraints, Presence::Absent)
    }

    fn is_known(index: &mut Index) -> bool {
        let Presence::Present { policies, stale: None } = &index.installed().constraints else {
            return false;
        };
        policies.policies.names().eq(["nonroot"])
    }
}
