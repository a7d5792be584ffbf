//! Test support: conversations with a surface as readable files. Never part of the product.

pub mod transcript;
