//! Test support: a whole board in memory, and conversations with a surface as readable files. Never part of the product.

pub mod board;
pub mod transcript;
