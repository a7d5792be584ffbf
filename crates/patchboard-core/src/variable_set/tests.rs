use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn set_request(name: &str, value: Value) -> SetVariable {
    SetVariable { name: name.into(), value: Arc::new(value), depends_on: None, if_version: None }
}

fn needing(name: &str, names: &[&str]) -> SetVariable {
    let depends_on = Some(names.iter().map(|&name| name.into()).collect());
    SetVariable { depends_on, ..set_request(name, json!(name)) }
}

fn at_version(name: &str, version: u64) -> SetVariable {
    SetVariable { if_version: Some(version), ..set_request(name, json!(0)) }
}

fn set_of(requests: impl IntoIterator<Item = SetVariable>) -> VariableSet {
    let mut variable_set = VariableSet::new(100);
    for set_request in requests {
        variable_set.set(set_request, Timestamp::UNIX_EPOCH).unwrap();
    }
    variable_set
}

fn set(variable_set: &mut VariableSet, set_request: SetVariable) -> (u64, Vec<String>) {
    let ChangeOutcome { version, stale } = variable_set.set(set_request, Timestamp::UNIX_EPOCH).unwrap();
    (version, stale.iter().map(ToString::to_string).collect())
}

fn refused(variable_set: &mut VariableSet, set_request: SetVariable) -> String {
    let before = variable_set.clone();
    let reason = variable_set.set(set_request, Timestamp::UNIX_EPOCH).unwrap_err();
    assert_eq!(*variable_set, before, "a refusal changes nothing");
    reason
}

fn stale(variable_set: &VariableSet) -> Vec<&str> {
    variable_set.variables.iter().filter(|(_, variable)| variable.is_stale).map(|(name, _)| &**name).collect()
}

/// What a watcher gets, in short.
fn watched(variable_set: &VariableSet, names: &[&str], since: u64) -> (Vec<String>, u64, bool) {
    let names: Vec<Glob> = names.iter().map(|&name| Glob::new(name)).collect();
    let WatchUpdate { changes, cursor, reset } = variable_set.changes(&names, since);
    let one = |change: &VariableChange| {
        let value = change.value.as_ref().map(|value| format!("={value}")).unwrap_or_default();
        let deleted = if change.deleted { " deleted" } else { "" };
        let stale = if change.stale { " stale" } else { "" };
        format!("{}@{}{value}{deleted}{stale}", change.name, change.version)
    };
    (changes.iter().map(one).collect(), cursor, reset)
}

#[test]
fn values_stay_what_they_are_and_versions_count() {
    let mut variable_set = set_of([]);
    for (index, value) in [json!(7), json!(7.0), json!(null), json!([1, {"a": null}])].into_iter().enumerate() {
        assert_eq!(set(&mut variable_set, set_request("x", value.clone())), (index as u64 + 1, vec![]));
        assert_eq!(*variable_set.variables["x"].value, value);
    }
}

#[test]
fn a_version_may_be_required() {
    let mut variable_set = set_of([set_request("x", json!(1))]);
    assert_eq!(refused(&mut variable_set, at_version("x", 0)), "`x` is at version 1, not 0");
    assert_eq!(refused(&mut variable_set, at_version("x", 2)), "`x` is at version 1, not 2");
    assert_eq!(refused(&mut variable_set, at_version("y", 1)), "no variable is named `y`, so it is not at version 1");
    assert_eq!(set(&mut variable_set, at_version("x", 1)).0, 2);
    assert_eq!(set(&mut variable_set, at_version("y", 0)).0, 1);
}

#[test]
fn versions_go_on_over_a_deletion() {
    let mut variable_set = set_of([set_request("x", json!(1)), set_request("x", json!(2))]);
    assert_eq!(variable_set.delete("x"), Some(ChangeOutcome { version: 2, stale: vec![] }));
    assert_eq!(variable_set.delete("x"), None);
    assert_eq!(refused(&mut variable_set, at_version("x", 2)), "no variable is named `x`, so it is not at version 2");
    assert_eq!(set(&mut variable_set, at_version("x", 0)).0, 3);
}

