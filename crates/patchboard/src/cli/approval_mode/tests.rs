use super::*;

#[test]
fn a_person_is_asked_unless_it_is_said_otherwise() {
    use UnattendedMode::{Refuse, Wait};
    for (approvals, has_person, expected) in [
        (None, true, ApprovalResponder::Person),
        (None, false, ApprovalResponder::Unattended(Refuse)),
        (Some(Refuse), true, ApprovalResponder::Unattended(Refuse)),
        (Some(Wait), true, ApprovalResponder::Unattended(Wait)),
        (Some(Wait), false, ApprovalResponder::Unattended(Wait)),
    ] {
        assert_eq!(ApprovalArgs { approvals }.responder(has_person), expected, "{approvals:?} {has_person}");
    }
}

#[test]
fn a_refusal_names_the_key_and_the_flag() {
    assert_eq!(
        refusal_text("bash", "bash {\"command\":\"ls\"}", "`--approvals wait` waits"),
        "refused, because it needs approval and nobody can be asked here: bash {\"command\":\"ls\"}\n\
         hint: `\"bash\" = \"allow\"` under `[tools.approval]` allows it; `--approvals wait` waits"
    );
}
