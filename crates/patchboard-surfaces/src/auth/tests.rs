use std::time::Duration;

use tokio::time::Instant;

use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn gate() -> AuthGate {
    AuthGate::new("gateway", Some("right-token".into()), Some("operator-token".into()), Arc::default())
}

fn client() -> Result<ClientIdentity, TokenRefusal> {
    Ok(ClientIdentity::new("token".into(), GrantSet::CLIENT))
}

#[tokio::test(start_paused = true)]
async fn tokens_are_compared_whole() {
    let gate = gate();
    for token in ["right-toke", "right-token ", "", "wrong-token"] {
        assert_eq!(gate.check(HERE, token).await, Err(TokenRefusal::Unauthenticated), "{token}");
    }
    assert_eq!(gate.check(HERE, "right-token").await, client());
    let operator = ClientIdentity::new("operator".into(), GrantSet::OPERATOR);
    assert_eq!(gate.check(HERE, "operator-token").await, Ok(operator));
}

#[tokio::test(start_paused = true)]
async fn without_a_token_there_is_a_local_user_who_cannot_operate() {
    let gate = AuthGate::new("gateway", None, Some("operator-token".into()), Arc::default());
    assert_eq!(gate.anonymous(), Some(ClientIdentity::new("local".into(), GrantSet::CLIENT)));
    assert_eq!(gate.check(HERE, "").await, Err(TokenRefusal::Unauthenticated), "an empty token is not no token");
}

#[tokio::test(start_paused = true)]
async fn only_a_token_that_was_shown_and_is_wrong_has_to_wait() {
    let gate = gate();
    let before = Instant::now();
    for _ in 0..3 {
        let headers = |value: &str| HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
        assert_eq!(gate.identify(HERE, ShownToken::in_header(&HeaderMap::new())).await, Ok(None));
        let basic = headers("Basic right-token");
        let refused = gate.identify(HERE, ShownToken::in_header(&basic)).await;
        assert_eq!(refused, Err(TokenRefusal::Unauthenticated));
        let right = headers("bearer right-token");
        assert_eq!(gate.identify(HERE, ShownToken::in_header(&right)).await, client().map(Some));
    }
    assert_eq!(before.elapsed(), Duration::ZERO);
    for _ in 0..2 {
        let refused = gate.identify(HERE, ShownToken::Token("wrong")).await;
        assert_eq!(refused, Err(TokenRefusal::Unauthenticated));
    }
    assert_eq!(before.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn wrong_tokens_wait_in_one_lane_and_the_right_one_never_does() {
    let wrong = Arc::new(FailedAttempts::default());
    let gates = ["gateway", "runs"].map(|surface| AuthGate::new(surface, Some("right".into()), None, wrong.clone()));
    let elsewhere: IpAddr = "203.0.113.9".parse().unwrap();
    let before = Instant::now();
    for from in [HERE, elsewhere] {
        let guesses = (0..60).map(|index| gates[index % 2].check(from, "guess"));
        let guesses = futures_util::future::join_all(guesses);
        let right = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let asked = Instant::now();
            for gate in &gates {
                assert_eq!(gate.check(from, "right").await, client());
            }
            asked.elapsed()
        };
        let (verdicts, waited) = futures_util::future::join(guesses, right).await;
        assert_eq!(waited, Duration::ZERO);
        let cut = verdicts.iter().filter(|verdict| **verdict == Err(TokenRefusal::CloseUnanswered)).count();
        assert_eq!((verdicts.len(), cut), (60, 30));
    }
    assert_eq!(before.elapsed(), Duration::from_secs(2 * 29), "thirty answers, a second between each two");
}
