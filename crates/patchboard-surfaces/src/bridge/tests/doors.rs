//! Admission on every transport, and shutdown.

use std::pin::pin;

use axum::http::{Method, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::{v1, v1alpha};
use tower::service_fn;

use patchboard_core::bridge::WorkerSecret;

use super::*;

const TOKEN: &str = "a token of many bits";

const AUTHORITY: &[u8] = include_bytes!("../../../tests/certificates/authority.pem");
const SERVER: &[u8] = include_bytes!("../../../tests/certificates/server.pem");
const SERVER_KEY: &[u8] = include_bytes!("../../../tests/certificates/server-key.pem");
const CLIENT: &[u8] = include_bytes!("../../../tests/certificates/client.pem");
const CLIENT_KEY: &[u8] = include_bytes!("../../../tests/certificates/client-key.pem");
const STRANGER: &[u8] = include_bytes!("../../../tests/certificates/stranger.pem");
const STRANGER_KEY: &[u8] = include_bytes!("../../../tests/certificates/stranger-key.pem");

fn with_token<T>(message: T, token: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    request
}

fn ping() -> pb::PingRequest {
    pb::PingRequest { message: "x".to_owned() }
}

async fn reflect(channel: Channel, token: Option<&str>) -> Result<Vec<String>, Status> {
    let ask = v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let request = tonic::Request::new(futures_util::stream::iter([ask]));
    let request = match token {
        Some(token) => with_token(request.into_inner(), token),
        None => request,
    };
    let mut answers = ServerReflectionClient::new(channel).server_reflection_info(request).await?.into_inner();
    let answer = answers.message().await?.unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(services) = answer else { panic!("{answer:?}") };
    Ok(services.service.into_iter().map(|service| service.name).collect())
}

#[tokio::test]
async fn a_token_is_asked_for_everywhere() {
    let bench = Bench::with(Setup { token: Some(TOKEN), ..Setup::default() }).await;
    let channel = bench.channel().await;
    let mut client = client(channel.clone());
    for wrong in [None, Some("wrong"), Some("")] {
        let request = match wrong {
            Some(token) => with_token(ping(), token),
            None => tonic::Request::new(ping()),
        };
        assert_eq!(refusal(client.ping(request).await).0, Code::Unauthenticated, "{wrong:?}");
    }
    assert_eq!(refusal(client.execute_tool(call("echo", json!({}))).await).0, Code::Unauthenticated);
    assert_eq!(refusal(client.stream_telemetry(futures_util::stream::iter([])).await).0, Code::Unauthenticated);
    assert_eq!(refusal(reflect(channel.clone(), None).await).0, Code::Unauthenticated);
    for right in [TOKEN, OPERATOR] {
        assert!(client.ping(with_token(ping(), right)).await.is_ok());
    }
    let services = reflect(channel.clone(), Some(TOKEN)).await.unwrap();
    assert!(services.contains(&"snakepit.bridge.BridgeService".to_owned()), "{services:?}");
    // That the server is there may be seen on this machine.
    let mut health = HealthClient::new(channel);
    assert!(health.check(HealthCheckRequest { service: String::new() }).await.is_ok());
    assert_eq!(refusal(health.watch(HealthCheckRequest { service: String::new() }).await).0, Code::Unauthenticated);
}

#[tokio::test(start_paused = true)]
async fn guessing_is_slow_and_locks_nobody_out() {
    let bench = Bench::with(Setup { token: Some(TOKEN), ..Setup::default() }).await;
    let mut client = bench.client().await;
    let started = Instant::now();
    for answers in 1..=5 {
        assert_eq!(refusal(client.ping(with_token(ping(), "guess")).await).0, Code::Unauthenticated);
        assert!(started.elapsed() >= Duration::from_secs(answers - 1), "a second between each two");
        let before = Instant::now();
        assert!(client.ping(with_token(ping(), TOKEN)).await.is_ok());
        assert!(before.elapsed() < Duration::from_secs(1));
    }
}

#[tokio::test]
async fn the_operator_s_client_is_the_operator() {
    let bench = Bench::with(Setup { token: Some(TOKEN), ..Setup::default() }).await;
    let mut client = bench.client().await;
    for token in [TOKEN, OPERATOR] {
        client.initialize_session(with_token(opening("s"), token)).await.unwrap();
        client.execute_tool(with_token(call("echo", json!({})), token)).await.unwrap();
    }
    let rows = loop {
        let audit = bench.store.audit(10, None).await.unwrap();
        let rows: Vec<_> = audit.items.iter().filter(|row| &*row.action == "tool.call").cloned().collect();
        if rows.len() == 2 {
            break rows;
        }
        tokio::task::yield_now().await;
    };
    let callers: Vec<_> = rows.iter().map(|row| (&*row.surface, &*row.principal)).collect();
    assert!(callers.contains(&("bridge", "token")) && callers.contains(&("cli", "operator")), "{callers:?}");
}

/// A request as no gRPC client would send it.
async fn odd(bench: &Bench, method: Method, authority: &str, headers: &[(&str, &str)]) -> StatusCode {
    let stream = TcpStream::connect(bench.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    bench.clients.spawn(connection);
    let uri = format!("http://{authority}/snakepit.bridge.BridgeService/Ping");
    let mut request = axum::http::Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(axum::body::Body::from(&b"\0\0\0\0\0"[..])).unwrap();
    sender.send_request(request).await.unwrap().status()
}

#[tokio::test]
async fn web_pages_get_nowhere() {
    let bench = Bench::new().await;
    let grpc = ("content-type", "application/grpc+proto");
    let local = bench.address.to_string();
    for (authority, headers, expected) in [
        (local.as_str(), vec![grpc], StatusCode::OK),
        ("localhost", vec![grpc], StatusCode::OK),
        ("evil.example.com", vec![grpc], StatusCode::FORBIDDEN),
        (&local, vec![grpc, ("host", "evil.example.com")], StatusCode::FORBIDDEN),
        (&local, vec![grpc, ("origin", "https://evil.example.com")], StatusCode::FORBIDDEN),
        (&local, vec![grpc, ("origin", "null")], StatusCode::FORBIDDEN),
        (&local, vec![("content-type", "text/plain")], StatusCode::UNSUPPORTED_MEDIA_TYPE),
        (&local, vec![], StatusCode::UNSUPPORTED_MEDIA_TYPE),
    ] {
        assert_eq!(odd(&bench, Method::POST, authority, &headers).await, expected, "{authority} {headers:?}");
    }
    assert_eq!(odd(&bench, Method::GET, &local, &[grpc]).await, StatusCode::UNSUPPORTED_MEDIA_TYPE);

    // HTTP/1.1 is refused.
    let mut stream = TcpStream::connect(bench.address).await.unwrap();
    let request = "POST /snakepit.bridge.BridgeService/Ping HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // It may be cut before everything was read.
    drop(stream.read_to_end(&mut answer).await);
    assert!(!answer.windows(5).any(|word| word == b"HTTP/"), "{answer:?}");
}

#[tokio::test]
async fn methods_that_are_not_there() {
    let bench = Bench::new().await;
    let mut grpc = tonic::client::Grpc::new(bench.channel().await);
    for path in ["/snakepit.bridge.BridgeService/Nothing", "/other.Service/Ping", "/x"] {
        grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<pb::PingRequest, pb::PingResponse>::default();
        let path = path.parse().unwrap();
        assert_eq!(refusal(grpc.unary(tonic::Request::new(ping()), path, codec).await).0, Code::Unimplemented);
    }
}

fn tls(client_authority: Option<&[u8]>) -> ReloadableTls {
    ReloadableTls::new(TlsFiles { certificate: SERVER, key: SERVER_KEY, client_authority }).unwrap()
}

async fn over_tls(bench: &Bench, identity: Option<(&[u8], &[u8])>) -> Result<String, String> {
    let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(AUTHORITY)).domain_name("localhost");
    let config = match identity {
        Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
        None => config,
    };
    let endpoint = Endpoint::from_shared(format!("https://localhost:{}", bench.address.port())).unwrap();
    let endpoint = endpoint.tls_config(config).unwrap();
    let address = bench.address;
    let dial = service_fn(move |_| async move { TcpStream::connect(address).await.map(TokioIo::new) });
    let channel = endpoint.connect_with_connector(dial).await.map_err(|error| format!("{error:?}"))?;
    let mut client = client(channel);
    client.ping(ping()).await.map(|pong| pong.into_inner().message).map_err(|status| status.to_string())
}

#[tokio::test]
async fn tls_with_and_without_certificates_of_clients() {
    let bench = Bench::with(Setup { tls: Some(tls(None)), ..Setup::default() }).await;
    assert_eq!(over_tls(&bench, None).await.unwrap(), "pong: x");
    // Plainly there is nothing to be had.
    let plain = Endpoint::from_shared(format!("http://{}", bench.address)).unwrap().connect().await;
    let answer = match plain {
        Ok(channel) => client(channel).ping(ping()).await.is_ok(),
        Err(_) => false,
    };
    assert!(!answer);

    let bench = Bench::with(Setup { tls: Some(tls(Some(AUTHORITY))), ..Setup::default() }).await;
    assert_eq!(over_tls(&bench, Some((CLIENT, CLIENT_KEY))).await.unwrap(), "pong: x");
    assert!(over_tls(&bench, None).await.is_err());
    assert!(over_tls(&bench, Some((STRANGER, STRANGER_KEY))).await.is_err());
}

#[tokio::test]
async fn certificates_that_cannot_be_used() {
    let none: &[u8] = b"nothing";
    let files = |certificate, key, client_authority| TlsFiles { certificate, key, client_authority };
    let refused = |files| ReloadableTls::new(files).unwrap_err().to_string();
    assert_eq!(refused(files(SERVER, none, None)), "the private key cannot be read");
    assert_eq!(refused(files(none, SERVER_KEY, None)), "certificate and key cannot be used");
    assert_eq!(refused(files(SERVER, CLIENT_KEY, None)), "certificate and key cannot be used");
    assert_eq!(refused(files(SERVER, SERVER_KEY, Some(none))), "the authority of clients cannot be used");
}

async fn over_unix(path: &Path) -> Client {
    let path = path.to_owned();
    let dial = service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    let channel = Endpoint::from_static("http://whatever.example").connect_with_connector(dial).await.unwrap();
    client(channel)
}

/// As clients in Python do: the socket's path is what they call the server.
async fn call_by_its_path(path: &Path) {
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        [&[0, 0, u8::try_from(payload.len()).unwrap(), kind, flags, 0, 0, 0, stream], payload].concat()
    };
    let field = |name: &str, value: &str| {
        let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        [vec![0x40], text(name), text(value)].concat()
    };
    let headers = [
        field(":path", "/snakepit.bridge.BridgeService/Ping"),
        field(":authority", "tmp%2Fsome%2Fbridge.sock"),
        vec![0x83, 0x86],
        field("content-type", "application/grpc"),
        field("te", "trailers"),
    ];
    let mut stream = UnixStream::connect(path).await.unwrap();
    let sent = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, &[]),
        frame(1, 4, 1, &headers.concat()),
        frame(0, 1, 1, b"\0\0\0\0\x03\x0a\x01x"),
    ];
    stream.write_all(&sent.concat()).await.unwrap();
    let mut received = Vec::new();
    while !received.windows(7).any(|words| words == b"pong: x") {
        assert!(stream.read_buf(&mut received).await.unwrap() > 0, "{received:?}");
    }
}

