use super::*;

mod bridge;

const ONE: Generated = Generated { path: "a.json", package: "p", test: "t" };

#[test]
fn only_a_test_that_ran_and_passed_is_good() {
    let passed = Counts { passed: 1, failed: 0, skipped: 0 };
    let failed = Counts { passed: 0, failed: 1, skipped: 0 };
    let none = Counts::default();
    for (mode, succeeded, counts, expected) in [
        (Mode::Check, true, passed, Ok(())),
        (Mode::Write, true, passed, Ok(())),
        (Mode::Check, true, none, Err("no test `t` in `p` ran")),
        (Mode::Write, true, none, Err("no test `t` in `p` ran")),
        (Mode::Check, false, failed, Err("stale: run `cargo xtask codegen`")),
        (Mode::Check, false, none, Err("`t` in `p` failed")),
        (Mode::Write, false, failed, Err("`t` in `p` failed")),
    ] {
        assert_eq!(judge(&ONE, mode, succeeded, counts), expected.map_err(str::to_owned), "{mode:?} {counts:?}");
    }
}

#[test]
fn generated_files_are_known_by_path() {
    assert!(is_generated("patchboard.schema.json"));
    assert!(is_generated("crates/patchboard-proto/src/pb.rs"));
    assert!(!is_generated("Cargo.toml"));
}
