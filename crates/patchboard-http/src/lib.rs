//! HTTP as a client, for every crate that needs it: the one place that builds clients, bounds what is read and decides
//! which addresses may be reached.
//!
//! - [`client`]: builds clients; [`pool`]: clients that providers and exporters share; [`post`]: one document to an
//!   address that the operator chose.
//! - [`body`]: reads bodies up to a limit; [`transport`]: what went wrong, in words without the URL.
//! - [`fetch`]: the core's `HttpFetcher` port, which guards against requests to private addresses.
//!
//! No other crate names `reqwest`; its types are passed on here. This crate knows no model API, no tool, no surface and
//! no configuration.

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
