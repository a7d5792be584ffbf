//! Which server is meant: a vendor's, or any other that speaks the OpenAI API.

use patchboard_config::env::{ANTHROPIC_API_KEY, OPENAI_API_KEY};
use patchboard_config::section::ProviderKind;
use patchboard_config::url;
use tokio_tungstenite::tungstenite::http::Uri;

use super::OnboardError;

/// Where Ollama listens unless told otherwise.
const OLLAMA_ROOT: &str = "http://127.0.0.1:11434/v1";
const OLLAMA: &str = "ollama";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vendor {
    Anthropic,
    Openai,
}

impl Vendor {
    pub(super) const ALL: [Self; 2] = [Self::Anthropic, Self::Openai];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Openai => "openai",
        }
    }

    const fn host(self) -> &'static str {
        match self {
            Self::Anthropic => "api.anthropic.com",
            Self::Openai => "api.openai.com",
        }
    }
}

/// What was chosen, before its address is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServerChoice {
    Vendor(Vendor),
    /// Any server that speaks the OpenAI API, by the name it gets in the configuration.
    Other {
        name: Option<String>,
        address: Option<String>,
    },
}

impl ServerChoice {
    /// `text` is a vendor, an address, or a name for a server whose address is said elsewhere.
    pub(super) fn parse(text: &str, base_url: Option<&str>) -> Result<Self, OnboardError> {
        let text = text.trim();
        if let Some(vendor) = Vendor::ALL.into_iter().find(|vendor| vendor.name().eq_ignore_ascii_case(text)) {
            return Ok(Self::Vendor(vendor));
        }
        if text.contains("://") {
            return Self::at(text);
        }
        if text.eq_ignore_ascii_case(OLLAMA) {
            return Ok(Self::Other { name: Some(OLLAMA.to_owned()), address: base_url.map(str::to_owned) });
        }
        match base_url {
            Some(address) if is_name(text) => {
                Ok(Self::Other { name: Some(text.to_owned()), address: Some(address.to_owned()) })
            }
            Some(_) | None => Err(OnboardError::UnknownProvider(text.to_owned())),
        }
    }

    /// The server at an address, which may be a vendor's own.
    pub(super) fn at(address: &str) -> Result<Self, OnboardError> {
        let address = validated_address(address)?;
        let uri: Option<Uri> = address.parse().ok();
        let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
        match Vendor::ALL.into_iter().find(|vendor| vendor.host().eq_ignore_ascii_case(host)) {
            Some(vendor) => Ok(Self::Vendor(vendor)),
            None => Ok(Self::Other { name: None, address: Some(address) }),
        }
    }

    pub(super) fn kind(&self) -> ProviderKind {
        match self {
            Self::Vendor(Vendor::Anthropic) => ProviderKind::Anthropic,
            Self::Vendor(Vendor::Openai) | Self::Other { .. } => ProviderKind::Openai,
        }
    }

    /// The variable whose key wins over a stored one.
    pub(super) fn key_variable(&self) -> Option<&'static str> {
        match self {
            Self::Vendor(Vendor::Anthropic) => Some(ANTHROPIC_API_KEY),
            Self::Vendor(Vendor::Openai) => Some(OPENAI_API_KEY),
            Self::Other { .. } => None,
        }
    }

    /// What to offer where the address has to be asked for.
    pub(super) fn usual_address(&self) -> &'static str {
        match self {
            Self::Other { name: Some(name), .. } if name == OLLAMA => OLLAMA_ROOT,
            Self::Vendor(_) | Self::Other { .. } => "",
        }
    }

    /// The provider's name in the configuration.
    pub(super) fn name(&self, address: Option<&str>) -> String {
        match self {
            Self::Vendor(vendor) => vendor.name().to_owned(),
            Self::Other { name: Some(name), .. } => name.clone(),
            Self::Other { name: None, .. } => name_from_address(address.unwrap_or_default()),
        }
    }

    /// What people call it.
    pub(super) fn title(&self, address: Option<&str>) -> String {
        match self {
            Self::Vendor(Vendor::Anthropic) => "Anthropic".to_owned(),
            Self::Vendor(Vendor::Openai) => "OpenAI".to_owned(),
            Self::Other { .. } => address.map_or_else(|| self.name(address), host_of),
        }
    }
}

pub(super) fn validated_address(address: &str) -> Result<String, OnboardError> {
    let address = address.trim().to_owned();
    match url::invalid_reason(&address) {
        Some(complaint) => Err(OnboardError::BadUrl(complaint.message)),
        None => Ok(address),
    }
}

/// Host and port as written.
pub(super) fn host_of(address: &str) -> String {
    let uri: Option<Uri> = address.parse().ok();
    uri.and_then(|uri| Some(uri.authority()?.as_str().to_owned())).unwrap_or_else(|| address.to_owned())
}

/// A name for the server at an address: `https://api.mistral.ai/v1` is `mistral`, a server on this machine
/// `server-8000` by its port.
fn name_from_address(address: &str) -> String {
    let uri: Option<Uri> = address.parse().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default().to_lowercase();
    let port = uri.as_ref().and_then(Uri::port_u16);
    let is_number = host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok();
    let labels: Vec<&str> = host.split('.').filter(|label| !label.is_empty()).collect();
    let own = match labels.as_slice() {
        _ if is_number => None,
        // `co.uk` and the like: the label before is the owner's.
        [.., owner, second, _] if second.len() <= 3 => Some(*owner),
        [.., owner, _] => Some(*owner),
        [single] if *single != "localhost" => Some(*single),
        _ => None,
    };
    let own = own.map(|label| label.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect::<String>());
    let vendors_name =
        |name: &String| Vendor::ALL.iter().any(|vendor| vendor.name() == name) || name == "offline" || name == "local";
    match own.filter(|name| is_name(name)) {
        Some(name) if vendors_name(&name) => format!("{name}-server"),
        Some(name) => name,
        None => port.map_or_else(|| "server".to_owned(), |port| format!("server-{port}")),
    }
}

fn is_name(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}
