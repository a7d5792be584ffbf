//! The life of plugins, with plugins that are made of words and then with real ones.

mod changes;
mod components;
mod lifecycle;
mod loads;
pub(super) mod stub;
