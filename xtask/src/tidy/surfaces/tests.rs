use super::*;
use crate::tidy::testing::{shown, with_files};

#[test]
fn a_surface_may_see_itself_and_what_is_shared() {
    let none: Vec<String> = Vec::new();
    let files = [
        (
            "crates/patchboard-surfaces/src/gateway/map.rs",
            "use crate::gateway::wire;\nuse crate::pump;\n// crate::runs",
        ),
        ("crates/patchboard-surfaces/src/lib.rs", "use crate::gateway;\nuse crate::runs;"),
        ("crates/patchboard/src/assemble.rs", "use crate::runs;"),
    ];
    assert_eq!(shown(check(&with_files(&files))), none);
}

#[test]
fn a_surface_that_sees_another_is_found() {
    let files = [
        ("crates/patchboard-surfaces/src/gateway/map.rs", "use crate::pump;\nuse crate::runs::wire;"),
        ("crates/patchboard-surfaces/src/hub.rs", "use crate::gateway;"),
    ];
    assert_eq!(
        shown(check(&with_files(&files))),
        [
            "crates/patchboard-surfaces/src/gateway/map.rs:2: `gateway` must not see `crate::runs`: \
             surfaces share the core and nothing else",
            "crates/patchboard-surfaces/src/hub.rs:1: `hub` must not see `crate::gateway`: \
             surfaces share the core and nothing else",
        ]
    );
}

#[test]
fn a_fifth_surface_must_be_made_known() {
    let found = shown(check(&with_files(&[("crates/patchboard-surfaces/src/voice/map.rs", "")])));
    assert!(found.iter().any(|problem| problem.contains("`voice` looks like a surface")), "{found:?}");
}
