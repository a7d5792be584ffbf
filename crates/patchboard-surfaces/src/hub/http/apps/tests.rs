use super::*;

#[test]
fn a_token_is_shown_as_it_is_and_kept_as_its_hash() {
    let Pairing { command, token } = Pairing::with_fresh_token("a".to_owned());
    assert_eq!((&*command.app, command.token), ("a", map::hash_token(&token)));
}
