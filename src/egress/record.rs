//! The log of decisions: one JSON object a line, which whoever enforces policies writes and `egress observe` reads.

use super::connection::Traffic;
use super::host::Name;
use super::ruling::{Outcome, Reason};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::num::NonZeroU16;

/// A line of the log. A reader passes over fields that it does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// When (RFC 3339); `timestamp` of a log with other lines among these.
    #[serde(alias = "timestamp")]
    pub time: String,
    /// The workload's namespace.
    pub namespace: String,
    /// Its service account.
    pub service_account: String,
    /// The name that the connection showed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Name>,
    /// The address that it showed or dialled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The port that it dialled.
    pub port: NonZeroU16,
    /// What it spoke.
    pub traffic: Traffic,
    /// What became of it.
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
    /// The policy that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}
