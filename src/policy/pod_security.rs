//! Pod Security admission.
