use super::*;

/// The courier takes it as given when it could be sent, so nobody else would bring it.
#[test]
fn an_answer_that_came_in_the_last_moment_is_given() {
    let answer = WebhookResponse { status: 200, content_type: "text/plain".to_owned(), body: b"hi".to_vec() };
    let delivery = DeliveryId(uuid::Uuid::from_u128(1));
    let (waiting, answered) = oneshot::channel();
    waiting.send(Ok(answer.clone())).unwrap();
    assert_eq!(webhook_outcome(close_and_take(answered), delivery).unwrap(), WebhookOutcome::Respond(answer));
    let (waiting, answered) = oneshot::channel();
    assert_eq!(webhook_outcome(close_and_take(answered), delivery).unwrap(), WebhookOutcome::Accepted(delivery));
    assert!(waiting.send(Err(BoardError::cancelled())).is_err(), "later it comes back");
}
