use super::*;

fn session(number: usize) -> Arc<str> {
    format!("s{number}").into()
}

#[test]
fn a_session_is_bound_to_its_last_worker_and_remembers_all() {
    let (now, mut affinities) = (Instant::now(), Affinities::default());
    for worker in [3, 7, 3] {
        affinities.bind(&session(1), WorkerNumber(worker), now);
    }
    assert_eq!(affinities.worker("s1", now), Some(WorkerNumber(3)));
    affinities.unbind("s1");
    assert_eq!(affinities.worker("s1", now), None);
    assert_eq!(affinities.remove("s1"), [WorkerNumber(3), WorkerNumber(7)]);
    assert_eq!(affinities.remove("s1"), []);
    assert!(affinities.by_session.is_empty() && affinities.by_use.is_empty());
}

#[test]
fn the_session_used_longest_ago_makes_room() {
    let (now, mut affinities) = (Instant::now(), Affinities::default());
    for number in 0..MAX_SESSIONS {
        affinities.bind(&session(number), WorkerNumber(1), now);
    }
    affinities.bind(&session(0), WorkerNumber(2), now);
    affinities.bind(&session(MAX_SESSIONS), WorkerNumber(1), now);
    assert_eq!((affinities.by_session.len(), affinities.by_use.len()), (MAX_SESSIONS, MAX_SESSIONS));
    assert_eq!((affinities.worker("s0", now), affinities.worker("s1", now)), (Some(WorkerNumber(2)), None));
}

#[test]
fn what_is_old_is_forgotten() {
    let (now, mut affinities) = (Instant::now(), Affinities::default());
    affinities.bind(&session(1), WorkerNumber(1), now);
    let later = now + MAX_IDLE + Duration::from_secs(1);
    assert_eq!(affinities.worker("s1", later), None);
    affinities.bind(&session(2), WorkerNumber(1), later);
    assert_eq!((affinities.by_session.len(), affinities.remove("s1").len()), (1, 0));
}

#[test]
fn only_so_many_workers_of_a_session_are_kept() {
    let (now, mut affinities) = (Instant::now(), Affinities::default());
    for worker in 0..=MAX_SEEN_WORKERS as u64 {
        affinities.bind(&session(1), WorkerNumber(worker), now);
    }
    let seen = affinities.remove("s1");
    assert_eq!(
        (seen.len(), seen.first(), seen.last()),
        (MAX_SEEN_WORKERS, Some(&WorkerNumber(1)), Some(&WorkerNumber(300)))
    );
}
