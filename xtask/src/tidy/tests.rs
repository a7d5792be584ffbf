use super::*;

#[test]
fn a_problem_names_its_place() {
    assert_eq!(Problem::new("a.rs", 7, "why").to_string(), "a.rs:7: why");
    assert_eq!(Problem::new("a.rs", 0, "why").to_string(), "a.rs: why");
}

#[test]
fn every_check_has_its_own_name() {
    let mut names: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), CHECKS.len());
}
