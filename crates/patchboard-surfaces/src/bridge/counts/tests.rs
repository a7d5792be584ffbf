use super::*;

#[test]
fn every_method_has_its_own_name() {
    for (row, name) in NAMES.iter().enumerate() {
        assert_eq!(Method::of(name) as usize, row);
    }
    assert_eq!(Method::of("Nothing"), Method::Unknown);
}

#[test]
fn the_names_of_codes_are_in_the_order_of_their_numbers() {
    for (number, name) in CODES.iter().enumerate() {
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
    assert_eq!(Outcome::of(&headers, Method::Ping), Outcome::Ended(Code::Ok));
    assert_eq!(Outcome::of(&headers, Method::StreamTelemetry), Outcome::GoesOn);
    headers.insert("grpc-status", "5".parse().unwrap());
    assert_eq!(Outcome::of(&headers, Method::Ping), Outcome::Ended(Code::NotFound));
    assert_eq!(Outcome::of(&headers, Method::ExecuteStreamingTool), Outcome::Ended(Code::NotFound));
}
