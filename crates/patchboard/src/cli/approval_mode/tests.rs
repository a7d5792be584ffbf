use super::*;

#[test]
fn a_person_is_asked_unless_it_is_said_otherwise() {
    use Unattended::{Refuse, Wait};
    for (approvals, has_person, expected) in [
        (None, true, Answerer::Person),
        (None, false, Answerer::Nobody(Refuse)),
        (Some(Refuse), true, Answerer::Nobody(Refuse)),
        (Some(Wait), true, Answerer::Nobody(Wait)),
        (Some(Wait), false, Answerer::Nobody(Wait)),
    ] {
        assert_eq!(ApprovalArgs { approvals }.answerer(has_person), expected, "{approvals:?} {has_person}");
    }
}

#[test]
fn a_refusal_names_the_key_and_the_flag() {
    assert_eq!(
        refusal("bash", "bash {\"command\":\"ls\"}", "`--approvals wait` waits"),
        "refused, because it needs approval and nobody can be asked here: bash {\"command\":\"ls\"}\n\
         hint: `\"bash\" = \"allow\"` under `[tools.approval]` allows it; `--approvals wait` waits"
    );
}
