#[cfg(target_os = "linux")]
#[test]
fn a_closed_process_cannot_be_looked_into() {
    use rustix::process::{DumpableBehavior, dumpable_behavior};
    super::disable_process_dumps().unwrap();
    assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
}
