//! Bodies, read piece by piece into a room that all of them share.
//!
//! What has arrived takes room, not what was announced: a client that announces much and sends nothing is in nobody's way,
//! and one that stops half-way gives its room back when the body's own deadline is over. The JSON of a body can need many
//! times its bytes; it is weighed before it is read, and takes room of its own.

use super::Refusal;
use crate::webhook::review::{self, BODY_LIMIT};
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_LENGTH;
use futures::StreamExt;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Bytes of bodies that are held at the same time: two of the largest, or a thousand of the usual size.
const BODIES: usize = 2 * BODY_LIMIT;

/// Bytes of JSON that are held at the same time, in memory. `charts/outrigger/values.yaml` has the whole sum.
const TREES: usize = 32 << 20;

/// Bytes that the JSON of one body may take: a pod of 1.5 MiB, more than etcd stores, has a third of this.
const TREE_LIMIT: usize = 24 << 20;

/// Room is counted in units of this many bytes.
const UNIT: usize = 16 << 10;

/// How long a request waits for room. Answers take milliseconds, so longer means that somebody fills it on purpose.
pub(super) const WAIT: Duration = Duration::from_secs(1);

/// The room that bodies and their JSON share.
#[derive(Debug)]
pub(super) struct Room {
    bodies: Semaphore,
    trees: Semaphore,
}

/// Room that is taken until it is dropped.
pub(super) type Place<'a> = SemaphorePermit<'a>;

impl Room {
    pub(super) fn new() -> Self {
        Self {
            bodies: Semaphore::new(BODIES / UNIT),
            trees: Semaphore::new(TREES / UNIT),
        }
    }

    /// The whole body of a request, within `deadline`.
    pub(super) async fn body(&self, request: Request, deadline: Duration) -> Result<(Vec<u8>, Place<'_>), Refusal> {
        let announced = request.headers().get(CONTENT_LENGTH);
        let announced: Option<usize> = announced.and_then(|value| value.to_str().ok()?.parse().ok());
        if announced.is_some_and(|length| length > BODY_LIMIT) {
            return Err(Refusal::TooLarge);
        }
        let body = self.collect(request.into_body());
        timeout(deadline, body)
            .await
            .unwrap_or(Err(Refusal::SlowBody(deadline)))
    }

    async fn collect(&self, body: Body) -> Result<(Vec<u8>, Place<'_>), Refusal> {
        let mut place = take(&self.bodies, 0).await?;
        let mut bytes = Vec::new();
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| Refusal::Body(error.to_string()))?;
            let length = bytes.len() + chunk.len();
            if length > BODY_LIMIT {
                return Err(Refusal::TooLarge);
            }
            let more = length.div_ceil(UNIT).saturating_sub(place.num_permits());
            place.merge(take(&self.bodies, more).await?);
            bytes.extend_from_slice(&chunk);
        }
        Ok((bytes, place))
    }

    /// Room for the JSON of `body`.
    pub(super) async fn tree(&self, body: &[u8]) -> Result<Place<'_>, Refusal> {
        let weight = review::weight(body);
        if weight > TREE_LIMIT {
            return Err(Refusal::TooHeavy);
        }
        take(&self.trees, weight.div_ceil(UNIT)).await
    }
}

/// Waits for `units` of room, but not for long.
async fn take(room: &Semaphore, units: usize) -> Result<Place<'_>, Refusal> {
    let units = u32::try_from(units).unwrap_or(u32::MAX);
    // Mostly there is room, and no clock need be asked. Nobody is passed by: room is free only while nobody waits for it.
    if let Ok(place) = room.try_acquire_many(units) {
        return Ok(place);
    }
    match timeout(WAIT, room.acquire_many(units)).await {
        Ok(place) => place.map_err(|_closed| Refusal::Fault("closed")),
        Err(_) => Err(Refusal::Full),
    }
}
