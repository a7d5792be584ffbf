use super::advise;

/// What is said of a refusal: the problem, and the beginning of the hint, empty for none.
#[track_caller]
fn check(text: &str, problem: &str, hint: &str) {
    let advice = advise(text);
    assert_eq!(advice.problem, problem);
    match advice.hint {
        Some(found) => assert!(!hint.is_empty() && found.starts_with(hint), "{text}: {found}"),
        None => assert_eq!(hint, "", "{text}"),
    }
}

#[test]
fn troubles_with_a_provider_stay_as_they_are_and_have_a_hint() {
    for (reason, hint) in [
        ("401 Unauthorized (invalid_api_key)", "`patchboard onboard` stores another key, and `patchboard reload` "),
        ("403 Forbidden", "`patchboard onboard` stores another key"),
        ("404 Not Found (model_not_found)", "the provider may not have that model"),
        ("429 Too Many Requests (insufficient_quota)", "the provider's account is used up"),
        ("429 Too Many Requests (rate_limit_error)", "the provider wants fewer calls"),
        ("connection refused (127.0.0.1:9998)", "nothing listens at the provider's address"),
        ("connection reset", ""),
        ("", ""),
    ] {
        let text = format!("provider error: {reason}");
        check(&text, &text, hint);
    }
}

#[test]
fn names_that_nothing_has_are_followed_by_those_there_are() {
    check("no agent named `toot`: did you mean `tot`?", "no agent named `toot`", "did you mean `tot`?");
    check("no agent named `bob`: there are default", "no agent named `bob`", "the only configured agent is default; ");
    check("no agent named `bob`: there are a, b", "no agent named `bob`", "the configured agents are a, b; ");
    check("no agent named `bob`", "no agent named `bob`", "`/agent` in `patchboard chat`");
    let unknown = "unknown model `gpt-9`: provider `offline` does not offer it";
    check(&format!("{unknown}; `patchboard models` lists them"), unknown, "`patchboard models` lists the models");
    let meant = "did you mean `a/b`? `patchboard models` lists all";
    check(&format!("{unknown}; did you mean `a/b`?"), unknown, meant);
    let other = "unknown model `a/b`: no provider is named `a`; there are `offline`; a model of it is written so";
    check(other, other, "`patchboard models` lists the models");
}

#[test]
fn other_refusals_say_what_to_do() {
    let spent = "token budget exceeded (daily: 230/300): this call needs about 120 tokens and 70 are left";
    let hint = "raise `budgets.daily` or wait until midnight UTC; `patchboard usage` shows what was used";
    check(&format!("{spent}; raise `budgets.daily` or wait until midnight UTC"), spent, hint);
    let folder = "working folder not found or not a directory: /nowhere";
    check(folder, folder, "make it first");
    check("run expired or unknown", "run expired or unknown", "an id is what `patchboard run --detach` printed");
    check("something else", "something else", "");
}
