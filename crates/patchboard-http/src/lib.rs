//! HTTP client functionality for all crates: builds clients, bounds reads and decides which addresses are allowed.
//!
//! - [`client`]: builds clients; [`pool`]: clients shared by providers and exporters; [`post`]: posts a document to an
//!   address of the operator.
//! - [`body`]: bounded reading of bodies; [`transport`]: error texts without the URL.
//! - [`fetch`]: the core's `HttpFetcher` port, which guards against requests to private addresses.
//!
//! No other crate depends on `reqwest`; its types are re-exported here. This crate must not depend on model APIs,
//! tools, surfaces or the configuration.

pub mod body;
pub mod client;
pub mod fetch;
pub mod pool;
pub mod post;
pub mod transport;

pub use client::{ClientKind, ClientOptions, ConnectionReuse, send_within};
pub use fetch::{GuardedFetch, PrivateHost};
pub use pool::ClientPool;
pub use post::{PostAddress, PostResponse};
pub use transport::host_label;

pub use reqwest::{Client, Error, Method, RequestBuilder, Response, StatusCode, Url, header};
