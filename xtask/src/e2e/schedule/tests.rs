use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn driver(file: &str, size: usize) -> Driver {
    Driver { file: file.to_owned(), language: Language::Python, place: Place::SideBySide, size }
}

fn names(drivers: &[Driver]) -> Vec<&str> {
    drivers.iter().map(|driver| driver.file.as_str()).collect()
}

#[test]
fn a_file_says_itself_that_it_needs_quiet_or_takes_long() {
    for (text, expected) in [
        ("\"\"\"Memory.\"\"\"\n# runs alone: reads the memory of the machine\n", Place::Alone),
        ("// runs alone: draws a page\nimport x;\n", Place::Alone),
        ("\"\"\"This one never runs alone: it is quick.\"\"\"\n", Place::SideBySide),
        ("# begins early: compiles an interpreter\n", Place::Early),
        ("import x\n", Place::SideBySide),
    ] {
        assert_eq!(place(text), expected, "{text}");
    }
    let far_down = format!("{}# runs alone: too far down to be seen\n", "x = 1\n".repeat(HEAD_LINES));
    assert_eq!(place(&far_down), Place::SideBySide);
}

#[test]
fn a_core_that_somebody_else_keeps_busy_is_not_counted() {
    for (cores, others, expected) in
        [(2, 0.0, 4), (2, 0.1, 4), (2, 0.5, 2), (2, 1.0, 2), (1, 1.0, 2), (4, 0.3, 6), (16, 0.0, 8), (16, 1.0, 2)]
    {
        assert_eq!(for_free_cores(cores, others), expected, "{cores} cores, {others} of them in use");
    }
}

#[test]
fn unknown_files_come_first_then_the_longest() {
    let early = Driver { place: Place::Early, ..driver("early", 1) };
    let drivers = vec![driver("quick", 9), driver("small", 1), early, driver("slow", 2), driver("large", 8)];
    let known = BTreeMap::from([("quick".to_owned(), 0.5), ("slow".to_owned(), 30.0)]);
    assert_eq!(names(&in_order(drivers, &known)), ["early", "large", "small", "slow", "quick"]);
}

#[test]
fn jobs_run_side_by_side_and_each_once() {
    // Neither of two jobs ends before the other has begun.
    let both = Barrier::new(2);
    let mut done = share_out(vec![1, 2], 2, &|job: &i32| {
        both.wait();
        Ok(*job)
    })
    .expect("both run");
    done.sort_unstable();
    assert_eq!(done, [1, 2]);
}

#[test]
fn one_thread_runs_them_in_order() {
    assert_eq!(share_out(vec!["a", "b", "c"], 1, &|job: &&str| Ok(*job)).expect("all run"), ["a", "b", "c"]);
}

#[test]
fn a_job_that_cannot_be_carried_out_ends_the_rest() {
    let begun = AtomicUsize::new(0);
    let error = share_out(vec![1, 2, 3], 1, &|_: &i32| -> anyhow::Result<()> {
        begun.fetch_add(1, Ordering::SeqCst);
        anyhow::bail!("no such program")
    })
    .expect_err("the first fails");
    assert_eq!((error.to_string().as_str(), begun.load(Ordering::SeqCst)), ("no such program", 1));
}

#[test]
fn durations_are_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(DURATIONS);
    assert_eq!(read_durations(&path), BTreeMap::new());
    let finished =
        [Finished { file: "a.py".to_owned(), took: Duration::from_millis(1500), outcome: Outcome::default() }];
    write_durations(&path, &finished).expect("it can be written");
    assert_eq!(read_durations(&path), BTreeMap::from([("a.py".to_owned(), 1.5)]));
}
