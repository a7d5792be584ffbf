//! Sessions, the tools in them, and who is there.

use super::*;

#[tokio::test]
async fn a_ping_is_answered() {
    let bench = Bench::new().await;
    let request = pb::PingRequest { message: "hi ü".to_owned() };
    let pong = bench.client().await.ping(request).await.unwrap().into_inner();
    assert_eq!(pong.message, "pong: hi ü");
    assert_eq!(pong.server_time, Some(patchboard_proto::Timestamp { seconds: NOW, nanos: 0 }));
}

#[tokio::test]
async fn a_session_from_its_start_to_its_end() {
    let bench = Bench::new().await;
    let mut client = bench.client().await;
    let request = pb::InitializeSessionRequest { metadata: map([("who", "me")]), ..opening("s") };
    let opened = client.initialize_session(request).await.unwrap().into_inner();
    assert!(opened.success && opened.error_message.is_empty());
    let names: Vec<&str> = opened.available_tools.keys().map(String::as_str).collect();
    assert_eq!(names, ["bytes", "echo", "fails", "faults", "hangs", "large", "pieces", "text"]);
    let pieces = &opened.available_tools["pieces"];
    assert_eq!(
        (pieces.name.as_str(), pieces.description.as_str(), pieces.supports_streaming),
        ("pieces", "it pieces", true)
    );
    assert_eq!((pieces.parameters[0].name.as_str(), pieces.parameters[0].r#type.as_str()), ("text", "string"));

    // Bare again: as it was.
    open(&mut client, "s").await;
    let get = pb::GetSessionRequest { session_id: "s".to_owned() };
    let session = client.get_session(get.clone()).await.unwrap().into_inner();
    assert_eq!((session.session_id.as_str(), session.tool_count), ("s", 8));
    assert_eq!(session.metadata, map([("who", "me")]));
    assert_eq!(session.created_at.unwrap().seconds, NOW);

    let heartbeat = pb::HeartbeatRequest { session_id: "s".to_owned(), client_time: None };
    let alive = client.heartbeat(heartbeat.clone()).await.unwrap().into_inner();
    assert!(alive.session_valid && alive.server_time.unwrap().seconds == NOW);

    let clean = pb::CleanupSessionRequest { session_id: "s".to_owned(), force: true };
    let cleaned = client.cleanup_session(clean.clone()).await.unwrap().into_inner();
    assert!(cleaned.success && cleaned.resources_cleaned == 1, "{cleaned:?}");
    assert_eq!(*bench.pool.over.lock().unwrap(), ["s"]);
    assert!(!client.heartbeat(heartbeat).await.unwrap().into_inner().session_valid);
    assert_eq!(refusal(client.get_session(get).await), (Code::NotFound, "Session not found: s".to_owned()));
    let again = client.cleanup_session(clean).await.unwrap().into_inner();
    assert!(again.success && again.resources_cleaned == 0);
}

#[tokio::test]
async fn sessions_that_are_not_opened() {
    let sessions = patchboard_core::bridge::BridgeOptions { max_sessions: 1, ..Default::default() };
    let bench = Bench::with(Setup { sessions, ..Setup::default() }).await;
    let mut client = bench.client().await;
    let (code, words) = refusal(client.initialize_session(opening("")).await);
    assert!(code == Code::InvalidArgument && words.contains("invalid_id"), "{words}");
    open(&mut client, "a").await;
    let (code, words) = refusal(client.initialize_session(opening("b")).await);
    assert!(code == Code::ResourceExhausted && words.contains("session_quota_exceeded"), "{words}");
    // Going on is no new one.
    open(&mut client, "a").await;
}

#[tokio::test(start_paused = true)]
async fn an_opening_waits_for_workers_but_not_for_ever() {
    let started = Instant::now();
    let bench = Bench::with(Setup { settled: Box::pin(std::future::pending()), ..Setup::default() }).await;
    let mut client = bench.client().await;
    open(&mut client, "early").await;
    assert!(started.elapsed() >= WORKER_START_TIMEOUT, "{:?}", started.elapsed());
    // A pool that never starts delays no later session.
    let late = Instant::now();
    open(&mut client, "late").await;
    assert!(late.elapsed() < Duration::from_secs(1), "{:?}", late.elapsed());

    let started = Instant::now();
    let ready = Arc::new(Notify::new());
    let workers = ready.clone();
    let settled: BoxFuture<'static, ()> = Box::pin(async move { workers.notified().await });
    let bench = Bench::with(Setup { settled, ..Setup::default() }).await;
    let mut client = bench.client().await;
    let (opened, ()) = tokio::join!(open(&mut client, "s"), async { ready.notify_one() });
    assert!(opened.success && started.elapsed() < WORKER_START_TIMEOUT, "{:?}", started.elapsed());
}

fn registering(session: &str, names: &[&str]) -> pb::RegisterToolsRequest {
    let tool = |name: &&str| pb::ToolRegistration {
        name: (*name).to_owned(),
        description: "theirs".to_owned(),
        metadata: map([("a", "b")]),
        ..Default::default()
    };
    pb::RegisterToolsRequest {
        session_id: session.to_owned(),
        tools: names.iter().map(tool).collect(),
        worker_id: "python-1".to_owned(),
    }
}

#[tokio::test]
async fn tools_of_a_client_are_listed_and_cannot_be_called_back() {
    let bench = Bench::new().await;
    let mut client = bench.in_session().await;
    let registered = client.register_tools(registering("s", &["theirs", " other "])).await.unwrap().into_inner();
    assert!(registered.success, "{registered:?}");
    assert_eq!(registered.tool_ids, map([("theirs", "s:theirs"), ("other", "s:other")]));
    let tools = open(&mut client, "s").await.available_tools;
    assert_eq!((tools.len(), &tools["theirs"].metadata), (10, &map([("a", "b")])));

    let response = client.execute_tool(call("theirs", json!({}))).await.unwrap().into_inner();
    assert_eq!(response.error_message, "Remote tool execution failed: Worker not found: python-1");
    assert!(!response.success && response.result.is_none());

    // All or nothing.
    let refused = client.register_tools(registering("s", &["new", "theirs"])).await.unwrap().into_inner();
    assert!(!refused.success && refused.error_message.contains("duplicate_tool"), "{refused:?}");
    assert!(!open(&mut client, "s").await.available_tools.contains_key("new"));
    let refused = client.register_tools(registering("none", &["a"])).await.unwrap().into_inner();
    assert_eq!((refused.success, refused.error_message.as_str()), (false, "Session not found: none"));
    let refused = client.register_tools(registering("s", &["no good"])).await.unwrap().into_inner();
    assert!(refused.error_message.starts_with("invalid_tool_name"), "{refused:?}");
}

#[tokio::test]
async fn the_server_s_own_tools_are_listed_as_far_as_they_are_exposed() {
    let bench = Bench::new().await;
    let mut client = bench.in_session().await;
    let request = pb::GetExposedElixirToolsRequest { session_id: "s".to_owned() };
    let tools = client.get_exposed_elixir_tools(request).await.unwrap().into_inner().tools;
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    for there in ["looks", "stumbles", "variable_set", "variable_get"] {
        assert!(names.contains(&there), "{names:?}");
    }
    for hidden in ["writes", "echo", "pieces"] {
        assert!(!names.contains(&hidden), "{names:?}");
    }
    let looks = tools.iter().find(|tool| tool.name == "looks").unwrap();
    assert_eq!(looks.metadata, map([("kind", "builtin"), ("read_only", "true")]));
}
