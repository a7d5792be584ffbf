//! Calls that are answered whole.

use super::*;

fn packed(type_name: &str, value: &[u8]) -> Any {
    Any { type_url: format!("type.googleapis.com/google.protobuf.{type_name}"), value: value.to_vec() }
}

fn host_call(tool: &str, arguments: Value) -> pb::ExecuteElixirToolRequest {
    let pb::ExecuteToolRequest { session_id, tool_name, parameters, metadata, .. } = call(tool, arguments);
    pb::ExecuteElixirToolRequest { session_id, tool_name, parameters, metadata }
}

#[tokio::test]
async fn values_come_in_by_both_conventions_and_go_out_as_json() {
    let bench = Bench::new().await;
    let mut client = bench.in_session().await;
    let request = pb::ExecuteToolRequest {
        parameters: [
            ("double", packed("DoubleValue", &[0x09, 0, 0, 0, 0, 0, 0, 0x04, 0x40])),
            ("flag", packed("BoolValue", &[0x08, 1])),
            ("json", packed("StringValue", b"{\"a\":9007199254740993}")),
            ("text", packed("StringValue", b"\x0a\x03[1]")),
            ("list", packed("StringValue", b"\x0a\x03[1]")),
            ("null", value::encode_json(&b"null"[..])),
        ]
        .map(|(name, any)| (name.to_owned(), any))
        .into(),
        ..call("echo", json!({}))
    };
    let response = client.execute_tool(request).await.unwrap().into_inner();
    let expected = json!({
        "double": 2.5, "flag": true, "json": {"a": 9_007_199_254_740_993_u64}, "text": "[1]", "list": [1], "null": null,
    });
    assert_eq!(result(&response), expected);
    assert_eq!((response.metadata["tool_type"].as_str(), response.error_message.as_str()), ("remote", ""));
    assert!(response.metadata.contains_key("execution_time"));
}

#[tokio::test]
async fn what_a_call_carries_reaches_the_worker() {
    let bench = Bench::new().await;
    let mut client = bench.in_session().await;
    let metadata =
        map([("binary_format:data", "npy"), ("thread_sensitive", "true"), ("timeout_ms", "5000"), ("mine", "x")]);
    let mut request = tonic::Request::new(pb::ExecuteToolRequest {
        metadata: metadata.clone(),
        binary_parameters: [("data".to_owned(), Bytes::from_static(b"\x00\x01\xff"))].into(),
        ..call("bytes", json!({"data": "overridden", "other": 1}))
    });
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    request.metadata_mut().insert("x-snakepit-correlation-id", "sp-1".parse().unwrap());
    request.metadata_mut().insert("traceparent", trace.parse().unwrap());
    request.set_timeout(Duration::from_secs(60));
    let response = client.execute_tool(request).await.unwrap();
    assert_eq!(response.metadata().get("x-snakepit-correlation-id").unwrap(), "sp-1");
    let response = response.into_inner();
    assert_eq!((&response.binary_result[..], &response.result), (&b"\x00\x01\xff"[..], &None));
    assert_eq!(response.metadata["content_type"], "application/octet-stream");
    let call_metadata = bench.pool.last();
    assert_eq!((&*call_metadata.session, &call_metadata.metadata), ("s", &metadata));
    assert_eq!((call_metadata.correlation.as_deref(), call_metadata.trace.as_deref()), (Some("sp-1"), Some(trace)));
    assert_eq!((call_metadata.timeout, call_metadata.for_model), (Some(Duration::from_secs(5)), false));

    let request = pb::ExecuteToolRequest { metadata: map([("correlation_id", "sp-2")]), ..call("echo", json!({})) };
    let response = client.execute_tool(request).await.unwrap();
    assert_eq!(response.metadata().get("x-snakepit-correlation-id").unwrap(), "sp-2");
    assert_eq!(bench.pool.last().timeout, Some(BridgeLimits::default().call));
}

