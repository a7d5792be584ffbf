use super::*;

#[test]
fn the_end_of_a_worker_is_read_from_what_is_said() {
    assert_eq!(parse_exit("patchboard: worker 17 exited with -9"), Some((17, "-9".to_owned())));
    for line in ["patchboard: worker x exited with 0", "worker 17 exited with 0", "patchboard: worker 17", ""] {
        assert_eq!(parse_exit(line), None, "{line}");
    }
}

#[test]
fn whoever_ends_unknown_is_the_one_that_is_just_starting() {
    let mut ends = ExitStatuses::default();
    ends.identify(5);
    ends.record(5, "0".to_owned());
    ends.record(6, "1".to_owned());
    assert_eq!((ends.by_pid[&5].as_deref(), ends.unidentified.clone()), (Some("0"), Some((6, "1".to_owned()))));
    // It had announced itself before it ended.
    ends.identify(6);
    assert_eq!((ends.by_pid[&6].as_deref(), ends.unidentified.clone()), (Some("1"), None));
    ends.record(7, "2".to_owned());
    ends.identify(8);
    assert_eq!((ends.by_pid[&8].as_deref(), ends.unidentified), (None, None));
}
