use super::*;

#[test]
fn a_flood_of_events_is_held_back_and_counted() {
    let (mut rate, now) = (Rate::default(), Instant::now());
    let admitted = (0..MAX_EVENTS + 500).filter(|_| rate.admit(now) == Admission::Pass).count();
    assert_eq!(admitted, MAX_EVENTS as usize);
    assert_eq!(rate.admit(now + SECOND / 2), Admission::Drop);
    assert_eq!(rate.admit(now + SECOND), Admission::PassAfter(501));
    assert_eq!(rate.admit(now + SECOND), Admission::Pass);
}

#[test]
fn long_texts_are_cut_between_characters() {
    assert_eq!(cut("short"), "short");
    let long = "é".repeat(MAX_TEXT);
    assert_eq!((cut(&long).len(), long.starts_with(cut(&long))), (MAX_TEXT, true));
}
