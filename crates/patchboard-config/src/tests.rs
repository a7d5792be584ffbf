//! Whole-configuration tests: text in, problems or values out.

pub(crate) mod bench;
mod bridge;
mod channels;
mod example;
mod generated;
mod keys;
mod layers;
mod lookup;
mod merging;
mod parts;
mod plugins;
mod problems;
mod secrets;
mod show;
mod validation;