#[test]
fn what_depends_on_a_change_is_stale_until_it_is_set_again() {
    let mut variable_set =
        set_of([set_request("a", json!(1)), needing("b", &["a"]), needing("c", &["b"]), needing("d", &["a", "x"])]);
    assert_eq!(stale(&variable_set), Vec::<&str>::new());
    assert_eq!(set(&mut variable_set, set_request("a", json!(2))).1, ["b", "c", "d"]);
    assert_eq!(stale(&variable_set), ["b", "c", "d"]);
    // Dependencies persist when not given again.
    assert_eq!(set(&mut variable_set, set_request("b", json!(2))).1, ["c"]);
    assert_eq!(stale(&variable_set), ["c", "d"]);
    assert_eq!(set(&mut variable_set, set_request("c", json!(2))).1, Vec::<String>::new());
    assert_eq!(set(&mut variable_set, needing("d", &[])).1, Vec::<String>::new());
    assert_eq!(stale(&variable_set), Vec::<&str>::new());
    assert_eq!(variable_set.delete("a").unwrap().stale, [Arc::from("b"), "c".into()]);
    assert_eq!(stale(&variable_set), ["b", "c"]);
    // A variable created again is a change too.
    set(&mut variable_set, set_request("b", json!(3)));
    set(&mut variable_set, set_request("c", json!(3)));
    assert_eq!(set(&mut variable_set, set_request("a", json!(3))).1, ["b", "c"]);
}

#[test]
fn a_cycle_is_refused() {
    let mut variable_set = set_of([needing("b", &["a"]), needing("c", &["z", "b"])]);
    assert_eq!(refused(&mut variable_set, needing("a", &["a"])), "`a` cannot depend on itself");
    assert_eq!(refused(&mut variable_set, needing("a", &["z", "c"])), "`a` cannot depend on `c`, which depends on `a`");
    // A deleted variable breaks the dependency path.
    variable_set.delete("b");
    set(&mut variable_set, needing("a", &["c"]));
    assert_eq!(refused(&mut variable_set, needing("b", &["a"])), "`b` cannot depend on `a`, which depends on `b`");
}

#[test]
fn watchers_get_each_change_once() {
    let mut variable_set = set_of([set_request("a", json!(1)), needing("b", &["a"])]);
    assert_eq!(variable_set.cursor, 102);
    let all = || vec!["a@1=1".to_owned(), "b@1=\"b\"".to_owned()];
    assert_eq!(watched(&variable_set, &[], 0), (all(), 102, false));
    assert_eq!(watched(&variable_set, &[], 100), (all(), 102, false));
    assert_eq!(watched(&variable_set, &["b*"], 100), (vec!["b@1=\"b\"".to_owned()], 102, false));
    assert_eq!(watched(&variable_set, &[], 102), (vec![], 102, false));
    set(&mut variable_set, set_request("a", json!(2)));
    assert_eq!(watched(&variable_set, &[], 102).0, ["a@2=2", "b@1=\"b\" stale"]);
    assert_eq!(watched(&variable_set, &["b"], 102).0, ["b@1=\"b\" stale"]);
    variable_set.delete("a");
    assert_eq!(watched(&variable_set, &[], 103), (vec!["a@2 deleted".to_owned()], 104, false));
    // A watcher that starts from 0 gets no deletions.
    assert_eq!(watched(&variable_set, &[], 0).0, ["b@1=\"b\" stale"]);
    set(&mut variable_set, set_request("a", json!(3)));
    assert_eq!(watched(&variable_set, &["a"], 103).0, ["a@3=3"]);
}

#[test]
fn a_watcher_that_missed_too_much_gets_everything() {
    let mut variable_set = set_of([set_request("kept", json!(1))]);
    let everything = |cursor| (vec!["kept@1=1".to_owned()], cursor, true);
    // Cursors of an earlier session of that id, and cursors that were never handed out.
    assert_eq!(watched(&variable_set, &[], 99), everything(101));
    assert_eq!(watched(&variable_set, &[], 102), everything(101));
    assert_eq!(watched(&variable_set, &["other"], 99), (vec![], 101, true));
    for number in 0..=MAX_DELETED {
        set(&mut variable_set, set_request(&format!("v{number}"), json!(0)));
        variable_set.delete(&format!("v{number}"));
    }
    assert_eq!(variable_set.deleted.len(), MAX_DELETED);
    let after_first = 103;
    assert_eq!(watched(&variable_set, &[], after_first - 1), everything(variable_set.cursor));
    let WatchUpdate { changes, reset, .. } = variable_set.changes(&[], after_first);
    assert_eq!((changes.len(), reset), (MAX_DELETED, false));
}

