use super::*;

#[test]
fn a_flood_of_events_is_held_back_and_counted() {
    let (mut rate, now) = (EventRateWindow::default(), Instant::now());
    let admitted = (0..MAX_EVENTS + 500).filter(|_| rate.admit(now) == RateDecision::Pass).count();
    assert_eq!(admitted, MAX_EVENTS as usize);
    assert_eq!(rate.admit(now + RATE_WINDOW / 2), RateDecision::Drop);
    assert_eq!(rate.admit(now + RATE_WINDOW), RateDecision::PassAfterDrops(501));
    assert_eq!(rate.admit(now + RATE_WINDOW), RateDecision::Pass);
}

#[test]
fn long_texts_are_cut_between_characters() {
    assert_eq!(cut("short", MAX_TEXT), "short");
    let long = "é".repeat(MAX_TEXT);
    assert_eq!((cut(&long, MAX_TEXT).len(), long.starts_with(cut(&long, MAX_TEXT))), (MAX_TEXT, true));
}
