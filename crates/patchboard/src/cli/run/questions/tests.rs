use super::{Asked, MAX_QUESTIONS, Question, Questions, is_yes, words};

fn question(number: usize) -> Question {
    Question { id: format!("a{number}"), call: format!("c{number}"), words: String::new() }
}

#[test]
fn questions_are_asked_one_after_the_other_and_their_number_is_bounded() {
    let mut questions = Questions::default();
    assert_eq!(questions.add(question(0)), Asked::Now);
    assert_eq!(questions.add(question(1)), Asked::Later);
    for number in 2..MAX_QUESTIONS {
        questions.add(question(number));
    }
    assert_eq!(questions.add(question(99)), Asked::Never);
    assert_eq!(questions.take(), Some(question(0)));
    assert_eq!(questions.now(), Some(&question(1)));
    assert!(!questions.settled("c3"), "one that waited is not asked any more");
    assert!(questions.settled("c1"));
    assert_eq!(questions.now(), Some(&question(2)));
}

#[test]
fn a_question_says_what_it_is_about_and_why() {
    assert_eq!(words("bash {\"command\":\"ls\"}", None), "Allow bash {\"command\":\"ls\"}? [y/N] ");
    assert_eq!(
        words("bash\x1b[2J {}", Some("the server stopped while bash was running: it may already have run.")),
        "the server stopped while bash was running: it may already have run.\nRun bash\\u{1b}[2J {} once more? [y/N] "
    );
}

#[test]
fn only_a_clear_yes_is_one() {
    for (line, yes) in [("y", true), (" yes \n", true), ("Y", true), ("", false), ("no", false), ("yesterday", false)] {
        assert_eq!(is_yes(line), yes, "{line:?}");
    }
}
