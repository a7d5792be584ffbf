//! HTTP as model APIs use it: where they are, how they are asked, and what their failures mean. Knows no model API.

mod address;
mod api_client;
mod failure;
mod response_stream;

pub(crate) use self::address::ApiRoot;
pub(crate) use self::api_client::{ApiClient, ApiClientOptions, ApiRequest, answering_event};
pub(crate) use self::failure::stream_error;
