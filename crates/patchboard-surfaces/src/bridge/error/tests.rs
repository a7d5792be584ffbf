use super::*;

#[test]
fn faults_carry_the_words_clients_look_for() {
    let cases = [
        (ToolFault::Unavailable, "worker died", Code::Unavailable, "worker died"),
        (ToolFault::QueueTimeout, "it never ran", Code::DeadlineExceeded, "queue_timeout: it never ran"),
        (ToolFault::QueueTimeout, "queue_timeout after 10 s", Code::DeadlineExceeded, "queue_timeout after 10 s"),
        (ToolFault::Saturated, "full", Code::ResourceExhausted, "pool_saturated: full"),
        (ToolFault::WorkerBusy, "busy", Code::ResourceExhausted, "worker_busy: busy"),
        (ToolFault::TimedOut, "stopped", Code::DeadlineExceeded, "stopped"),
        (ToolFault::Cancelled, "cancelled", Code::Cancelled, "cancelled"),
        (ToolFault::Invalid, "pickle", Code::InvalidArgument, "pickle"),
        (ToolFault::Argument, "Invalid parameter a: no", Code::InvalidArgument, "Invalid parameter a: no"),
        (ToolFault::NotFound, "gone", Code::NotFound, "gone"),
        (ToolFault::Internal, "broken", Code::Internal, "broken"),
    ];
    for (fault, text, code, words) in cases {
        let status = super::fault_status(fault, text);
        assert_eq!((status.code(), status.message()), (code, words));
    }
}

#[test]
fn every_kind_has_a_code_and_some_are_answers() {
    let cases = [
        (ErrorKind::Invalid, Code::InvalidArgument, true, Code::InvalidArgument),
        (ErrorKind::Unauthenticated, Code::Unauthenticated, false, Code::Unauthenticated),
        (ErrorKind::Forbidden, Code::PermissionDenied, false, Code::PermissionDenied),
        (ErrorKind::NotFound, Code::NotFound, true, Code::NotFound),
        (ErrorKind::Conflict, Code::FailedPrecondition, true, Code::Unimplemented),
        (ErrorKind::Exhausted, Code::ResourceExhausted, false, Code::ResourceExhausted),
        (ErrorKind::Timeout, Code::DeadlineExceeded, false, Code::DeadlineExceeded),
        (ErrorKind::Cancelled, Code::Cancelled, false, Code::Cancelled),
        (ErrorKind::Unavailable, Code::Unavailable, false, Code::Unavailable),
        (ErrorKind::Upstream, Code::Unavailable, true, Code::Unavailable),
    ];
    for (kind, plain, is_answer, streamed) in cases {
        let error = BoardError::new(kind, "why");
        assert_eq!((status(&error).code(), status(&error).message()), (plain, "why"));
        match unary_failure(&error) {
            ToolCallFailure::Response(text) => assert_eq!((is_answer, text.as_str()), (true, "why")),
            ToolCallFailure::Status(status) => assert_eq!((is_answer, status.code()), (false, plain)),
        }
        assert_eq!(stream_status(&error).code(), streamed);
    }
}

#[test]
fn what_failed_inside_stays_inside() {
    let error = BoardError::new(ErrorKind::Internal, "disk /dev/sda1 is on fire");
    assert_eq!(status(&error).message(), "internal error: see the server's log");
}
