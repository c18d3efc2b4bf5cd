//! A certificate that the replicas make themselves, keep in a Secret, and renew; and the registration that says whom API
//! servers trust.
//!
//! There is no leader: all replicas look at the same two objects, come to the same next step by the same pure function
//! (`plan`), and the API server lets one of them take it, for each patch names the version that it is made for.

mod pace;
mod plan;
mod secret;
mod view;

use super::Certificate;
use super::issue::{Issued, issue};
use super::object::{Object, Trouble};
use super::registration::Service;
use super::standing::Standing;
use super::validity::Validity;
use crate::webhook::metrics::Metrics;
use futures::future::join;
use pace::Pace;
use plan::{Confidence, LIFE, Pair, Place, Seen, Step, next_step, takes_over};
use secret::{Found, Material, created};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};
use view::View;

/// How long before now a certificate begins, in seconds: clocks of API servers may be behind.
const SKEW: i64 = 60 * 60;

/// What an authority is called.
const AUTHORITY: &str = "outrigger webhook authority";

/// How long nothing is looked at where no watch says that something has changed: time alone makes certificates due.
const LOOK: Duration = Duration::from_secs(5 * 60);

/// Looks after the certificate.
#[derive(Debug)]
pub(crate) struct Upkeep {
    /// Where the certificate is kept.
    pub(crate) secret: Object,
    /// Who is to trust it.
    pub(crate) registration: Object,
    /// Whom API servers call. The Secret is in its namespace.
    pub(crate) service: Service,
    /// How long bundles vouch for a certificate before it is taken for known to every API server.
    pub(crate) settle: Duration,
    /// Where it is shown.
    pub(crate) certificate: Arc<Certificate>,
    pub(crate) metrics: Arc<Metrics>,
}

/// What this replica remembers from look to look.
struct Memory {
    started: Instant,
    confidence: Confidence,
    /// What it shows.
    shown: Option<Material>,
}

/// How a look has ended.
struct Outcome {
    /// Whether there is nothing to do until something changes.
    rests: bool,
    /// What is the matter.
    trouble: Option<String>,
}

impl Upkeep {
    /// Looks after the certificate for as long as it is polled.
    pub(crate) async fn run(self) {
        let mut pace = Pace::new(Instant::now());
        let mut memory = Memory {
            started: Instant::now(),
            confidence: Confidence::new(self.settle),
            shown: None,
        };
        loop {
            match self.look(&mut memory).await {
                Ok((view, outcome)) => {
                    self.note(outcome.trouble);
                    if outcome.rests {
                        self.rest(&view, &memory).await;
                    }
                }
                Err(trouble) => self.note(Some(trouble.to_string())),
            }
            sleep(pace.pause(Instant::now())).await;
        }
    }

    /// Looks once, and takes a step where there is one to take.
    async fn look(&self, memory: &mut Memory) -> Result<(View, Outcome), Trouble> {
        let (secret, registration) = join(self.secret.read(), self.registration.read()).await;
        let view = View::new(
            (&self.secret, secret),
            (&self.registration, registration),
            &self.service,
        );
        // Where the Secret cannot be read, what is shown is judged all the same.
        let step = next_step(&self.judge(&view, memory));
        let view = view.with_secret()?;
        let mut outcome = Outcome {
            rests: false,
            trouble: self.matter(&view),
        };
        match step {
            // Where it cannot be read, it has to be asked for again.
            Step::Rest | Step::Leave => outcome.rests = view.registration.is_ok(),
            Step::Make | Step::Stage | Step::Publish | Step::Promote => {
                if self.take(step, &view).await? {
                    self.metrics.certificate.took(name(step));
                    info!(secret = %self.secret, step = name(step), "certificate looked after");
                } else {
                    debug!(step = name(step), "somebody else was quicker");
                }
            }
        }
        Ok((view, outcome))
    }

