use super::*;
use crate::hub::tests::test_hub::profile;

fn at(hours: i64) -> Timestamp {
    Timestamp::from_second(1_794_744_000 + hours * 3600).unwrap()
}

fn connected(name: &str, connection: u64, since: Timestamp) -> ConnectedApp {
    let (inbox, taken) = mpsc::channel(1);
    ConnectedApp {
        profile: Arc::new(profile(name, "does things")),
        connection: ConnectionId(connection),
        since,
        inbox,
        inbox_receiver: Arc::new(tokio::sync::Mutex::new(taken)),
        liveness: tokio::sync::watch::Sender::new(0),
    }
}

fn names(apps: &[Arc<AppProfile>]) -> Vec<&str> {
    apps.iter().map(|app| &*app.name).collect()
}

#[test]
fn found_by_name_in_any_case_and_by_connection() {
    let mut roster = Roster::default();
    roster.join(connected("Notebook", 1, at(0)));
    assert_eq!(roster.by_name("nOTEBOOK").map(|app| app.connection), Some(ConnectionId(1)));
    assert_eq!(roster.by_connection(ConnectionId(1)).map(|app| &*app.profile.name), Some("Notebook"));
    assert!(roster.by_name("note").is_none());
    assert!(roster.leave(ConnectionId(2), at(1)).is_none());
    assert!(roster.leave(ConnectionId(1), at(1)).is_some());
    assert!(roster.by_name("notebook").is_none());
    assert_eq!(roster.known_app("NOTEBOOK").map(|known| known.seen_at), Some(at(1)));
}

#[test]
fn the_same_app_is_known_once_by_its_newest_words() {
    let mut roster = Roster::default();
    roster.join(connected("notebook", 1, at(0)));
    roster.update_known("notebook", at(0), |known| known.token = Some([7; 32]));
    roster.leave(ConnectionId(1), at(0));
    roster.join(connected("NoteBook", 2, at(5)));
    let known: Vec<_> = roster.known().iter().map(|known| (&*known.profile.name, known.seen_at, known.token)).collect();
    assert_eq!(known, [("NoteBook", at(5), Some([7; 32]))], "and it keeps its token");
}

#[test]
fn absent_are_those_seen_lately_that_said_what_they_do() {
    let mut roster = Roster::default();
    roster.join(connected("here", 1, at(0)));
    roster.join(connected("gone", 2, at(0)));
    roster.leave(ConnectionId(2), at(1));
    roster.remember_applicant("never-seen", at(1));
    assert_eq!(names(&roster.expected_back(at(2))), ["gone"]);
    assert_eq!(names(&roster.expected_back(at(1 + 24 * 7))), [""; 0], "a week later nobody waits for it");
}

#[test]
fn what_the_operator_let_in_is_not_pushed_out_by_whoever_asks() {
    let mut roster = Roster::default();
    roster.update_known("approved", at(0), |known| known.is_approved = true);
    roster.update_known("paired", at(0), |known| known.token = Some([1; 32]));
    roster.join(connected("connected", 1, at(0)));
    for number in 0..2 * MAX_KNOWN {
        roster.remember_applicant(&format!("app-{number}"), at(1));
    }
    assert_eq!(roster.known().len(), MAX_KNOWN);
    for name in ["approved", "paired", "connected"] {
        assert!(roster.known_app(name).is_some(), "{name}");
    }
    roster.forget("APPROVED");
    assert!(roster.known_app("approved").is_none());
}
