//! What becomes of a run whose client leaves.

use super::*;

fn detached(id: &str) -> Value {
    let mut request = run(id);
    request["detach"] = true.into();
    request
}

/// Attaches as soon as there is something to attach to.
async fn attach(server: &Server, id: &str) -> (Vec<Value>, Value) {
    loop {
        let mut client = server.connect().await;
        send(&mut client, json!({ "type": "attach", "id": id })).await;
        let (events, end) = read_run(&mut client, 1).await;
        if end["error"] != "run expired or unknown" {
            return (events, end);
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn it_is_cancelled() {
    let gate = Arc::new(Semaphore::new(0));
    let server = serve([held(&gate)], Setup::default()).await;
    let mut client = server.connect().await;
    send(&mut client, run("r1")).await;
    while next(&mut client).await["event"]["type"] != "message_chunk" {}
    client.close(None).await.unwrap();
    let (_, end) = attach(&server, "r1").await;
    assert_eq!(end, json!({ "type": "error", "id": "r1", "error": "run cancelled" }));
}

#[tokio::test]
async fn it_is_cancelled_too_when_the_client_just_vanishes() {
    let gate = Arc::new(Semaphore::new(0));
    let server = serve([held(&gate)], Setup::default()).await;
    let mut client = server.connect().await;
    send(&mut client, run("r1")).await;
    while next(&mut client).await["event"]["type"] != "message_chunk" {}
    drop(client);
    let (_, end) = attach(&server, "r1").await;
    assert_eq!(end["error"], "run cancelled");
}

#[tokio::test]
async fn it_goes_on_when_it_was_told_to() {
    let gate = Arc::new(Semaphore::new(0));
    let server = serve([held(&gate)], Setup::default()).await;
    let mut client = server.connect().await;
    send(&mut client, detached("r1")).await;
    while next(&mut client).await["event"]["type"] != "message_chunk" {}
    client.close(None).await.unwrap();
    server.connections_fall_to(0).await;
    gate.add_permits(1);
    let (_, end) = attach(&server, "r1").await;
    assert_eq!(end["reply"], "first last");
}

#[tokio::test]
async fn it_begins_even_if_the_client_does_not_wait_for_that() {
    let server = serve([say(&["done"], 1, 1)], Setup::default()).await;
    let mut client = server.connect().await;
    send(&mut client, detached("r1")).await;
    client.close(None).await.unwrap();
    let (_, end) = attach(&server, "r1").await;
    assert_eq!(end["reply"], "done");
}
