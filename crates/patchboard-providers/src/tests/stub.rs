//! A model API that does what it is told, on a real socket.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// How the next request is answered; each is used once.
pub(super) enum Script {
    /// A status, headers, and a body at once.
    Status(u16, Vec<(&'static str, &'static str)>, String),
    /// An event stream in these pieces, then the end of the body.
    Events(Vec<String>),
    /// An event stream in these pieces, then what follows.
    EventsThen(Vec<String>, Then),
    /// Nothing, ever.
    Silence,
}

pub(super) enum Then {
    /// The connection is cut.
    Cut,
    /// Nothing, until the client goes away.
    Silence,
}

#[derive(Debug, Clone)]
pub(super) struct Received {
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
    /// Differs from connection to connection.
    pub(super) peer: SocketAddr,
}

pub(super) struct Stub {
    address: SocketAddr,
    shared: Arc<Shared>,
    _serving: AbortOnDropHandle<()>,
}

struct Shared {
    scripts: Mutex<VecDeque<Script>>,
    received: Mutex<Vec<Received>>,
    abandoned: watch::Sender<usize>,
}

impl Stub {
    pub(super) async fn start(scripts: impl IntoIterator<Item = Script>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            scripts: Mutex::new(scripts.into_iter().collect()),
            received: Mutex::default(),
            abandoned: watch::Sender::new(0),
        });
        let app = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&shared))
            .into_make_service_with_connect_info::<SocketAddr>();
        let serving = AbortOnDropHandle::new(TaskTracker::new().spawn(async move {
            axum::serve(listener, app).await.unwrap();
        }));
        Self { address, shared, _serving: serving }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn host(&self) -> String {
        self.address.to_string()
    }

    pub(super) fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap().clone()
    }

    /// Resolves when so many answers have been given up by their readers.
    pub(super) async fn abandoned(&self, count: usize) {
        self.shared.abandoned.subscribe().wait_for(|abandoned| *abandoned >= count).await.unwrap();
    }
}

/// Where time is paused, it stands still as long as this lives. Paused time passes as soon as there is nothing to do,
/// and waiting for a socket counts as nothing to do; while blocking work is under way it does not pass.
pub(super) struct Still {
    _end: mpsc::Sender<()>,
}

impl Still {
    pub(super) fn begin() -> Self {
        let (end, ended) = mpsc::channel();
        // Fails, and is over, when the sender is gone.
        drop(tokio::task::spawn_blocking(move || ended.recv().is_err()));
        Self { _end: end }
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let uri = request.uri();
    let path = uri.path_and_query().map_or_else(|| uri.path().to_owned(), ToString::to_string);
    let headers = request.headers().clone();
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    shared.received.lock().unwrap().push(Received { path, headers, body, peer });
    let script = shared.scripts.lock().unwrap().pop_front();
    let abandoned = OnDrop(Arc::clone(&shared));
    match script {
        None => StatusCode::IM_A_TEAPOT.into_response(),
        Some(Script::Silence) => {
            let _abandoned = abandoned;
            std::future::pending().await
        }
        Some(Script::Status(status, headers, body)) => {
            let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
            for (name, value) in headers {
                response.headers_mut().insert(name, value.parse().unwrap());
            }
            response
        }
        Some(Script::Events(pieces)) => events(Body::from_stream(said(pieces))),
        Some(Script::EventsThen(pieces, Then::Cut)) => {
            let cut = stream::once(async {
                // Lets the pieces before it leave first.
                tokio::task::yield_now().await;
                Err(std::io::Error::other("cut"))
            });
            events(Body::from_stream(said(pieces).map(|piece| Ok(piece.unwrap_or_default())).chain(cut)))
        }
        Some(Script::EventsThen(pieces, Then::Silence)) => {
            let silence = Silence { _abandoned: abandoned };
            events(Body::from_stream(said(pieces).chain(silence)))
        }
    }
}

fn said(pieces: Vec<String>) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::iter(pieces.into_iter().map(|piece| Ok(Bytes::from(piece))))
}

fn events(body: Body) -> Response {
    ([("content-type", "text/event-stream")], body).into_response()
}

struct Silence {
    _abandoned: OnDrop,
}

impl Stream for Silence {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Pending
    }
}

struct OnDrop(Arc<Shared>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.abandoned.send_modify(|abandoned| *abandoned += 1);
    }
}
