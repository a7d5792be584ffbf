use std::collections::BTreeMap;

use patchboard_proto::pb::bridge_service_server::BridgeServiceServer;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::echo::Echo;
use super::*;

#[test]
fn addresses_are_read_as_the_server_writes_them() {
    for text in ["127.0.0.1:50051", "unix:/tmp/w/socket"] {
        assert_eq!(text.parse::<Address>().expect(text).to_string(), text);
    }
    assert_eq!(Address::Tcp(([127, 0, 0, 1], 9).into()).uri(), "http://127.0.0.1:9");
    assert_eq!(Address::Unix("/tmp/w/socket".into()).uri(), "unix:///tmp/w/socket");
    for text in ["unix:socket", "localhost", "none", ""] {
        text.parse::<Address>().expect_err(text);
    }
}

/// What a client of the bare echo makes of its answer.
async fn answered(call: Call) -> Result<(), String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback");
    let address = Address::Tcp(listener.local_addr().expect("an address"));
    let service = BridgeServiceServer::new(Echo).max_decoding_message_size(MAX_MESSAGE);
    let serving = Server::builder().add_service(service).serve_with_incoming(TcpIncoming::from(listener));
    let asking = async {
        let mut client = Client::connect(&address).await?;
        client.open_session("s").await?;
        client.call(&call).await
    };
    tokio::select! {
        served = serving => Err(format!("the echo ended: {served:?}")),
        asked = asking => asked.map_err(|error| error.to_string()),
    }
}

fn tool(request: pb::ExecuteToolRequest, answer: &'static str) -> Call {
    Call::Tool { request, answer }
}

#[tokio::test]
async fn right_answers_are_taken_and_wrong_ones_named() {
    let request = pb::ExecuteToolRequest { tool_name: "variable_list".to_owned(), ..Default::default() };
    let large = pb::ExecuteToolRequest {
        binary_parameters: BTreeMap::from([("data".to_owned(), vec![7; 5 * 1024 * 1024].into())]),
        ..request.clone()
    };
    assert_eq!(answered(Call::Ping(pb::PingRequest { message: "hello".to_owned() })).await, Ok(()));
    assert_eq!(answered(tool(request.clone(), echo::RESULT)).await, Ok(()));
    assert_eq!(answered(tool(large, echo::RESULT)).await, Ok(()));
    assert_eq!(
        answered(tool(request, "42")).await,
        Err(r#"`variable_list` answered {"variables":[]} instead of 42"#.to_owned())
    );
}
