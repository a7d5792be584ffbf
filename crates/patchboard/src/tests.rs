use std::process::ExitCode;

#[test]
fn a_fault_of_its_own_has_an_exit_code_of_its_own() {
    assert_eq!(super::guarded(|| ExitCode::from(3)), ExitCode::from(3));
    assert_eq!(super::guarded(|| panic!("on purpose")), ExitCode::from(70));
}
