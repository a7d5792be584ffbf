use super::*;

#[test]
fn a_token_is_shown_as_it_is_and_kept_as_its_hash() {
    let Pairing { command, token } = Pairing::with_fresh_token("a".to_owned());
    let Command::PairApp { app, token: kept } = command else { panic!("{command:?}") };
    assert_eq!((&*app, kept), ("a", map::hash_token(&token)));
}
