//! Which events pass the filter of one subscriber.

use super::*;

fn globs(patterns: &[&str]) -> Vec<Glob> {
    patterns.iter().map(|pattern| Glob::new(*pattern)).collect()
}

fn on() -> EventFilter {
    let mut filter = EventFilter::default();
    filter.set_enabled(true);
    filter
}

fn passed(filter: &mut EventFilter, name: &str, of: usize) -> usize {
    (0..of).filter(|_| filter.accepts(name)).count()
}

#[test]
fn nothing_passes_before_it_is_switched_on_and_after_it_is_switched_off() {
    let mut filter = EventFilter::default();
    assert!(!filter.accepts("tool.execution.start"));
    filter.set_enabled(true);
    assert!(filter.accepts("tool.execution.start"));
    filter.set_enabled(false);
    assert!(!filter.accepts("tool.execution.start"));
}

#[test]
fn what_is_denied_never_passes_even_if_it_is_allowed_too() {
    let mut filter = on();
    filter.set_patterns(globs(&["tool.*", "pool.*"]), globs(&["*.exception"])).unwrap();
    assert!(filter.accepts("tool.execution.start"));
    assert!(!filter.accepts("tool.execution.exception"));
    assert!(!filter.accepts("python.gc.completed"));
}

#[test]
fn a_share_is_kept_to_per_pattern_and_the_last_pattern_said_decides() {
    let mut filter = on();
    filter.set_sampling(0.25, Vec::new()).unwrap();
    filter.set_sampling(0.5, globs(&["tool.*"])).unwrap();
    filter.set_sampling(0.0, globs(&["tool.result_size"])).unwrap();
    assert_eq!(passed(&mut filter, "pool.worker.spawned", 1000), 250);
    assert_eq!(passed(&mut filter, "tool.execution.start", 1000), 500);
    assert_eq!(passed(&mut filter, "tool.result_size", 1000), 0);
    filter.set_sampling(1.0, Vec::new()).unwrap();
    assert_eq!(passed(&mut filter, "tool.result_size", 10), 10);
}

#[test]
fn shares_out_of_range_are_brought_into_it() {
    let mut filter = on();
    for (rate, expected) in [(7.0, 10), (-1.0, 0), (f64::NAN, 0), (0.1, 1)] {
        filter.set_sampling(rate, Vec::new()).unwrap();
        assert_eq!(passed(&mut filter, "x", 10), expected, "{rate}");
    }
}

#[test]
fn patterns_are_bounded() {
    let mut filter = on();
    let many = || (0..=MAX_PATTERNS).map(|number| Glob::new(format!("{number}.*"))).collect::<Vec<_>>();
    assert_eq!(filter.set_sampling(0.5, many()), Err(TooManyPatterns));
    assert_eq!(filter.set_patterns(many(), Vec::new()), Err(TooManyPatterns));
    assert!(filter.accepts("300.x"));
}

#[test]
fn too_many_patterns_change_nothing() {
    let mut filter = on();
    let many: Vec<String> = (0..MAX_PATTERNS).map(|number| format!("p.{number}")).collect();
    filter.set_sampling(0.0, many.iter().map(|pattern| Glob::new(pattern.as_str())).collect()).unwrap();
    let further = globs(&["p.0", "q.0", "q.1"]);
    assert_eq!(filter.set_sampling(1.0, further), Err(TooManyPatterns));
    for (name, expected) in [("p.0", 0), ("p.255", 0), ("q.0", 4)] {
        assert_eq!(passed(&mut filter, name, 4), expected, "{name}");
    }
}