    /// Judges what there is, and shows what is best.
    fn judge(&self, view: &View, memory: &mut Memory) -> Seen {
        let at = memory.started.elapsed();
        let all = [&view.current, &view.next].map(Found::material);
        let vouched = all.into_iter().chain([memory.shown.as_ref()]).flatten();
        let vouched = vouched.filter(|material| view.vouched(material) == Some(Ok(())));
        let vouched: Vec<_> = vouched.map(|material| material.id).collect();
        memory.confidence.note(&vouched, at);
        let pair = |material: &Material| Pair {
            id: material.id,
            begin: material.begin,
            end: material.end,
            trust: view.trust(material, &memory.confidence, at),
        };
        let place = |found: &Found| match found {
            Found::Empty => Place::Empty,
            Found::Unusable(_) => Place::Unusable,
            Found::Foreign(_) => Place::Foreign,
            Found::Usable(material) => Place::Usable(pair(material)),
        };
        let seen = Seen {
            now: view.now,
            current: place(&view.current),
            next: place(&view.next),
            bundles: view.bundles(),
        };
        let shown = memory.shown.as_ref().map(pair);
        if let (Place::Usable(pair), Some(material)) = (seen.current, view.current.material())
            && takes_over(shown.as_ref(), &pair, view.now)
        {
            self.show(material);
            memory.shown = Some(material.clone());
        }
        if let Some(shown) = &memory.shown {
            let trusted = view.vouched(shown).filter(|_| view.calls_us());
            self.standing().note_trust(trusted);
        }
        seen
    }

    /// Takes a step; says whether nobody else was quicker.
    async fn take(&self, step: Step, view: &View) -> Result<bool, Trouble> {
        if let (Step::Make, Found::Unusable(why)) = (step, &view.current) {
            warn!(secret = %self.secret, why, "the certificate cannot be used and is replaced");
        }
        let patch = match (step, view.stored()) {
            (Step::Make, None) => {
                let secret = created(&self.service.namespace, self.secret.name(), &self.issue(view.now)?);
                return self.secret.create(&secret).await;
            }
            (Step::Make, Some(secret)) => secret.made(&self.issue(view.now)?),
            (Step::Stage, Some(secret)) => secret.staged(&self.issue(view.now)?),
            (Step::Promote, Some(secret)) => secret.promoted(),
            (Step::Publish, _) => {
                return match view.completed() {
                    Some(patch) => self.registration.patch(&patch).await,
                    None => Ok(false),
                };
            }
            (Step::Stage | Step::Promote, None) | (Step::Rest | Step::Leave, _) => return Ok(false),
        };
        self.secret.patch(&patch).await
    }

    fn issue(&self, now: i64) -> Result<Issued, Trouble> {
        let at =
            |seconds: i64| SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        let issued = issue(AUTHORITY, &[self.service.host()], at(now - SKEW), at(now + LIFE));
        issued.map_err(|error| self.secret.trouble("make a certificate for", &error))
    }

    /// Waits until one of the objects changes, a certificate settles, or it is time to look anyway.
    async fn rest(&self, view: &View, memory: &Memory) {
        let pending = memory.confidence.pending(memory.started.elapsed());
        let (secret, registration) = view.versions();
        tokio::select! {
            () = self.secret.changed(secret) => {}
            () = self.registration.changed(registration) => {}
            () = sleep(pending.unwrap_or(LOOK).min(LOOK)) => {}
        }
    }

    fn show(&self, material: &Material) {
        self.certificate.show(Arc::clone(&material.key));
        self.standing().has_own();
        let (not_before, not_after) = (material.begin, material.end);
        self.metrics.reloads.certificate(Validity { not_before, not_after });
        info!(secret = %self.secret, end = material.end, "another certificate is shown");
    }

    /// What is the matter although everything could be read.
    fn matter(&self, view: &View) -> Option<String> {
        if let Found::Foreign(why) = &view.current {
            return Some(format!(
                "{}: {why}: name another Secret, or mount it and serve it from a folder",
                self.secret
            ));
        }
        match &view.registration {
            Err(trouble) => Some(trouble.to_string()),
            Ok(Some(registration)) => match registration.injector() {
                Some((annotation, who)) => Some(format!(
                    "{}: {who} fills in caBundle, as annotation {annotation} says: take it away, or serve the certificate from a folder",
                    self.registration
                )),
                None if !registration.calls_us() => Some(format!(
                    "{}: no entry calls Service {}/{}",
                    self.registration, self.service.namespace, self.service.name
                )),
                None => None,
            },
            Ok(None) => None,
        }
    }

    /// Says once what is the matter, and once that nothing is any more.
    fn note(&self, trouble: Option<String>) {
        if !self.standing().note_upkeep(trouble.clone().map_or(Ok(()), Err)) {
            return;
        }
        if let Some(error) = trouble {
            warn!(error, "the certificate cannot be looked after, trying again");
        } else {
            info!(secret = %self.secret, "the certificate is looked after again");
        }
    }

    fn standing(&self) -> &Standing {
        &self.metrics.certificate.standing
    }
}

/// A step in a word.
fn name(step: Step) -> &'static str {
    match step {
        Step::Make => "make",
        Step::Stage => "stage",
        Step::Publish => "publish",
        Step::Promote => "promote",
        Step::Rest => "rest",
        Step::Leave => "leave",
    }
}
