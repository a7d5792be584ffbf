use super::*;

#[test]
fn nothing_proves_a_namespace_that_was_not_made() {
    let here = MountNamespace::of_this_process().unwrap();
    assert!(PrivateMounts::other_than(&here).is_none());
    assert!(PrivateMounts::other_than(&MountNamespace::named(here.name())).is_none());
    assert!(PrivateMounts::other_than(&MountNamespace::named("mnt:[1]")).is_some());
}
