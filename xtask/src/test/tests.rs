use super::*;

/// Runs the plan with `failing` steps failing; gives the steps performed and the steps that passed over.
fn plan(options: &Options, failing: &[Step]) -> (Vec<Step>, Vec<Step>) {
    let mut performed = Vec::new();
    let rows = run_steps(options, &mut |step| {
        performed.push(step);
        if failing.contains(&step) {
            anyhow::bail!("made to fail")
        }
        Ok(Finding::default())
    });
    let passed_over = rows.iter().filter(|row| matches!(row.finding.state, State::NotRun(_)));
    (performed, passed_over.map(|row| row.step).collect())
}

#[test]
fn everything_runs_in_order_by_default() {
    assert_eq!(plan(&Options::default(), &[]), (Step::ALL.to_vec(), vec![]));
}

#[test]
fn fast_leaves_out_the_release_binary_and_its_drivers() {
    let fast = Options { fast: true, ..Options::default() };
    let steps = vec![Step::Fmt, Step::Clippy, Step::Tidy, Step::Plugins, Step::Tests];
    assert_eq!(plan(&fast, &[]), (steps, vec![]));
}

#[test]
fn only_runs_what_is_named_in_the_usual_order() {
    let only = Options { only: vec![Step::E2e, Step::Fmt], ..Options::default() };
    assert_eq!(plan(&only, &[]), (vec![Step::Fmt, Step::E2e], vec![]));
}

#[test]
fn the_first_failure_stops_the_rest() {
    let (performed, passed_over) = plan(&Options::default(), &[Step::Clippy]);
    assert_eq!(performed, vec![Step::Fmt, Step::Clippy]);
    assert_eq!(passed_over, vec![Step::Tidy, Step::Plugins, Step::Tests, Step::Build, Step::E2e]);
}

#[test]
fn keep_going_leaves_out_only_what_cannot_run() {
    let keep_going = Options { keep_going: true, ..Options::default() };
    assert_eq!(plan(&keep_going, &[Step::Clippy]), (Step::ALL.to_vec(), vec![]));
    let (performed, passed_over) = plan(&keep_going, &[Step::Build]);
    assert_eq!((performed.len(), passed_over), (6, vec![Step::E2e]));
}
