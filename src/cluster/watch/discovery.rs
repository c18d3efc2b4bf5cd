//! What the server says of itself: its release, and which policies it has.

use super::Feed;
use super::steps::NO_ANSWER;
use crate::cluster::index::Served;
use crate::policy::Release;
use crate::policy::installed::{Source, WITHOUT_POD_SECURITY_POLICIES};
use crate::policy::pod_security::Server;
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::Client;
use kube::api::{ApiResource, GroupVersionKind};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

/// How often the server is asked: its release changes with an upgrade, what it serves with what is installed.
const INTERVAL: Duration = Duration::from_secs(5 * 60);

/// How soon it is asked again when it did not tell.
const RETRY: Duration = Duration::from_secs(10);

/// How long it may take to tell one thing.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What the server answers where it has nothing of a group in a version (RFC 9110, 15.5.5).
const NOT_FOUND: u16 = 404;

/// Asks again and again.
pub(super) async fn run(feed: &Feed<'_>) {
    let mut failing = false;
    loop {
        let told = release(feed.client).await;
        report(failing, &told);
        let release = told.as_ref().ok().map(|server| server.release);
        let before = feed.served.borrow().clone();
        let served = served(feed.client, release, &before).await;
        failing = told.is_err();
        let pause = if failing || served.trouble.is_some() {
            RETRY
        } else {
            INTERVAL
        };
        {
            let mut index = feed.index();
            index.set_server(told.ok());
            index.sources.served.clone_from(&served);
        }
        feed.changed.notify_one();
        feed.served.send_replace(served);
        sleep(pause).await;
    }
}

/// Says once that the server does not tell its release, and once that it does.
fn report(failing: bool, told: &Result<Server, String>) {
    match told {
        Err(error) if !failing => warn!(error, "the API server does not tell its release, trying again"),
        Err(error) => debug!(error, "the API server does not tell its release"),
        Ok(server) if failing => info!(release = %server.release, "the API server tells its release"),
        Ok(_) => {}
    }
}

async fn release(client: &Client) -> Result<Server, String> {
    let info = answer(client.apiserver_version())
        .await?
        .map_err(|error| error.to_string())?;
    server_of(&info).ok_or_else(|| format!("minor release {:?} is no number", info.minor))
}

/// Which policies a server of `release` has; what it does not tell is as `before`.
async fn served(client: &Client, release: Option<Release>, before: &Served) -> Served {
    let gone = release.is_some_and(|release| release >= WITHOUT_POD_SECURITY_POLICIES);
    let pod_security_policies = match gone {
        true => Ok(false),
        false => serves(client, Source::PodSecurityPolicy).await,
    };
    let constraints = serves(client, Source::Constraint).await;
    let error = [&pod_security_policies, &constraints]
        .into_iter()
        .find_map(|told| told.as_ref().err());
    if let (Some(error), None) = (error, &before.trouble) {
        warn!(
            error,
            "the API server does not tell which policies it has, trying again"
        );
    }
    Served {
        trouble: error.map(|error| error.as_str().into()),
        pod_security_policies: pod_security_policies.ok().or(before.pod_security_policies),
        constraints: constraints.ok().or(before.constraints),
    }
}

/// Whether the server has the resource of `source`.
pub async fn serves(client: &Client, source: Source) -> Result<bool, String> {
    match answer(client.list_api_group_resources(&source.api_version())).await? {
        Ok(found) => Ok(found
            .resources
            .iter()
            .any(|resource| resource.name == source.resource())),
        Err(kube::Error::Api(status)) if status.code == NOT_FOUND => Ok(false),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(error) => Err(error.to_string()),
    }
}

/// The resource of `source`.
pub fn resource_of(source: Source) -> ApiResource {
    let kind = GroupVersionKind::gvk(source.group(), source.version(), source.kind());
    ApiResource::from_gvk_with_plural(&kind, source.resource())
}

async fn answer<T>(asked: impl Future<Output = T>) -> Result<T, String> {
    timeout(TIMEOUT, asked).await.map_err(|_elapsed| NO_ANSWER.to_owned())
}

/// The server that tells `info` at `/version`; an emulated release is told from 1.31 on. Nothing where it is no release.
pub fn server_of(info: &Info) -> Option<Server> {
    let release = |minor: &str| format!("1.{minor}").parse::<Release>().ok();
    let binary = release(&info.minor)?;
    let emulated = info.emulation_minor.as_deref().and_then(release);
    Some(Server {
        emulated: emulated.filter(|emulated| *emulated != binary),
        ..Server::from(binary)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(minor: &str, emulation_minor: Option<&str>) -> Info {
        Info {
            major: "1".to_owned(),
            minor: minor.to_owned(),
            emulation_minor: emulation_minor.map(str::to_owned),
            ..Info::default()
        }
    }

    #[test]
    fn an_emulated_release_is_told_apart() {
        let emulating = |emulated| Server {
            emulated: Some(Release(emulated)),
            ..Server::from(Release(36))
        };
        assert_eq!(server_of(&info("27+", None)), Some(Release(27).into()));
        assert_eq!(server_of(&info("36", Some("35"))), Some(emulating(35)));
        assert_eq!(server_of(&info("36", Some("36"))), Some(Release(36).into()));
        assert_eq!(server_of(&info("36", Some(""))), Some(Release(36).into()));
        assert_eq!(server_of(&info("", None)), None);
    }
}
