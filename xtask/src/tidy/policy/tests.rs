use super::*;
use crate::tidy::testing::tree;

#[test]
fn the_repository_s_policy_is_understood() {
    let policy = Policy::parse(include_str!("../../../../deny.toml")).expect("deny.toml is good");
    assert!(policy.licenses.allow.iter().any(|license| license == "MIT"));
    for banned in ["aws-lc-sys", "openssl-sys", "native-tls"] {
        assert!(policy.bans.deny.iter().any(|ban| ban.name == banned), "{banned}");
    }
    assert_eq!(policy.sources.allow_registry.len(), 1);
}

#[test]
fn a_missing_or_broken_policy_is_an_error() {
    assert!(Policy::load(&tree(&[])).is_err());
    assert!(Policy::parse("[licenses]").is_err());
}
