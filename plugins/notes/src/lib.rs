//! Notes that agents keep in a store of the server. Needs the grant `store:notes`.
//!
//! A note is a value under its title, so that a title names one note and listing is the store's own order.

mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "tool-plugin" });
}
mod request;

use bindings::exports::patchboard::plugin::tools::{Guest, Output, Tool};
use bindings::patchboard::plugin::settings;
use bindings::patchboard::plugin::store::{self, StoreError};

use request::{Listing, Request};

struct Notes;

impl Guest for Notes {
    fn describe() -> Vec<Tool> {
        let tools = request::TOOLS.iter();
        tools
            .map(|(name, description, schema, changes)| Tool {
                name: (*name).to_owned(),
                description: (*description).to_owned(),
                input_schema: (*schema).to_owned(),
                read_only: *changes == request::Changes::Nothing,
            })
            .collect()
    }

    fn call(name: String, arguments: String) -> Output {
        match Request::parse(&name, &arguments).and_then(|request| answer(&request)) {
            Ok(content) => Output { content, is_error: false },
            Err(content) => Output { content, is_error: true },
        }
    }
}

bindings::export!(Notes with_types_in bindings);

fn answer(request: &Request) -> Result<String, String> {
    let store = settings::get("store").unwrap_or_else(|| request::DEFAULT_STORE.to_owned());
    let failed = |error| sentence(&store, error);
    match request {
        Request::Add { title, text } => {
            let replaced = store::get(&store, title).map_err(failed)?.is_some();
            store::set(&store, title, text.as_bytes()).map_err(failed)?;
            Ok(request::added(title, replaced))
        }
        Request::Get { title } => {
            let found = store::get(&store, title).map_err(failed)?;
            found.map(|value| String::from_utf8_lossy(&value).into_owned()).ok_or_else(|| request::no_note(title))
        }
        Request::List { prefix } => {
            let mut listing = Listing::default();
            while let Some(after) = listing.next_page() {
                listing.add(store::keys(&store, prefix, after.as_deref()).map_err(failed)?);
            }
            Ok(listing.in_json())
        }
        Request::Delete { title } => {
            if store::get(&store, title).map_err(failed)?.is_none() {
                return Err(request::no_note(title));
            }
            store::delete(&store, title).map_err(failed)?;
            Ok(request::deleted(title))
        }
    }
}

fn sentence(store: &str, error: StoreError) -> String {
    match error {
        StoreError::Denied(why) => {
            format!("this plugin may not use the store `{store}` ({why}); the operator can grant `store:{store}`")
        }
        StoreError::Full(why) => format!("the note does not fit: {why}"),
        StoreError::Failed(why) => format!("the store failed: {why}"),
    }
}
