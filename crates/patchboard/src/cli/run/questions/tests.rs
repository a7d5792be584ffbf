use super::{ApprovalQuestion, EnqueueOutcome, MAX_QUESTIONS, QuestionQueue, is_yes, prompt_text};

fn question(number: usize) -> ApprovalQuestion {
    ApprovalQuestion { id: format!("a{number}"), call: format!("c{number}"), prompt: String::new() }
}

#[test]
fn questions_are_asked_one_after_the_other_and_their_number_is_bounded() {
    let mut questions = QuestionQueue::default();
    assert_eq!(questions.add(question(0)), EnqueueOutcome::Current);
    assert_eq!(questions.add(question(1)), EnqueueOutcome::Queued);
    for number in 2..MAX_QUESTIONS {
        questions.add(question(number));
    }
    assert_eq!(questions.add(question(99)), EnqueueOutcome::Full);
    assert_eq!(questions.pop(), Some(question(0)));
    assert_eq!(questions.current(), Some(&question(1)));
    assert!(!questions.remove_call("c3"), "one that waited is not asked any more");
    assert!(questions.remove_call("c1"));
    assert_eq!(questions.current(), Some(&question(2)));
}

#[test]
fn a_question_says_what_it_is_about_and_why() {
    assert_eq!(prompt_text("bash {\"command\":\"ls\"}", None), "Allow bash {\"command\":\"ls\"}? [y/N] ");
    assert_eq!(
        prompt_text("bash\x1b[2J {}", Some("the server stopped while bash was running: it may already have run.")),
        "the server stopped while bash was running: it may already have run.\nRun bash\\u{1b}[2J {} once more? [y/N] "
    );
}

#[test]
fn only_a_clear_yes_is_one() {
    for (line, yes) in [("y", true), (" yes \n", true), ("Y", true), ("", false), ("no", false), ("yesterday", false)] {
        assert_eq!(is_yes(line), yes, "{line:?}");
    }
}
