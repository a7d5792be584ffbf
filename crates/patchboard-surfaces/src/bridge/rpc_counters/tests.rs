use super::*;

#[test]
fn every_method_has_its_own_name() {
    for (row, name) in METHOD_NAMES.iter().enumerate() {
        assert_eq!(RpcMethod::of(name) as usize, row);
    }
    assert_eq!(RpcMethod::of("Nothing"), RpcMethod::Unknown);
}

#[test]
fn the_names_of_codes_are_in_the_order_of_their_numbers() {
    for (number, name) in CODE_NAMES.iter().enumerate() {
        let code = Code::from_i32(i32::try_from(number).unwrap());
        let snake: String = format!("{code:?}").chars().fold(String::new(), |mut snake, character| {
            if character.is_ascii_uppercase() && !snake.is_empty() {
                snake.push('_');
            }
            snake.push(character.to_ascii_lowercase());
            snake
        });
        assert_eq!(&snake, name);
    }
}

#[test]
fn a_call_that_failed_says_so_at_once_and_a_stream_goes_on() {
    let mut headers = HeaderMap::new();
    assert_eq!(RpcOutcome::of(&headers, RpcMethod::Ping), RpcOutcome::Ended(Code::Ok));
    assert_eq!(RpcOutcome::of(&headers, RpcMethod::StreamTelemetry), RpcOutcome::Streaming);
    headers.insert("grpc-status", "5".parse().unwrap());
    assert_eq!(RpcOutcome::of(&headers, RpcMethod::Ping), RpcOutcome::Ended(Code::NotFound));
    assert_eq!(RpcOutcome::of(&headers, RpcMethod::ExecuteStreamingTool), RpcOutcome::Ended(Code::NotFound));
}
