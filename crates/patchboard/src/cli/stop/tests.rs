use super::*;

#[test]
fn what_is_sent_depends_on_how_far_the_server_is() {
    let sent = |state, now| signals_to_send(state, now);
    assert_eq!(sent(ProcessState::Ready, false), [Signal::TERM]);
    assert_eq!(sent(ProcessState::Starting, true), [Signal::TERM, Signal::INT]);
    assert_eq!(sent(ProcessState::Stopping, false), [], "asking twice must not cut the drain short");
    assert_eq!(sent(ProcessState::Stopping, true), [Signal::INT]);
}

#[test]
fn numbers_that_are_no_process_are_refused() {
    for pid in [0, 1, u32::MAX] {
        ProcessHandle::open(pid).unwrap_err();
    }
}
