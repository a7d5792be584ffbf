//! Folds functions that compile to the same code, of which generic libraries leave many: some 3 % of the binary.

#![expect(clippy::disallowed_methods, reason = "cargo tells build scripts things by the environment")]

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PATCHBOARD_PLAIN_LINK");
    // Where the pinned toolchain links with its own linker, which knows how. A build that brings another linker sets the
    // variable.
    let target = env::var("TARGET").unwrap_or_default();
    let is_optimised = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if target == "x86_64-unknown-linux-gnu" && is_optimised && env::var_os("PATCHBOARD_PLAIN_LINK").is_none() {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
