//! Whether API servers take a certificate that others look after.
//!
//! Nothing depends on it but a metric and the log: a replica that were away would help nobody, and a registration that is
//! filled in only once replicas are ready must not wait for itself.

use super::Certificate;
use super::object::{Object, Trouble};
use super::registration::{Registration, Service};
use super::standing::Standing;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use tracing::{debug, info, warn};

/// How soon it is asked for: by then others have opened a connection that can be used.
const FIRST: Duration = Duration::from_secs(1);

/// How often it is asked for: too seldom for a connection to stay open in between.
const PAUSE: Duration = Duration::from_secs(5 * 60);

/// Looks again and again whether the entries of `registration` that call `service` vouch for `certificate`.
pub(crate) async fn look(
    registration: Object,
    service: Service,
    certificate: Arc<Certificate>,
    standing: Arc<Standing>,
) {
    sleep(FIRST).await;
    loop {
        let trusted = trusted(&registration, &service, &certificate).await;
        let trusted = trusted.unwrap_or_else(|error| {
            debug!(%error, "it is not known whether API servers take the certificate");
            None
        });
        match (standing.trusted(), &trusted) {
            (Some(true) | None, Some(Err(why))) => {
                warn!(%registration, why, "API servers do not take the certificate in use");
            }
            (Some(false), Some(Ok(()))) => info!(%registration, "API servers take the certificate in use"),
            (_, _) => {}
        }
        standing.note_trust(trusted);
        sleep(PAUSE).await;
    }
}

/// Whether the certificate in use is taken; nothing where nobody is told to call us.
async fn trusted(
    registration: &Object,
    service: &Service,
    certificate: &Certificate,
) -> Result<Option<Result<(), String>>, Trouble> {
    let answer = registration.read().await?;
    let read = Registration::read(&answer, registration, service)?.filter(Registration::calls_us);
    let current = certificate.current();
    Ok(read
        .zip(current)
        .map(|(read, current)| read.vouches_for(&current.cert, &service.host(), answer.now)))
}
