//! Host functions that call the server's tools on behalf of the plugin's caller.

use patchboard_core::text::cut;
use serde_json::Value;

use super::until_deadline;
use crate::state::CallState;
use crate::text::quote_untrusted;
use crate::world::patchboard::plugin::host_functions::{CallError, Host};

const MAX_ARGUMENTS_BYTES: usize = 1024 * 1024;
/// Longer results are truncated.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

impl Host for CallState {
    async fn call(&mut self, name: String, arguments: String) -> wasmtime::Result<Result<String, CallError>> {
        self.begin_host_call().await?;
        if !self.rights.functions.iter().any(|granted| **granted == *name) {
            let (name, grant) = (quote_untrusted(&name), format!("host-function:{}", quote_untrusted(&name)));
            let reason = self.rights.denial_message(&format!("host function `{name}`"), &grant);
            return Ok(Err(CallError::Denied(self.log_refusal(&grant, reason))));
        }
        let Some(functions) = self.functions.clone() else {
            let reason =
                format!("host function `{name}` is not available here: it needs the call of a tool to work for");
            return Ok(Err(CallError::Denied(self.log_refusal(&name, reason))));
        };
        let arguments = match read_arguments(&arguments) {
            Ok(arguments) => arguments,
            Err(reason) => return Ok(Err(CallError::Failed(reason))),
        };
        // The drop guard cancels the tool if the guest ends, for whatever reason.
        let stop = self.stop.child_token();
        let _stop_guard = stop.clone().drop_guard();
        let (deadline, cancelled) = (self.deadline, self.stop.clone());
        let output = self
            .release_slot_while(until_deadline(deadline, &cancelled, functions.call(&name, arguments, stop)))
            .await?;
        let content = cut(&output.content, MAX_ANSWER_BYTES).to_owned();
        Ok(match output.is_error {
            true => Err(CallError::Failed(content)),
            false => Ok(content),
        })
    }
}

fn read_arguments(text: &str) -> Result<Value, String> {
    if text.len() > MAX_ARGUMENTS_BYTES {
        return Err(format!("the arguments are longer than {MAX_ARGUMENTS_BYTES} bytes"));
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => Ok(Value::Object(arguments)),
        Ok(_) => Err("the arguments are not a JSON object".to_owned()),
        Err(error) => Err(format!("the arguments are not JSON: {error}")),
    }
}
