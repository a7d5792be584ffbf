//! What somebody meant who mistyped a key or a name.

pub(crate) use patchboard_core::text::{did_you_mean, nearest};
