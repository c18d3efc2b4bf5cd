//! The admission server.

pub mod review;
