use super::*;

#[test]
fn a_worker_takes_what_it_says_but_no_more_than_is_allowed() {
    for (allowed, reported, expected) in
        [(None, Some(6), 6), (Some(2), Some(6), 2), (Some(9), Some(6), 6), (Some(9), None, 9), (Some(0), None, 1)]
    {
        assert_eq!(effective_capacity(allowed, reported), expected, "{allowed:?} {reported:?}");
    }
    assert_eq!(effective_capacity(None, Some(1_000_000)), MAX_CAPACITY);
    assert!((5..=32).contains(&effective_capacity(None, None)));
}

#[test]
fn a_failure_ends_with_what_was_said_last() {
    assert_eq!(WorkerFailure::new("it ended").full_message(), "it ended");
    let failure = WorkerFailure { output_tail: "no module".to_owned(), ..WorkerFailure::new("it ended") };
    assert_eq!(failure.full_message(), "it ended: no module");
}
