use super::*;

fn notice(body: &str, priority: NoticePriority, expects_reply: bool) -> AppNotice {
    titled("notebook", body, priority, expects_reply)
}

fn titled(title: &str, body: &str, priority: NoticePriority, expects_reply: bool) -> AppNotice {
    AppNotice { title: title.into(), body: body.into(), priority, expects_reply }
}

fn after(notice: &AppNotice, passed: u64) -> Option<Arc<str>> {
    let mut windows = FollowUpWindows::new(Duration::from_secs(300));
    windows.record_notice(&"user".into(), &"notebook".into(), notice, Duration::from_secs(10));
    windows.open_question("user", Duration::from_secs(10 + passed))
}

#[test]
fn a_question_opens_the_window() {
    assert!(after(&notice("Which list?", NoticePriority::Normal, false), 299).is_some());
    assert!(after(&notice("Which list? ", NoticePriority::Normal, false), 0).is_some());
    assert!(after(&notice("tell me more", NoticePriority::Normal, true), 0).is_some());
    assert!(after(&notice("it failed", NoticePriority::High, false), 0).is_some());
    assert!(after(&notice("saved", NoticePriority::Normal, false), 0).is_none());
    assert!(after(&notice("Which list?", NoticePriority::Normal, false), 300).is_none());
}

#[test]
fn a_title_of_its_own_says_whether_a_notice_asks() {
    let opens = |title: &str, body: &str, priority| after(&titled(title, body, priority, false), 0).is_some();
    for priority in [NoticePriority::Low, NoticePriority::Normal, NoticePriority::High] {
        assert!(!opens("SmartHole Error", "it failed", priority));
        assert!(!opens("Error", "Did you mean that?", priority));
        assert!(!opens("Error", "", priority));
        assert!(opens("Which list? ", "", priority));
        assert!(opens("今日？", "for the meeting", priority));
    }
    // The app's own name as a title counts as no title.
    assert!(opens(" NoteBook ", "Which list?", NoticePriority::Low));
    assert!(!opens("notebook?s", "Which list?", NoticePriority::High));
    assert!(after(&titled("Error", "it failed", NoticePriority::Low, true), 0).is_some(), "the app said so itself");
}

#[test]
fn one_answer_closes_it_and_a_newer_question_replaces_it() {
    let mut windows = FollowUpWindows::new(Duration::from_secs(300));
    let question = notice("which?", NoticePriority::Normal, false);
    windows.record_notice(&"user".into(), &"notebook".into(), &question, Duration::ZERO);
    let newer = titled("calendar", "which?", NoticePriority::Normal, false);
    windows.record_notice(&"user".into(), &"calendar".into(), &newer, Duration::from_secs(1));
    assert_eq!(windows.open_question("user", Duration::from_secs(2)).as_deref(), Some("calendar"));
    assert_eq!(windows.open_question("other", Duration::from_secs(2)), None);
    windows.close_question("user");
    assert_eq!(windows.open_question("user", Duration::from_secs(2)), None);
}

#[test]
fn users_are_bounded_and_a_window_of_nothing_is_never_open() {
    let question = notice("which?", NoticePriority::Normal, false);
    let mut windows = FollowUpWindows::new(Duration::from_secs(300));
    for user in 0..2 * MAX_USERS as u64 {
        windows.record_notice(
            &format!("user-{user}").into(),
            &"notebook".into(),
            &question,
            Duration::from_millis(user),
        );
    }
    assert_eq!(windows.open_questions.len(), MAX_USERS);
    assert!(windows.open_question(&format!("user-{}", 2 * MAX_USERS - 1), Duration::from_secs(3)).is_some());
    let mut never = FollowUpWindows::new(Duration::ZERO);
    never.record_notice(&"user".into(), &"notebook".into(), &question, Duration::ZERO);
    assert_eq!(never.open_question("user", Duration::ZERO), None);
}
