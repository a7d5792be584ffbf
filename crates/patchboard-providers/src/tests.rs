//! Tests of the crate as a whole, and what the modules' own tests share.

pub(crate) mod fixture;
mod http;
pub(crate) mod spoken;
mod stub;
