use std::time::Duration;

use futures_util::FutureExt;
use patchboard_core::Board;
use patchboard_core::caller::Grant;
use patchboard_core::keys::{KeyRights, KeySource, KeySpec};
use patchboard_testkit::board::TestBoard;
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
        assert_eq!(gate.check(HERE, token, Surface::Gateway).await, Err(TokenRefusal::Unauthenticated), "{token}");
    }
    assert_eq!(gate.check(HERE, "right-token", Surface::Gateway).await, client());
    let operator = ClientIdentity::new("operator".into(), GrantSet::OPERATOR);
    assert_eq!(gate.check(HERE, "operator-token", Surface::Gateway).await, Ok(operator));
}

#[tokio::test(start_paused = true)]
async fn without_a_token_there_is_a_local_user_who_cannot_operate() {
    let gate = AuthGate::new("gateway", None, Some("operator-token".into()), Arc::default());
    assert_eq!(gate.anonymous(), Some(ClientIdentity::new("local".into(), GrantSet::CLIENT)));
    assert_eq!(
        gate.check(HERE, "", Surface::Gateway).await,
        Err(TokenRefusal::Unauthenticated),
        "an empty token is not no token"
    );
}

#[tokio::test(start_paused = true)]
async fn only_a_token_that_was_shown_and_is_wrong_has_to_wait() {
    let gate = gate();
    let before = Instant::now();
    for _ in 0..3 {
        let headers = |value: &str| HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
        assert_eq!(gate.identify(HERE, ShownToken::in_header(&HeaderMap::new()), Surface::Gateway).await, Ok(None));
        let basic = headers("Basic right-token");
        let refused = gate.identify(HERE, ShownToken::in_header(&basic), Surface::Gateway).await;
        assert_eq!(refused, Err(TokenRefusal::Unauthenticated));
        let right = headers("bearer right-token");
        assert_eq!(gate.identify(HERE, ShownToken::in_header(&right), Surface::Gateway).await, client().map(Some));
    }
    assert_eq!(before.elapsed(), Duration::ZERO);
    for _ in 0..2 {
        let refused = gate.identify(HERE, ShownToken::Token("wrong"), Surface::Gateway).await;
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
        let guesses = (0..60).map(|index| gates[index % 2].check(from, "guess", Surface::Runs));
        let guesses = futures_util::future::join_all(guesses);
        let right = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let asked = Instant::now();
            for gate in &gates {
                assert_eq!(gate.check(from, "right", Surface::Runs).await, client());
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

/// A board with keys of its configuration.
async fn with_keys(keys: Vec<(&str, &str, KeyRights)>) -> Board {
    let board = TestBoard::new([]).assemble();
    let spec = |(name, secret, rights): (&str, &str, KeyRights)| KeySpec {
        name: name.into(),
        hash: key_hash(secret),
        rights,
        source: KeySource::File,
    };
    board.open_keys(keys.into_iter().map(spec).collect()).await.unwrap();
    board
}

#[tokio::test(start_paused = true)]
async fn a_key_is_who_it_names_where_it_is_accepted() {
    let overseer = KeyRights { oversee: true, ..KeyRights::default() };
    let only_runs = KeyRights { surfaces: Some(vec![Surface::Runs]), ..KeyRights::default() };
    let board = with_keys(vec![
        ("ci", "secret-of-ci", KeyRights::default()),
        ("eye", "secret-of-eye", overseer),
        ("runner", "secret-of-runner", only_runs),
    ])
    .await;
    let gate = gate().with_keys(board.keys().clone());
    let overseeing = GrantSet::CLIENT.with(Grant::Oversee);
    for (secret, surface, expected) in [
        ("secret-of-ci", Surface::Gateway, Ok(("key:ci", GrantSet::CLIENT))),
        ("secret-of-ci", Surface::Bridge, Ok(("key:ci", GrantSet::CLIENT))),
        ("secret-of-eye", Surface::Mcp, Ok(("key:eye", overseeing))),
        ("secret-of-runner", Surface::Runs, Ok(("key:runner", GrantSet::CLIENT))),
        ("secret-of-runner", Surface::Gateway, Err(TokenRefusal::WrongSurface)),
        ("secret-of-ci ", Surface::Gateway, Err(TokenRefusal::Unauthenticated)),
        ("secret-of-c", Surface::Gateway, Err(TokenRefusal::Unauthenticated)),
        ("right-token", Surface::Gateway, Ok(("token", GrantSet::CLIENT))),
        ("operator-token", Surface::Gateway, Ok(("operator", GrantSet::OPERATOR))),
    ] {
        let identity = gate.check(HERE, secret, surface).await;
        let found = identity.map(|identity| (identity.principal.to_string(), identity.grants));
        assert_eq!(found, expected.map(|(name, grants)| (name.to_owned(), grants)), "{secret} {surface:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_gone_is_a_wrong_token() {
    let board = with_keys(vec![("ci", "secret-of-ci", KeyRights::default())]).await;
    let gate = AuthGate::new("gateway", None, None, Arc::default()).with_keys(board.keys().clone());
    let identity = gate.check(HERE, "secret-of-ci", Surface::Gateway).await.unwrap();
    let mut revoked = std::pin::pin!(identity.revoked());
    assert_eq!(revoked.as_mut().now_or_never(), None);
    board.apply_file_keys(board.prepare_file_keys(vec![]).await.unwrap());
    assert_eq!(revoked.now_or_never(), Some(()));
    let before = Instant::now();
    for _ in 0..2 {
        let refused = gate.check(HERE, "secret-of-ci", Surface::Gateway).await;
        assert_eq!(refused, Err(TokenRefusal::Unauthenticated));
    }
    assert_eq!(before.elapsed(), Duration::from_secs(1), "it waits like every guess");
}

#[test]
fn new_secrets_differ_and_are_known_by_their_hash() {
    let (first, hash) = new_key_secret();
    let (second, _) = new_key_secret();
    assert_eq!(key_hash(first.expose_secret()), hash);
    assert_ne!(first.expose_secret(), second.expose_secret());
    assert_eq!((first.expose_secret().len(), &first.expose_secret()[..4]), (68, "pbk-"));
}