#[test]
fn an_answer_to_a_watcher_is_bounded() {
    let long = Value::from("x".repeat(200 * 1024));
    let variable_set = set_of(["a", "b", "c", "d", "e", "f", "g"].map(|name| set_request(name, long.clone())));
    let WatchUpdate { changes, .. } = variable_set.changes(&[], 0);
    let with_value: Vec<&str> =
        changes.iter().filter(|change| change.value.is_some()).map(|change| &*change.name).collect();
    assert_eq!((changes.len(), with_value), (7, vec!["a", "b", "c", "d", "e"]));
}

#[test]
fn names_are_checked() {
    let longest = "n".repeat(MAX_NAME);
    for name in ["a", "_", "A9", "a.b-c_d", &longest] {
        assert_eq!(check_name(name), Ok(()), "{name}");
    }
    let too_long = "n".repeat(MAX_NAME + 1);
    for name in ["", "9a", "-a", ".a", "a b", "a/b", "ä", "a\u{0}", &too_long] {
        let mut variable_set = set_of([]);
        assert!(
            refused(&mut variable_set, set_request(name, json!(1))).contains("cannot be the name of a variable"),
            "{name}"
        );
        assert!(
            refused(&mut variable_set, needing("a", &[name])).contains("cannot be the name of a variable"),
            "{name}"
        );
    }
}