#[tokio::test]
async fn a_unix_socket_is_for_one_s_own_processes() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bridge.sock");
    // A server that died left its name behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let bench = Bench::new().await;
    let socket = UnixSocket::bind(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let serving = bench.tracker.spawn(bench.bridge.clone().serve_unix(socket));
    let mut client = over_unix(&path).await;
    assert_eq!(client.ping(ping()).await.unwrap().into_inner().message, "pong: x");
    call_by_its_path(&path).await;
    // A path in use by another server, or by a file that is not a socket, is left unchanged.
    assert_eq!(UnixSocket::bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    assert_eq!(UnixSocket::bind(&file).unwrap_err().kind(), io::ErrorKind::AlreadyExists);

    let (here, _there) = UnixStream::pair().unwrap();
    let own = local_users::own_user();
    assert!(unix::is_owned_by(&here, own) && !unix::is_owned_by(&here, own.wrapping_add(1)));

    bench.draining.cancel();
    serving.await.unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn a_worker_is_known_by_its_line() {
    let bench = Bench::with(Setup { token: Some(TOKEN), ..Setup::default() }).await;
    let doors = WorkerListeners::default();
    let worker = WorkerId("py_worker_1".into());
    // Asked for before there is a bridge.
    let secret = WorkerSecret::new("bits of a worker");
    let opening_it = doors.open(&worker, 0, &secret);
    let mut opening_it = pin!(opening_it);
    assert!(futures_util::poll!(opening_it.as_mut()).is_pending());
    doors.attach(&bench.bridge);
    let (address, line) = opening_it.await.unwrap();
    assert!(patchboard_core::loopback::is_loopback_address(address.ip()));
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut client = client(channel.clone());
    assert!(client.ping(ping()).await.is_ok());

    // Its own session is not a client's, and it is told nothing it does not read.
    assert!(open(&mut client, "session_1_1").await.available_tools.is_empty());
    let tools = vec![pb::ToolRegistration { name: "add".to_owned(), ..Default::default() }];
    let request =
        pb::RegisterToolsRequest { session_id: "session_1_1".to_owned(), tools, worker_id: "python-5".to_owned() };
    let registered = client.register_tools(request).await.unwrap().into_inner();
    assert_eq!(registered.tool_ids, map([("add", "session_1_1:add")]));
    let known = bench.pool.registered.lock().unwrap().clone();
    assert_eq!((known.len(), &known[0].0, &*known[0].1[0].name), (1, &worker, "add"));

    // Answers stay below what its channel takes, unless it takes more.
    let large =
        || pb::ExecuteToolRequest { session_id: "session_1_1".to_owned(), ..call("large", json!({"size": 5_000_000})) };
    let response = client.execute_tool(large()).await.unwrap().into_inner();
    assert!(!response.success && response.error_message.contains("too large"), "{response:?}");
    let mut request = tonic::Request::new(large());
    request.metadata_mut().insert("x-patchboard-max-reply", "10000000".parse().unwrap());
    assert_eq!(client.execute_tool(request).await.unwrap().into_inner().binary_result.len(), 5_000_000);
    let pieces = pb::ExecuteToolRequest {
        session_id: "session_1_1".to_owned(),
        ..call("pieces", json!({"count": 1, "size": 5_000_000, "final": true}))
    };
    let mut stream = client.execute_streaming_tool(pieces).await.unwrap().into_inner();
    assert_eq!(refusal(stream.message().await).0, Code::ResourceExhausted);
    assert_eq!(refusal(reflect(channel, None).await).0, Code::Unimplemented);

    // The server goes down: workers finish what they have.
    bench.draining.cancel();
    assert!(client.ping(ping()).await.is_ok());
    // When the worker ends, its listener closes.
    drop(line);
    while client.ping(ping()).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn nobody_without_its_secret_is_taken_for_a_worker_that_shows_it() {
    let bench = Bench::new().await;
    let doors = WorkerListeners::default();
    doors.attach(&bench.bridge);
    let worker = WorkerId("py_worker_1".into());
    let shown = |secret: &str| {
        let mut request = tonic::Request::new(ping());
        request.metadata_mut().insert("x-patchboard-worker-secret", secret.parse().unwrap());
        request
    };
    // It is demanded from the moment it was declared, or shown for the first time.
    for is_declared in [true, false] {
        let secret = WorkerSecret::new("bits of a worker");
        let (address, _line) = doors.open(&worker, 0, &secret).await.unwrap();
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        let mut client = client(channel.clone());
        // A worker of another make.
        assert!(client.ping(ping()).await.is_ok());
        for wrong in ["", "bits", "bits of another!", "bits of a worker and more"] {
            assert_eq!(refusal(client.ping(shown(wrong)).await).0, Code::Unauthenticated, "{wrong}");
        }
        assert!(client.ping(ping()).await.is_ok(), "what is wrong shows nothing");
        if is_declared {
            secret.require();
        } else {
            assert!(client.ping(shown("bits of a worker")).await.is_ok());
        }
        let (code, words) = refusal(client.ping(ping()).await);
        assert!(code == Code::Unauthenticated && words.contains("secret"), "{code:?} {words}");
        assert_eq!(refusal(client.execute_tool(call("echo", json!({}))).await).0, Code::Unauthenticated);
        let mut health = HealthClient::new(channel);
        let result = health.check(HealthCheckRequest { service: String::new() }).await;
        assert_eq!(refusal(result).0, Code::Unauthenticated, "nothing on a line is open");
        assert!(client.ping(shown("bits of a worker")).await.is_ok());
    }
}

#[tokio::test]
async fn health_follows_the_server() {
    let bench = Bench::new().await;
    let mut health = HealthClient::new(bench.channel().await);
    let ask = |service: &str| HealthCheckRequest { service: service.to_owned() };
    for service in ["", "snakepit.bridge.BridgeService"] {
        let answer = health.check(ask(service)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving);
    }
    assert_eq!(refusal(health.check(ask("other")).await).0, Code::NotFound);
    let mut watching = health.watch(ask("")).await.unwrap().into_inner();
    let mut unknown = health.watch(ask("other")).await.unwrap().into_inner();
    assert_eq!(watching.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    assert_eq!(unknown.message().await.unwrap().unwrap().status(), ServingStatus::ServiceUnknown);
    bench.draining.cancel();
    assert_eq!(watching.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    assert!(watching.message().await.unwrap().is_none());
}

#[tokio::test]
async fn clients_may_ask_what_is_spoken() {
    let bench = Bench::new().await;
    let channel = bench.channel().await;
    let services = reflect(channel.clone(), None).await.unwrap();
    for service in ["snakepit.bridge.BridgeService", "grpc.health.v1.Health"] {
        assert!(services.contains(&service.to_owned()), "{services:?}");
    }
    use v1alpha::server_reflection_request::MessageRequest;
    let ask = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::FileContainingSymbol("snakepit.bridge.ToolSpec".to_owned())),
    };
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(channel);
    let requests = futures_util::stream::iter([ask]);
    let mut answers = client.server_reflection_info(requests).await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap().message_response.unwrap();
    assert!(
        matches!(answer, v1alpha::server_reflection_response::MessageResponse::FileDescriptorResponse(_)),
        "{answer:?}"
    );
}

#[tokio::test]
async fn what_is_under_way_ends_before_the_server_does() {
    let bench = Bench::new().await;
    let client = bench.in_session().await;
    let mut hanging = client.clone();
    // It begins long before its time is over, on a busy machine too.
    let request = pb::ExecuteToolRequest { metadata: map([("timeout_ms", "2000")]), ..call("hangs", json!({})) };
    let under_way = bench.clients.spawn(async move { hanging.execute_tool(request).await });
    bench.pool.started.notified().await;
    bench.draining.cancel();
    assert_eq!(refusal(under_way.await.unwrap()).0, Code::DeadlineExceeded);
    bench.tracker.close();
    bench.tracker.wait().await;
    assert!(TcpStream::connect(bench.address).await.is_err());
    drop(client);
}

#[tokio::test]
async fn patience_has_an_end() {
    let bench = Bench::with(Setup { drain_timeout: Duration::from_millis(50), ..Setup::default() }).await;
    let client = bench.in_session().await;
    let mut hanging = client.clone();
    let under_way = bench.clients.spawn(async move { hanging.execute_tool(call("hangs", json!({}))).await });
    bench.pool.started.notified().await;
    bench.draining.cancel();
    assert!(under_way.await.unwrap().is_err());
    bench.pool.stopped.notified().await;
    bench.tracker.close();
    bench.tracker.wait().await;
}

#[tokio::test]
async fn there_are_only_so_many_connections() {
    let limits = BridgeLimits { connections: 1, ..BridgeLimits::default() };
    let bench = Bench::with(Setup { limits, ..Setup::default() }).await;
    let mut first = bench.client().await;
    assert!(first.ping(ping()).await.is_ok());
    let mut second = TcpStream::connect(bench.address).await.unwrap();
    assert_eq!(second.read(&mut [0; 16]).await.unwrap_or(0), 0);
    assert!(first.ping(ping()).await.is_ok());
    drop(first);
    // The permit is released as soon as the first connection has ended.
    loop {
        let connected = Endpoint::from_shared(format!("http://{}", bench.address)).unwrap().connect().await;
        if let Ok(channel) = connected
            && client(channel).ping(ping()).await.is_ok()
        {
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_for_nothing_is_let_go() {
    let bench = Bench::with(Setup { token: Some(TOKEN), ..Setup::default() }).await;
    let mut silent = TcpStream::connect(bench.address).await.unwrap();
    let mut unknown = bench.client().await;
    assert_eq!(refusal(unknown.ping(ping()).await).0, Code::Unauthenticated);
    let mut known = bench.client().await;
    assert!(known.ping(with_token(ping(), TOKEN)).await.is_ok());
    let mut received = Vec::new();
    // The server's own greeting, then the end.
    drop(silent.read_to_end(&mut received).await);
    assert!(known.ping(with_token(ping(), TOKEN)).await.is_ok());
    // All but the one that asked for something it may have.
    while bench.bridge.0.connection_permits.available_permits() < BridgeLimits::default().connections - 1 {
        tokio::task::yield_now().await;
    }
}
