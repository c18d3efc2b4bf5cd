//! The admission server.

pub mod certificate;
pub mod reload;
pub mod review;
