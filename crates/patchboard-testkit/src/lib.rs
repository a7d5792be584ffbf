//! Test support: conversations with a surface as readable files, and a web server for clients to talk to. Never part of
//! the product.

pub mod http_stub;
pub mod transcript;
