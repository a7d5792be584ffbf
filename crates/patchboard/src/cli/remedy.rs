//! Hints for errors reported by a server. Pure; programs that use `--json` get the server's own text.

/// A problem and a hint, one line each. Advice in the server's text is moved into the hint.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ErrorAdvice {
    pub(crate) problem: String,
    pub(crate) hint: Option<String>,
}

const PROVIDER: &str = "provider error: ";
const MEANT: &str = "did you mean ";
const MODELS: &str = "`patchboard models` lists the models, and `patchboard onboard` adds a provider";

pub(crate) fn advise(problem: &str) -> ErrorAdvice {
    if let Some(reason) = problem.strip_prefix(PROVIDER) {
        return ErrorAdvice { problem: problem.to_owned(), hint: provider_hint(reason).map(str::to_owned) };
    }
    if problem.starts_with("no agent named `") {
        return match problem.split_once("`: ") {
            Some((problem, rest)) => ErrorAdvice { problem: format!("{problem}`"), hint: Some(agent_hint(rest)) },
            None => advice(problem, "`/agent` in `patchboard chat` shows the agents"),
        };
    }
    if problem.starts_with("unknown model `") {
        return match problem.rsplit_once("; ") {
            Some((problem, meant)) if meant.starts_with(MEANT) => {
                advice(problem, &format!("{meant} `patchboard models` lists all"))
            }
            Some((problem, "`patchboard models` lists them")) => advice(problem, MODELS),
            Some(_) | None => advice(problem, MODELS),
        };
    }
    if problem.starts_with("token budget exceeded ") {
        let usage = "`patchboard usage` shows what was used";
        return match problem.rsplit_once("; raise ") {
            Some((problem, remedy)) => advice(problem, &format!("raise {remedy}; {usage}")),
            None => advice(problem, usage),
        };
    }
    if problem.starts_with("working folder not found or not a directory") {
        return advice(
            problem,
            "make it first, or name one that is there with --working-folder, on the server's machine",
        );
    }
    if problem == "run expired or unknown" {
        return advice(
            problem,
            "an id is what `patchboard run --detach` printed or `run --id` chose; runs that ended are kept for a while only",
        );
    }
    ErrorAdvice { problem: problem.to_owned(), hint: None }
}

fn advice(problem: &str, hint: &str) -> ErrorAdvice {
    ErrorAdvice { problem: problem.to_owned(), hint: Some(hint.to_owned()) }
}

fn agent_hint(rest: &str) -> String {
    const WAYS: &str = "react, dup, tot and got are for `patchboard run`";
    match rest.strip_prefix("there are ") {
        Some(all) if all.contains(", ") => format!("the configured agents are {all}; {WAYS}"),
        Some(one) => format!("the only configured agent is {one}; {WAYS}"),
        None => rest.to_owned(),
    }
}

/// By the status code of a provider's response, or the kind of connection failure.
fn provider_hint(reason: &str) -> Option<&'static str> {
    let status = reason.split(' ').next().unwrap_or_default();
    match status {
        "401" | "403" => Some(
            "`patchboard onboard` stores another key, and `patchboard reload` has a running server take it over; \
             `patchboard doctor` checks it",
        ),
        "404" => Some(
            "the provider may not have that model, or not at that address: `patchboard models` lists what it has, \
             `patchboard onboard` chooses another",
        ),
        "429" if reason.contains("quota") => {
            Some("the provider's account is used up: pay there, or choose another provider with `patchboard onboard`")
        }
        "429" => Some("the provider wants fewer calls: wait a while, or choose another model from `patchboard models`"),
        _ if reason.starts_with("connection refused") => Some(
            "nothing listens at the provider's address: start its server, or correct the address with `patchboard \
             onboard`; `patchboard doctor` checks it",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
