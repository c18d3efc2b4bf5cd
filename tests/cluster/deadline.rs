//! Waiting for a condition, never for a time.

use std::time::{Duration, Instant};

/// The pause between two looks: short against anything waited for, long against the cost of a look.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks until `condition` answers, for at most `limit`; nothing where it never did.
pub(crate) async fn poll<T>(limit: Duration, mut condition: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = condition().await {
            return Some(answer);
        }
        if Instant::now() >= deadline {
            return None;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
