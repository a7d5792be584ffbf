//! Tests of the crate as a whole, and what the modules' own tests share.

pub(crate) mod fixture;
pub(crate) mod generated;
mod http;
mod stub;