#[tokio::test]
async fn what_goes_wrong_is_told_as_the_protocol_has_it() {
    let bench = Bench::new().await;
    let mut client = bench.in_session().await;
    let elsewhere = pb::ExecuteToolRequest { session_id: "none".to_owned(), ..call("echo", json!({})) };
    let broken = pb::ExecuteToolRequest {
        parameters: [("a".to_owned(), value::encode_json(&b"{nope"[..]))].into(),
        ..call("echo", json!({}))
    };
    for (request, words) in [
        (elsewhere, "Session not found: none"),
        (call("nothing", json!({})), "Tool nothing not found for session s"),
        (call("writes", json!({})), "Tool writes not found for session s"),
        (broken, "Invalid parameter a: "),
    ] {
        let response = client.execute_tool(request).await.unwrap().into_inner();
        assert!(
            !response.success && response.result.is_none() && response.error_message.starts_with(words),
            "{response:?}"
        );
    }
    assert_eq!(bench.pool.calls(), 0);

    let failed = client.execute_tool(call("fails", json!({}))).await.unwrap().into_inner();
    assert_eq!(failed.error_message, r#"{"type":"ValueError","message":"no"}"#);
    let failed = client.execute_tool(call("stumbles", json!({}))).await.unwrap().into_inner();
    assert_eq!(failed.error_message, "Tool execution failed: no luck");

    for (how, code, words) in [
        ("unavailable", Code::Unavailable, "said so"),
        ("queue_timeout", Code::DeadlineExceeded, "queue_timeout"),
        ("saturated", Code::ResourceExhausted, "pool_saturated"),
        ("busy", Code::ResourceExhausted, "worker_busy"),
        ("invalid", Code::InvalidArgument, "said so"),
        ("internal", Code::Internal, "said so"),
    ] {
        let (found, text) = refusal(client.execute_tool(call("faults", json!({ "how": how }))).await);
        assert!(found == code && text.contains(words), "{how}: {found:?} {text}");
    }
}

#[tokio::test]
async fn the_server_s_own_tools_are_called_both_ways() {
    let bench = Bench::new().await;
    let mut client = bench.in_session().await;
    let request = host_call("looks", json!({"text": "[1]", "n": 5}));
    let response = client.execute_elixir_tool(request).await.unwrap().into_inner();
    let text: Value = serde_json::from_slice(&response.result.unwrap().value).unwrap();
    assert_eq!(text, json!(r#"saw {"n":5,"text":"[1]"}"#));
    assert_eq!((response.success, response.metadata["tool_type"].as_str()), (true, "local"));
    assert_eq!(result(&client.execute_tool(call("looks", json!({}))).await.unwrap().into_inner()), json!("saw {}"));

    let response = client.execute_elixir_tool(host_call("echo", json!({}))).await.unwrap().into_inner();
    assert_eq!((response.success, response.error_message.as_str()), (false, "Tool echo is not an Elixir tool"));

    // Variables: what is set is there, as the number it was.
    let set = host_call("variable_set", json!({"name": "v", "value": 9_007_199_254_740_993_u64}));
    let set = client.execute_elixir_tool(set).await.unwrap().into_inner();
    assert!(set.success, "{set:?}");
    let got = client.execute_elixir_tool(host_call("variable_get", json!({"name": "v"}))).await.unwrap().into_inner();
    let got: Value = serde_json::from_slice(&got.result.unwrap().value).unwrap();
    assert_eq!(got["value"], json!(9_007_199_254_740_993_u64));
}

#[tokio::test]
async fn pickled_values_go_nowhere_unless_they_may() {
    let pickled =
        || pb::ExecuteToolRequest { metadata: map([("binary_format:data", "pickle")]), ..call("echo", json!({})) };
    let bench = Bench::new().await;
    let mut client = bench.in_session().await;
    assert_eq!(refusal(client.execute_tool(pickled()).await).0, Code::InvalidArgument);
    let streamed = pb::ExecuteToolRequest { tool_name: "pieces".to_owned(), ..pickled() };
    assert_eq!(refusal(client.execute_streaming_tool(streamed).await).0, Code::InvalidArgument);
    assert_eq!(bench.pool.calls(), 0);
    let bench = Bench::with(Setup { allow_pickle: true, ..Setup::default() }).await;
    let mut client = bench.in_session().await;
    assert!(client.execute_tool(pickled()).await.unwrap().into_inner().success);
    assert_eq!(bench.pool.last().metadata["binary_format:data"], "pickle");
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_stopped() {
    let bench = Bench::new().await;
    let mut client = bench.in_session().await;
    // On a busy machine a short time is over before the tool is even asked; then a longer one is tried.
    for milliseconds in ["50", "1000", "20000"] {
        let metadata = map([("timeout_ms", milliseconds)]);
        let request = pb::ExecuteToolRequest { metadata, ..call("hangs", json!({})) };
        assert_eq!(refusal(client.execute_tool(request).await).0, Code::DeadlineExceeded);
        if bench.pool.calls() > 0 {
            break;
        }
    }
    bench.pool.stopped.notified().await;
}

#[tokio::test]
async fn a_client_that_goes_stops_its_call_and_what_became_of_it_is_on_record() {
    let bench = Bench::new().await;
    let mut client = bench.in_session().await;
    let mut cloned_client = client.clone();
    let request = bench.clients.spawn(async move { cloned_client.execute_tool(call("hangs", json!({}))).await });
    bench.pool.started.notified().await;
    request.abort();
    bench.pool.stopped.notified().await;
    let audit = loop {
        let audit = bench.store.audit(10, None).await.unwrap();
        if audit.items.iter().any(|row| &*row.action == "tool.call") {
            break audit;
        }
        tokio::task::yield_now().await;
    };
    let row = audit.items.iter().find(|row| &*row.action == "tool.call").unwrap();
    assert_eq!((&*row.subject, &*row.detail, &*row.surface), ("hangs", "error", "bridge"));
    // The connection goes on.
    assert!(client.execute_tool(call("echo", json!({}))).await.unwrap().into_inner().success);
}

#[tokio::test]
async fn large_values_go_both_ways_and_too_large_ones_do_not() {
    let bench = Bench::with(Setup {
        limits: BridgeLimits { message: 20 * 1024 * 1024, ..BridgeLimits::default() },
        ..Setup::default()
    })
    .await;
    let mut client = bench.in_session().await;
    let data: Bytes = (0..16 * 1024 * 1024_u32).map(|at| (at % 251) as u8).collect::<Vec<_>>().into();
    let with = |data: Bytes| pb::ExecuteToolRequest {
        binary_parameters: [("data".to_owned(), data)].into(),
        ..call("bytes", json!({}))
    };
    let response = client.execute_tool(with(data.clone())).await.unwrap().into_inner();
    assert!(response.binary_result == data);
    let (code, _) = refusal(client.execute_tool(with(vec![0; 21 * 1024 * 1024].into())).await);
    assert_eq!(code, Code::OutOfRange);
    let response = client.execute_tool(call("large", json!({"size": 21 * 1024 * 1024}))).await.unwrap().into_inner();
    assert!(!response.success && response.error_message.contains("too large"), "{response:?}");
    // Text that takes long to read is read elsewhere.
    let text = "x".repeat(2 * 1024 * 1024);
    let echoed = client.execute_tool(call("echo", json!({ "text": text }))).await.unwrap().into_inner();
    assert_eq!(result(&echoed)["text"].as_str().map(str::len), Some(2 * 1024 * 1024));
}

#[tokio::test]
async fn many_calls_on_one_connection_do_not_wait_for_each_other() {
    let bench = Bench::new().await;
    let client = bench.in_session().await;
    let mut hanging = client.clone();
    let stuck = bench.clients.spawn(async move { hanging.execute_tool(call("hangs", json!({}))).await });
    bench.pool.started.notified().await;
    let calls = (0..100).map(|number| {
        let mut client = client.clone();
        async move { result(&client.execute_tool(call("echo", json!({ "n": number }))).await.unwrap().into_inner()) }
    });
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().enumerate().all(|(number, answer)| *answer == json!({ "n": number })));
    stuck.abort();
    bench.pool.stopped.notified().await;
}
