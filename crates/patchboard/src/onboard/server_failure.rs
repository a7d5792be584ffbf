//! What went wrong when a server was asked, and what to do next, in words for the person who typed its address and key.

use patchboard_core::model::ModelError;

/// Why something could not be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerFailure {
    pub what: String,
    pub next: String,
}

/// A question to a server, as far as it decides what a failure means.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerQuery<'a> {
    /// Host and port.
    pub host: &'a str,
    pub address: &'a str,
    pub with_key: bool,
}

/// What came of asking for the list of models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ModelListFailure {
    /// The server answers, but has no such list: the model's name must be typed, and one call shows whether it is right.
    NotOffered,
    Failed(ServerFailure),
}

pub(super) fn list_failure(query: ServerQuery<'_>, error: &ModelError) -> ModelListFailure {
    match status(error) {
        Some(404 | 405 | 501) => ModelListFailure::NotOffered,
        Some(_) | None => ModelListFailure::Failed(request_failure(query, error)),
    }
}

pub(super) fn empty_list_failure(query: ServerQuery<'_>) -> ServerFailure {
    ServerFailure {
        what: format!("{} answers, but has no models", query.host),
        next: "load one there first (with Ollama: `ollama pull NAME`)".to_owned(),
    }
}

/// Of the call that tries a model out.
pub(super) fn trial_failure(query: ServerQuery<'_>, model: &str, error: &ModelError) -> ServerFailure {
    match status(error) {
        Some(404) => ServerFailure {
            what: format!("{} knows no model `{model}` at {} ({error})", query.host, query.address),
            next: "check the model's name, and that the address is the root of the API, such as https://api.example.com/v1"
                .to_owned(),
        },
        Some(400 | 422) => ServerFailure {
            what: format!("{} does not take the model `{model}` ({error})", query.host),
            next: "check the model's name".to_owned(),
        },
        Some(_) | None => request_failure(query, error),
    }
}

fn request_failure(query: ServerQuery<'_>, error: &ModelError) -> ServerFailure {
    let ServerQuery { host, address, with_key } = query;
    let (what, next) = match (status(error), error) {
        (Some(401 | 403), _) if with_key => (
            format!("{host} does not accept this key ({error})"),
            "check that the whole key was copied, and that it is one for this server",
        ),
        (Some(401 | 403), _) => (format!("{host} wants a key ({error})"), "enter one that this server has given out"),
        (Some(429), _) => (
            format!("{host} takes no requests with this key at the moment ({error})"),
            "check the account's limits and credit, or wait a little",
        ),
        (Some(300..=399), _) => (
            format!("{address} leads elsewhere ({error})"),
            "name the address it leads to, with https:// if it has one",
        ),
        (None, ModelError::Unavailable(text)) if text.contains("unreadable") => {
            (format!("what answers at {address} is not a model server"), API_ROOT_HINT)
        }
        (None, ModelError::Rejected(text)) if text.contains("instead of an event stream") => {
            (format!("what answers at {address} is not a model server ({error})"), API_ROOT_HINT)
        }
        (None, ModelError::Unavailable(text)) if text.contains("resolve") => {
            (format!("{host} cannot be found: {error}"), "check the address, and that this machine is online")
        }
        (None, ModelError::Unavailable(text)) if text.contains("TLS") => (
            format!("no secure connection to {host}: {error}"),
            "use http:// if the server has no certificate, or have this machine trust its certificate",
        ),
        (None, ModelError::Unavailable(_) | ModelError::Timeout(_)) => (
            format!("{host} cannot be reached: {error}"),
            "check that the server runs, that its address is right, and that this machine is online",
        ),
        (Some(_) | None, _) => (format!("{host} cannot be asked: {error}"), "try again later"),
    };
    ServerFailure { what, next: next.to_owned() }
}

const API_ROOT_HINT: &str = "name the root of its API, such as https://api.example.com/v1";

/// The HTTP status that an error's text begins with.
fn status(error: &ModelError) -> Option<u16> {
    let text = error.to_string();
    let (number, rest) = text.split_at_checked(3)?;
    rest.starts_with(' ').then(|| number.parse().ok()).flatten()
}
