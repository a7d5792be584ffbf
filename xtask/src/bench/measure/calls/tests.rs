use super::*;

/// How often each side is asked, and in which order of sides.
async fn asked(patience: Patience) -> (usize, usize, String) {
    let mut sides = String::new();
    let times = alternate(patience, async |side| {
        sides.push(if side == Side::Product { 'p' } else { 'b' });
        Ok(())
    });
    let times = times.await.expect("nothing fails");
    (times.product.count(), times.baseline.count(), sides)
}

#[tokio::test]
async fn sides_take_turns_and_the_first_round_does_not_count() {
    let patience = Patience { least_rounds: 2, calls_a_round: 2, span: Duration::ZERO };
    assert_eq!(asked(patience).await, (4, 4, "ppbbbbppppbb".to_owned()));
}

#[tokio::test]
async fn a_call_that_fails_ends_the_measurement() {
    let patience = Patience { least_rounds: 1, calls_a_round: 1, span: Duration::ZERO };
    let failed = alternate(patience, async |side| {
        anyhow::ensure!(side == Side::Product, "no baseline");
        Ok(())
    });
    assert_eq!(failed.await.expect_err("it fails").to_string(), "no baseline");
}
