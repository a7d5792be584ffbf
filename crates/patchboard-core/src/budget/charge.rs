//! How many tokens a model call is charged, however it ended.

use crate::model::TokenCount;

/// What was received of a model call when it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReceivedAnswer {
    /// The provider's own figures, final only if the answer is complete.
    pub(crate) usage: Option<TokenCount>,
    /// The stream came to its regular end.
    pub(crate) is_complete: bool,
    /// Some part of an answer arrived.
    pub(crate) has_content: bool,
    /// The server stopped waiting, so the provider may have worked on it all the same.
    pub(crate) is_abandoned: bool,
    /// Estimates of what was sent and of what was received.
    pub(crate) estimated_input: u64,
    pub(crate) estimated_output: u64,
}

impl ReceivedAnswer {
    /// A call that failed before any answer costs nothing: providers do not bill it. An incomplete answer is estimated,
    /// because its reported usage is partial at best.
    pub(crate) fn charged_tokens(&self) -> TokenCount {
        match (self.usage, self.is_complete) {
            (Some(usage), true) => usage,
            _ if !self.has_content && !self.is_abandoned => TokenCount::default(),
            (partial, _) => {
                let partial = partial.unwrap_or_default();
                let input = if partial.input > 0 { partial.input } else { self.estimated_input };
                TokenCount { input, output: self.estimated_output.max(partial.output) }
            }
        }
    }
}

#[cfg(test)]
mod tests;
