//! Pools on a machine that is scripted in the test, with time that moves when nothing else does.

mod bench;
mod calls;
mod life;
mod queue;
mod secrets;
mod streams;
mod stub;
mod unregistered;

use super::*;

#[test]
fn a_run_is_named_by_its_time() {
    let run = run_id(&patchboard_core::scripted::ManualClock::default());
    assert!(run.len() == 7 && run.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase()), "{run}");
    assert_eq!(run.get(..5), Some("ojlc0"));
}
