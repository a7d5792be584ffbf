//! Parses replies that only the hub receives.

use std::any::Any;
use std::sync::Arc;

use patchboard_core::app::{AppDelivery, InputMethod};
use patchboard_core::id::MessageId;
use patchboard_core::reply::{InboxEvent, RegistrationRefusal};
use serde_json::Value;
use uuid::Uuid;

use super::{Read, text_of};

/// `None` if the keyword is not one of the hub's.
pub(super) fn answer(word: &str, json: &Value) -> Read<Option<Box<dyn Any>>> {
    let refused = |refusal| Box::new(Err::<Uuid, RegistrationRefusal>(refusal));
    Ok(Some(match word {
        "registered" => Box::new(Ok::<Uuid, RegistrationRefusal>(uuid(json)?)),
        "not_registered" => refused(match text_of(json) {
            "already" => RegistrationRefusal::AlreadyRegistered,
            "name_taken" => RegistrationRefusal::NameTaken,
            "not_approved" => RegistrationRefusal::NotApproved,
            "wrong_token" => RegistrationRefusal::WrongToken,
            other => return Err(format!("no app is refused because of `{other}`")),
        }),
        "deliver" => Box::new(InboxEvent::Deliver(Arc::new(delivery(json)?))),
        "prove" => Box::new(InboxEvent::ProveAlive),
        _ => return Ok(None),
    }))
}

fn delivery(json: &Value) -> Read<AppDelivery> {
    #[expect(clippy::cast_possible_truncation, reason = "transcripts write few digits")]
    let confidence = json["confidence"].as_f64().map(|number| number as f32);
    Ok(AppDelivery {
        message: MessageId(uuid(&json["message"])?),
        text: text_of(&json["text"]).into(),
        at: text_of(&json["at"]).parse().map_err(|error| format!("{error}: {json}"))?,
        input: if text_of(&json["input"]) == "voice" { InputMethod::Voice } else { InputMethod::Text },
        confidence,
        is_direct: json["direct"].as_bool().unwrap_or(false),
        routing_reason: json["reason"].as_str().map(Into::into),
    })
}

fn uuid(json: &Value) -> Read<Uuid> {
    text_of(json).parse().map_err(|error| format!("{error}: {json}"))
}
