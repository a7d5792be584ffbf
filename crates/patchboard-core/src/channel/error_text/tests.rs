use super::*;

#[test]
fn every_error_kind_has_its_user_text() {
    let model = "The language model cannot be reached at the moment; please try again later.";
    let budget = "The token budget is used up; please try again later.";
    for (failure, expected) in [
        (run_failure("provider error: connection refused"), model),
        (run_failure("token budget exceeded (daily: 9/10)"), budget),
        (run_failure("the run's token limit is reached (90/100)"), budget),
        (
            run_failure("stopped after 90 s, the longest a run may take"),
            "It took too long to answer; please try again.",
        ),
        (run_failure("internal error in the strategy"), "Something went wrong; please try again later."),
        (BoardError::cancelled(), "The answer was cancelled."),
        (BoardError::not_found("no agent configured for a:b:c"), "Nobody is here to answer."),
        (interrupted(), "The answer was interrupted; please ask again."),
        (
            BoardError::new(ErrorKind::Exhausted, "session busy: 8 requests are waiting for it").retry(RetryHint::Now),
            "Too much is going on at the moment; please try again later.",
        ),
    ] {
        assert_eq!(user_text(&failure), expected, "{failure}");
    }
}

#[test]
fn a_provider_without_a_key_is_trouble_upstream() {
    let refused = BoardError::new(ErrorKind::Unavailable, "provider error: no API key");
    assert_eq!(start_failure(refused).kind, ErrorKind::Upstream);
    assert_eq!(start_failure(BoardError::shutting_down()).kind, ErrorKind::Unavailable);
}

#[test]
fn budget_keys_are_redacted() {
    let whole =
        "token budget exceeded (daily: 9/10): this call needs about 5 tokens and 1 are left; raise `budgets.daily`";
    assert_eq!(run_failure(whole).message, "token budget exceeded (daily: 9/10)");
    let refused =
        BoardError::new(ErrorKind::Exhausted, "the run's token limit is reached (90/100): the next call needs");
    assert_eq!(start_failure(refused).message, "the run's token limit is reached (90/100)");
}
