//! Test support: conversations with a surface as readable text files. Not part of the product.

pub mod board;
pub mod transcript;
