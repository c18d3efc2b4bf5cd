//! How the certificate in use stands, for readiness and metrics.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// How the certificate in use stands.
#[derive(Debug, Default)]
pub struct Standing(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Whether there is a certificate that replicas look after themselves.
    own: bool,
    /// Whether API servers take it, or why not; nothing as long as that is not known.
    trusted: Option<Result<(), String>>,
    /// Whether it was tried to find out.
    asked: bool,
    /// What keeps the replicas from looking after it; nothing where they do not, or have not yet.
    upkeep: Option<Result<(), String>>,
}

impl Standing {
    /// Notes that there is a certificate of the replicas' own.
    pub(super) fn has_own(&self) {
        self.state().own = true;
    }

    /// Notes whether API servers take the certificate in use; nothing where that cannot be told.
    pub(super) fn note_trust(&self, trusted: Option<Result<(), String>>) {
        let mut state = self.state();
        state.asked = true;
        state.trusted = trusted;
    }

    /// Notes whether the certificate is looked after, or what is the matter; says whether that is news.
    pub(super) fn note_upkeep(&self, upkeep: Result<(), String>) -> bool {
        let mut state = self.state();
        let news = match (&state.upkeep, &upkeep) {
            (None, Ok(())) => false,
            (before, after) => before.as_ref() != Some(after),
        };
        state.upkeep = Some(upkeep);
        news
    }

    /// Whether a certificate that replicas look after themselves can be shown to API servers; the error says why not.
    ///
    /// Where nobody may read the registration, or there is none, a replica is ready all the same: it may well be trusted, and
    /// if it is not, nobody would be helped by its being away.
    pub fn ready(&self) -> Result<(), String> {
        let state = self.state();
        let trouble = state.upkeep.as_ref().and_then(|upkeep| upkeep.as_ref().err());
        match &state.trusted {
            _ if !state.own => Err(match trouble {
                Some(trouble) => format!("there is no certificate: {trouble}"),
                None => "there is no certificate yet".to_owned(),
            }),
            Some(Err(why)) => Err(match trouble {
                Some(trouble) => format!("API servers do not take the certificate in use: {why}; {trouble}"),
                None => format!("API servers do not take the certificate in use yet: {why}"),
            }),
            None if !state.asked => Err("it is not known yet whether API servers take the certificate".to_owned()),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// Whether API servers take the certificate in use; nothing where that is not known.
    pub fn trusted(&self) -> Option<bool> {
        self.state().trusted.as_ref().map(Result::is_ok)
    }

    /// Whether something keeps the replicas from looking after it; nothing where they do not.
    pub fn failing(&self) -> Option<bool> {
        self.state().upkeep.as_ref().map(Result::is_err)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_ready_with_a_certificate_that_is_not_known_to_be_refused() {
        let standing = Standing::default();
        let why = |standing: &Standing| standing.ready().unwrap_err();
        assert_eq!(why(&standing), "there is no certificate yet");
        assert!(standing.note_upkeep(Err("no right".to_owned())));
        assert_eq!(why(&standing), "there is no certificate: no right");
        standing.has_own();
        assert_eq!(
            why(&standing),
            "it is not known yet whether API servers take the certificate"
        );
        standing.note_trust(None);
        assert_eq!(standing.ready(), Ok(()));
        standing.note_trust(Some(Err("unknown issuer".to_owned())));
        assert_eq!(
            why(&standing),
            "API servers do not take the certificate in use: unknown issuer; no right"
        );
        assert_eq!((standing.trusted(), standing.failing()), (Some(false), Some(true)));
        standing.note_trust(Some(Ok(())));
        assert_eq!(standing.ready(), Ok(()));
    }

    #[test]
    fn the_same_trouble_is_news_once() {
        let standing = Standing::default();
        assert!(!standing.note_upkeep(Ok(())));
        assert!(standing.note_upkeep(Err("a".to_owned())));
        assert!(!standing.note_upkeep(Err("a".to_owned())));
        assert!(standing.note_upkeep(Err("b".to_owned())));
        assert!(standing.note_upkeep(Ok(())));
        assert!(!standing.note_upkeep(Ok(())));
    }
}
