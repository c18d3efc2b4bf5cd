//! Taking out of a manifest what injection put in.
