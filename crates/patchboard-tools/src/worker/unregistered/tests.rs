use super::*;

#[test]
fn a_workers_word_holds_for_a_minute() {
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    let mut names = UnknownNames::default();
    assert!(!names.has("add", start));
    names.note("add", start);
    for (seconds, expected) in [(0, true), (59, true), (60, false), (3600, false)] {
        assert_eq!(names.has("add", after(seconds)), expected, "{seconds}");
    }
    assert!(!names.has("sub", start));
    names.note("add", after(30));
    assert!(names.has("add", after(89)), "said again, it holds for a minute from then on");
    names.clear();
    assert!(!names.has("add", after(30)));
}

#[test]
fn so_many_names_are_remembered_and_the_oldest_goes() {
    let start = Instant::now();
    let mut names = UnknownNames::default();
    for number in 0..=MAX_NAMES {
        names.note(&format!("tool-{number}"), start + Duration::from_millis(number as u64));
    }
    let now = start + Duration::from_secs(2);
    assert_eq!(names.0.len(), MAX_NAMES);
    assert!(!names.has("tool-0", now));
    assert!(names.has("tool-1", now) && names.has(&format!("tool-{MAX_NAMES}"), now));
    names.note("late", start + Duration::from_secs(3600));
    assert_eq!(names.0.len(), 1, "what holds no more takes no room");
}
