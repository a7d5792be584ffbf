use super::*;

fn notice(body: &str, priority: Priority, expects_reply: bool) -> AppNotice {
    titled("notebook", body, priority, expects_reply)
}

fn titled(title: &str, body: &str, priority: Priority, expects_reply: bool) -> AppNotice {
    AppNotice { title: title.into(), body: body.into(), priority, expects_reply }
}

fn after(notice: &AppNotice, passed: u64) -> Option<Arc<str>> {
    let mut asked = FollowUps::new(Duration::from_secs(300));
    asked.noticed(&"user".into(), &"notebook".into(), notice, Duration::from_secs(10));
    asked.open("user", Duration::from_secs(10 + passed))
}

#[test]
fn a_question_opens_the_window() {
    assert!(after(&notice("Which list?", Priority::Normal, false), 299).is_some());
    assert!(after(&notice("Which list? ", Priority::Normal, false), 0).is_some());
    assert!(after(&notice("tell me more", Priority::Normal, true), 0).is_some());
    assert!(after(&notice("it failed", Priority::High, false), 0).is_some());
    assert!(after(&notice("saved", Priority::Normal, false), 0).is_none());
    assert!(after(&notice("Which list?", Priority::Normal, false), 300).is_none());
}

#[test]
fn a_title_of_its_own_says_whether_a_notice_asks() {
    let opens = |title: &str, body: &str, priority| after(&titled(title, body, priority, false), 0).is_some();
    for priority in [Priority::Low, Priority::Normal, Priority::High] {
        assert!(!opens("SmartHole Error", "it failed", priority));
        assert!(!opens("Error", "Did you mean that?", priority));
        assert!(!opens("Error", "", priority));
        assert!(opens("Which list? ", "", priority));
        assert!(opens("今日？", "for the meeting", priority));
    }
    // The app's own name says no more than no title does.
    assert!(opens(" NoteBook ", "Which list?", Priority::Low));
    assert!(!opens("notebook?s", "Which list?", Priority::High));
    assert!(after(&titled("Error", "it failed", Priority::Low, true), 0).is_some(), "the app said so itself");
}

#[test]
fn one_answer_closes_it_and_a_newer_question_replaces_it() {
    let mut asked = FollowUps::new(Duration::from_secs(300));
    let question = notice("which?", Priority::Normal, false);
    asked.noticed(&"user".into(), &"notebook".into(), &question, Duration::ZERO);
    let newer = titled("calendar", "which?", Priority::Normal, false);
    asked.noticed(&"user".into(), &"calendar".into(), &newer, Duration::from_secs(1));
    assert_eq!(asked.open("user", Duration::from_secs(2)).as_deref(), Some("calendar"));
    assert_eq!(asked.open("other", Duration::from_secs(2)), None);
    asked.answered("user");
    assert_eq!(asked.open("user", Duration::from_secs(2)), None);
}

#[test]
fn users_are_bounded_and_a_window_of_nothing_is_never_open() {
    let question = notice("which?", Priority::Normal, false);
    let mut asked = FollowUps::new(Duration::from_secs(300));
    for user in 0..2 * MAX_USERS as u64 {
        asked.noticed(&format!("user-{user}").into(), &"notebook".into(), &question, Duration::from_millis(user));
    }
    assert_eq!(asked.asked.len(), MAX_USERS);
    assert!(asked.open(&format!("user-{}", 2 * MAX_USERS - 1), Duration::from_secs(3)).is_some());
    let mut never = FollowUps::new(Duration::ZERO);
    never.noticed(&"user".into(), &"notebook".into(), &question, Duration::ZERO);
    assert_eq!(never.open("user", Duration::ZERO), None);
}
