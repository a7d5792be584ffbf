use super::*;

#[test]
fn pauses_grow_to_a_limit() {
    let mut backoff = Backoff::new(RESTART_BACKOFF);
    let pauses: Vec<u128> = (0..11).map(|_| backoff.next_delay().as_millis()).collect();
    assert_eq!(pauses, [0, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
}
