use super::*;

#[test]
fn sides_take_turns_at_being_first() {
    use Side::{Baseline, Product};
    assert_eq!(in_turn(3).collect::<Vec<_>>(), [Product, Baseline, Baseline, Product, Product, Baseline]);
}

#[tokio::test]
async fn every_client_works_and_is_put_back() {
    let mut clients = open(100, |number| async move { Ok(number) }).await.expect("clients");
    let done = all(&mut clients, |number| async move { Ok((number, number * 2)) }).await.expect("work");
    assert_eq!(done.results.iter().sum::<usize>(), 9900);
    clients.sort_unstable();
    assert_eq!(clients, (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn one_failure_fails_all() {
    let mut clients = vec![1, 2, 3];
    let failed = all(&mut clients, |number: i32| async move {
        anyhow::ensure!(number != 2, "two is broken");
        Ok((number, ()))
    });
    assert_eq!(failed.await.expect_err("a failure").to_string(), "two is broken");
}
