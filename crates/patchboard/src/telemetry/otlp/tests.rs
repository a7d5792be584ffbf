//! The exporter before a collector on a real socket; the layer under a real board.

mod collector;
mod exporting;
mod tree;
