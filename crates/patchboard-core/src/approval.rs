//! Which calls need a person's consent: the operator's policy.

pub mod policy;
