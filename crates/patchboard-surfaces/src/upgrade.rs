//! Upgrades a request to a WebSocket and runs its connection, the same for every surface. Host, origin and token have
//! already been checked; the surface passes its settings as a [`SocketPlan`].

use axum::extract::WebSocketUpgrade;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::task::TaskTracker;

use crate::dialect::Dialect;
use crate::listen::Peer;
use crate::pump::{self, ClientAuth, ClientConnection, PumpContext};
use crate::trace::traceparent;

/// Small, because most connections are idle; both buffers grow on demand.
const SOCKET_BUFFER: usize = 4 * 1024;
/// A subprotocol with this prefix carries the token, for clients that cannot set headers.
const BEARER_PROTOCOL: &str = "bearer.";

pub(crate) struct SocketPlan<D> {
    pub(crate) context: PumpContext,
    pub(crate) dialect: D,
    pub(crate) auth: ClientAuth,
    /// In bytes; a larger message closes the connection with 1009.
    pub(crate) max_message: usize,
    /// The selected subprotocol: browsers fail the connection if they offered some and the server selects none.
    pub(crate) protocol: Option<String>,
    /// Held until the connection ends, on surfaces with a connection limit.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

impl<D: Dialect> SocketPlan<D> {
    /// Responds to the upgrade; the connection then runs as a task of `tracker`.
    pub(crate) fn open(
        self,
        upgrade: WebSocketUpgrade,
        peer: Peer,
        headers: &HeaderMap,
        tracker: &TaskTracker,
    ) -> Response {
        let Self { context, dialect, auth, max_message, protocol, permit } = self;
        let trace = traceparent(headers).map(Into::into);
        let client = ClientConnection { peer, connection: pump::next_connection(), auth, trace };
        let tracked = tracker.token();
        upgrade
            .protocols(protocol)
            .max_message_size(max_message)
            .max_frame_size(max_message)
            .read_buffer_size(SOCKET_BUFFER)
            .write_buffer_size(SOCKET_BUFFER)
            .on_upgrade(move |socket| async move {
                // Boxed to keep the upgrade future of an idle connection small.
                Box::pin(pump::run(context, socket, dialect, client)).await;
                drop((tracked, permit));
            })
    }
}

/// A subprotocol that carries a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BearerProtocol<'a> {
    /// The full name, as offered.
    pub(crate) name: &'a str,
    pub(crate) token: &'a str,
}

/// The first bearer protocol offered.
pub(crate) fn bearer_protocol(headers: &HeaderMap) -> Option<BearerProtocol<'_>> {
    offered_protocols(headers)
        .find_map(|name| name.strip_prefix(BEARER_PROTOCOL).map(|token| BearerProtocol { name, token }))
}

/// The offered subprotocols, in the client's order.
pub(crate) fn offered_protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lists = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(str::trim)
}
