//! Which users the injected containers run as where a policy leaves them little choice.
//!
//! Traffic of the proxy's user is exempt from redirection, so nobody else may be that user: not an application
//! container, not one that names no user and gets the policy's, and not the validator, which proves that redirection
//! works.

use crate::config::Users;
use crate::pod::Pod;
use crate::policy::UserIds;

/// Why there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoUsers {
    /// Containers run as every user that is admitted.
    #[error("no second UID is free for the proxy: containers run as every one that is admitted")]
    ProxyTaken,
    /// The proxy's is the only one that is admitted.
    #[error("no second UID is free for the validator: only the proxy's is admitted")]
    OnlyOne,
}

/// The users nearest to `wanted` that a policy admits by `ids`, for `pod` as it came. What is wanted is kept where it
/// will do.
pub fn choose(ids: &UserIds, wanted: Users, pod: &Pod<'_>) -> Result<Users, NoUsers> {
    let taken = taken(pod, ids.given());
    let proxy = ids.pick(wanted.proxy, &taken).ok_or(NoUsers::ProxyTaken)?;
    let keeps = ids.admits(wanted.validator) && wanted.validator != proxy;
    // Another container's user is as good as one of its own.
    let given = ids.given().filter(|given| *given != proxy && *given != 0);
    let validator = match (keeps, given) {
        (true, _) => Some(wanted.validator),
        (false, Some(given)) => Some(given),
        (false, None) => ids.pick(wanted.validator, &[proxy]),
    };
    Ok(Users {
        proxy,
        validator: validator.ok_or(NoUsers::OnlyOne)?,
    })
}

/// The users that the containers of `pod` run as, where `given` is for those that name none.
fn taken(pod: &Pod<'_>, given: Option<i64>) -> Vec<i64> {
    let users = pod.all_containers().map(|container| pod.user_of(container).or(given));
    let mut users: Vec<_> = users.flatten().collect();
    users.sort_unstable();
    users.dedup();
    users
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Linkerd's defaults.
    const WANTED: Users = Users {
        proxy: 2102,
        validator: 65534,
    };

    /// A pod with a container for each user, an init container for the first.
    fn pod(users: &[Option<i64>]) -> Value {
        let container = |user: &Option<i64>| json!({"name": "c", "securityContext": {"runAsUser": user}});
        let containers: Vec<_> = users.iter().map(container).collect();
        json!({"spec": {"initContainers": containers.get(..1), "containers": containers.get(1..)}})
    }

    fn choose(ids: &UserIds, users: &[Option<i64>]) -> Result<(i64, i64), NoUsers> {
        let pod = pod(users);
        super::choose(ids, WANTED, &Pod::new(&pod)).map(|users| (users.proxy, users.validator))
    }

    #[test]
    fn what_is_wanted_is_kept_where_it_will_do() {
        assert_eq!(choose(&UserIds::Any, &[None, Some(0)]), Ok((2102, 65534)));
        assert_eq!(choose(&UserIds::NotRoot, &[Some(65534)]), Ok((2102, 65534)));
        assert_eq!(choose(&UserIds::Within(vec![1000..=65534]), &[None]), Ok((2102, 65534)));
    }

    #[test]
    fn the_proxy_moves_away_from_the_application() {
        assert_eq!(choose(&UserIds::Any, &[Some(2102)]), Ok((2103, 65534)));
        let range = UserIds::Within(vec![1_000_680_000..=1_000_689_999]);
        assert_eq!(choose(&range, &[None]), Ok((1_000_680_001, 1_000_680_000)));
        let pinned = [Some(1_000_680_000), Some(1_000_689_999)];
        assert_eq!(choose(&range, &pinned), Ok((1_000_680_001, 1_000_680_000)));
        let next = [Some(1_000_680_001), None];
        assert_eq!(choose(&range, &next), Ok((1_000_680_002, 1_000_680_000)));
    }

    #[test]
    fn of_two_users_the_proxy_gets_the_free_one() {
        let pair = UserIds::Within(vec![8_939_015..=8_939_016]);
        assert_eq!(choose(&pair, &[Some(8_939_015)]), Ok((8_939_016, 8_939_015)));
        assert_eq!(choose(&pair, &[Some(8_939_016)]), Ok((8_939_015, 8_939_016)));
        assert_eq!(choose(&pair, &[Some(8_939_016), None]), Err(NoUsers::ProxyTaken));
    }

    #[test]
    fn one_user_is_too_few() {
        let single = UserIds::Within(vec![8_939_100..=8_939_100]);
        assert_eq!(choose(&single, &[Some(8_939_100)]), Err(NoUsers::ProxyTaken));
        assert_eq!(choose(&single, &[None]), Err(NoUsers::ProxyTaken));
        assert_eq!(choose(&single, &[Some(7)]), Err(NoUsers::OnlyOne));
    }

    #[test]
    fn a_user_of_the_pod_counts_for_its_containers() {
        let pod = json!({"spec": {
            "securityContext": {"runAsUser": 2102},
            "containers": [{"name": "a"}, {"name": "b", "securityContext": {"runAsUser": 2103}}],
        }});
        let users = super::choose(&UserIds::Any, WANTED, &Pod::new(&pod)).unwrap();
        assert_eq!(users.proxy, 2104);
    }

    #[test]
    fn the_validator_is_never_the_proxy() {
        let wanted = Users {
            proxy: 65534,
            validator: 65534,
        };
        let pod = json!({});
        let users = super::choose(&UserIds::NotRoot, wanted, &Pod::new(&pod)).unwrap();
        assert_ne!(users.proxy, users.validator);
    }
}
