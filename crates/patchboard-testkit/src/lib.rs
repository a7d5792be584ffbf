//! Test support: a board in memory, conversations with a surface as readable text files, and a web server for clients.
//! Not part of the product.

pub mod board;
pub mod http_stub;
pub mod transcript;
