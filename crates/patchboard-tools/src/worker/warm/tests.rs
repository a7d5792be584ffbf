use super::*;

#[test]
fn the_end_of_a_worker_is_read_from_what_is_said() {
    assert_eq!(read_end("patchboard: worker 17 exited with -9"), Some((17, "-9".to_owned())));
    for line in ["patchboard: worker x exited with 0", "worker 17 exited with 0", "patchboard: worker 17", ""] {
        assert_eq!(read_end(line), None, "{line}");
    }
}

#[test]
fn whoever_ends_unknown_is_the_one_that_is_just_starting() {
    let mut ends = Ends::default();
    ends.introduce(5);
    ends.note(5, "0".to_owned());
    ends.note(6, "1".to_owned());
    assert_eq!((ends.known[&5].as_deref(), ends.stranger.clone()), (Some("0"), Some((6, "1".to_owned()))));
    // It had announced itself before it ended.
    ends.introduce(6);
    assert_eq!((ends.known[&6].as_deref(), ends.stranger.clone()), (Some("1"), None));
    ends.note(7, "2".to_owned());
    ends.introduce(8);
    assert_eq!((ends.known[&8].as_deref(), ends.stranger), (None, None));
}