#[test]
fn everything_is_bounded() {
    let mut variable_set = set_of([]);
    let text = |bytes: usize| Value::from("x".repeat(bytes - 2));
    assert_eq!(
        refused(&mut variable_set, set_request("a", text(MAX_VALUE + 1))),
        "the value is too long: 262145 bytes, at most 262144 are kept"
    );
    let nested = |levels: usize| (1..levels).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(set(&mut variable_set, set_request("deep", nested(MAX_DEPTH))).0, 1);
    assert!(refused(&mut variable_set, set_request("a", nested(MAX_DEPTH + 1))).contains("nested too deeply"));
    let many: Vec<String> = (0..=MAX_DEPENDENCIES).map(|number| format!("d{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(refused(&mut variable_set, needing("a", &many)), "a variable depends on at most 64 others");
    // Duplicates are merged.
    set(&mut variable_set, needing("a", &[&many[..MAX_DEPENDENCIES], &many[..1]].concat()));

    let mut full = VariableSet::new(1);
    for number in 0..15 {
        set(&mut full, set_request(&format!("v{number:02}"), text(MAX_VALUE)));
    }
    let reason = refused(&mut full, set_request("v15", text(MAX_VALUE)));
    assert_eq!(reason, "the session's variables together would be larger than 4194304 bytes");
    // Names count, and replaced values do not.
    set(&mut full, set_request("v15", text(MAX_VALUE - 16 * 3)));
    assert_eq!(full.total_bytes(), MAX_TOTAL);
    assert_eq!(set(&mut full, set_request("v00", text(MAX_VALUE))).0, 2);
    refused(&mut full, set_request("one_more", json!(1)));

    let mut crowded = VariableSet::new(1);
    for number in 0..MAX_VARIABLES {
        set(&mut crowded, set_request(&format!("v{number}"), json!(1)));
    }
    assert_eq!(
        refused(&mut crowded, set_request("one_more", json!(1))),
        "a session holds at most 1000 variables: delete some first"
    );
    assert_eq!(set(&mut crowded, set_request("v0", json!(2))).0, 2);
}

#[derive(Debug, Clone)]
enum Step {
    Set { name: usize, depends_on: Option<Vec<usize>> },
    Delete(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let depends_on = prop::option::weighted(0.6, prop::collection::vec(0..6_usize, 0..4));
    let step = prop_oneof![
        4 => (0..6_usize, depends_on).prop_map(|(name, depends_on)| Step::Set { name, depends_on }),
        1 => (0..6_usize).prop_map(Step::Delete),
    ];
    prop::collection::vec(step, 1..60)
}

/// A naive reference implementation of dependencies and staleness.
#[derive(Debug, Default)]
struct Model {
    needs: BTreeMap<usize, BTreeSet<usize>>,
    stale: BTreeSet<usize>,
    versions: BTreeMap<usize, u64>,
}

impl Model {
    /// All variables that depend on `name`, directly or not.
    fn dependents(&self, name: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        loop {
            let next: BTreeSet<usize> = self
                .needs
                .iter()
                .filter(|(_, needs)| needs.iter().any(|need| *need == name || found.contains(need)))
                .map(|(&dependent, _)| dependent)
                .collect();
            if next == found {
                return found;
            }
            found = next;
        }
    }
}

proptest! {
    #[test]
    fn staleness_versions_and_news_follow_the_rules(steps in steps()) {
        let name = |number: usize| -> Arc<str> { format!("v{number}").into() };
        let names = |numbers: &BTreeSet<usize>| numbers.iter().map(|&number| name(number)).collect::<Vec<_>>();
        let mut model = Model::default();
        let mut variable_set = VariableSet::new(10);
        // A watcher that follows every step knows as much as one that reads everything.
        let mut known: BTreeMap<Arc<str>, (u64, bool, Arc<Value>)> = BTreeMap::new();
        let mut since = variable_set.cursor;
        for (count, step) in steps.into_iter().enumerate() {
            match step {
                Step::Set { name: number, depends_on } => {
                    let needs = match &depends_on {
                        Some(needs) => needs.iter().copied().collect(),
                        None => model.needs.get(&number).cloned().unwrap_or_default(),
                    };
                    let before = model.needs.insert(number, needs);
                    let is_cycle = model.dependents(number).contains(&number);
                    let depends_on = depends_on.map(|needs| needs.into_iter().map(name).collect());
                    let wanted = SetVariable { name: name(number), value: Arc::new(json!(count)), depends_on, if_version: None };
                    let done = variable_set.set(wanted, Timestamp::UNIX_EPOCH);
                    prop_assert_eq!(done.is_err(), is_cycle);
                    if is_cycle {
                        match before {
                            Some(before) => model.needs.insert(number, before),
                            None => model.needs.remove(&number),
                        };
                    } else {
                        let version = model.versions.entry(number).or_default();
                        *version += 1;
                        let version = *version;
                        model.stale.remove(&number);
                        let stale = model.dependents(number);
                        model.stale.extend(&stale);
                        prop_assert_eq!(done.unwrap(), ChangeOutcome { version, stale: names(&stale) });
                    }
                }
                Step::Delete(number) => {
                    let is_there = model.needs.remove(&number).is_some();
                    let done = variable_set.delete(&name(number));
                    prop_assert_eq!(done.is_some(), is_there);
                    if let Some(done) = done {
                        model.stale.remove(&number);
                        let stale = model.dependents(number);
                        model.stale.extend(&stale);
                        prop_assert_eq!(done, ChangeOutcome { version: model.versions[&number], stale: names(&stale) });
                    }
                }
            }
            let reported = variable_set.variables.iter().filter(|(_, variable)| variable.is_stale).map(|(name, _)| name.clone());
            prop_assert_eq!(reported.collect::<Vec<_>>(), names(&model.stale));
            if count % 3 == 0 {
                let update = variable_set.changes(&[], since);
                prop_assert!(!update.reset);
                since = update.cursor;
                for change in update.changes {
                    if change.deleted {
                        known.remove(&change.name);
                        continue;
                    }
                    known.insert(change.name, (change.version, change.stale, change.value.unwrap()));
                }
                let kept = variable_set.variables.iter();
                let kept = kept.map(|(name, one)| (name.clone(), (one.version, one.is_stale, one.value.clone())));
                prop_assert_eq!(&known, &kept.collect::<BTreeMap<_, _>>());
            }
            let (read, apart) = crate::record::decode_variable_set(&crate::record::encode_variable_set(&variable_set, |_| false)).unwrap();
            prop_assert_eq!((&read, apart.len()), (&variable_set, 0));
        }
    }
}
