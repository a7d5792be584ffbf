//! The hub through the board, as surfaces use it, with scripted apps. One file per topic.

mod apps;
mod delivering;
mod endings;
mod learning;
mod refusing;
mod restart;
mod steering;
pub(crate) mod test_hub;
