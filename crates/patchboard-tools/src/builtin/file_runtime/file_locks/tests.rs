use std::cell::Cell;

use super::super::content::file_target;
use super::*;
use crate::builtin::tests::yard::Yard;

/// Looks at one path after the other; then always at the last.
fn looked(yard: &Yard, paths: &[&str]) -> (usize, Result<String, ToolRefusal>) {
    let looks = Cell::new(0);
    let look = || {
        let path = paths.get(looks.get()).or(paths.last()).unwrap();
        looks.set(looks.get() + 1);
        file_target(&yard.folder, path)
    };
    let found = yard.turns.lock_targets(look, |place| vec![place]).map(|(_turn, place)| place.display_path());
    (looks.get(), found)
}

#[test]
fn what_moved_while_waiting_is_waited_for_again() {
    let yard = Yard::new(&[]);
    assert_eq!(looked(&yard, &["a"]), (2, Ok("`a`".to_owned())));
    assert_eq!(looked(&yard, &["a", "b"]), (4, Ok("`b`".to_owned())));
    assert_eq!(looked(&yard, &["a", "b", "c", "d"]), (6, Ok("`d`".to_owned())));
    let names: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let refused = ToolRefusal("what the path leads to keeps changing".to_owned());
    assert_eq!(looked(&yard, &names), (2 * MAX_LOOKUPS, Err(refused)));
}

#[test]
fn places_of_one_stripe_do_not_wait_for_themselves() {
    let yard = Yard::new(&[]);
    let names: Vec<String> = (0..500).map(|number| number.to_string()).collect();
    let look = || names.iter().map(|name| file_target(&yard.folder, name)).collect::<Result<Vec<_>, _>>();
    let (_turn, found) = yard.turns.lock_targets(look, |found| found.iter().collect()).unwrap();
    assert_eq!(found.len(), 500);
}
