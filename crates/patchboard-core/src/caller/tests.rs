use super::*;

#[test]
fn the_text_of_a_principal_names_it_again() {
    for (principal, text) in [
        (Principal::Local, "local"),
        (Principal::Operator, "operator"),
        (Principal::Token, "token"),
        (Principal::Certificate, "certificate"),
        (Principal::Key("ci".into()), "key:ci"),
        (Principal::SignIn("7".into()), "sign-in:7"),
        (Principal::App("notebook".into()), "app:notebook"),
        (Principal::Worker("py-1".into()), "worker:py-1"),
        (Principal::Program("s".into()), "program:s"),
        (Principal::Plugin("slack".into()), "plugin:slack"),
        (Principal::Channel("support".into()), "channel:support"),
        (Principal::Schedule("daily".into()), "schedule:daily"),
        (Principal::Node("a".into()), "node:a"),
        (Principal::Account("web:alice".into()), "web:alice"),
        (Principal::Account("workers".into()), "workers"),
    ] {
        assert_eq!((&*principal.text(), principal.to_string().as_str()), (text, text));
        assert_eq!(Principal::from(text), principal);
    }
}
