//! The tenure of this process: whether it may still act on the work it began. Another process that takes the work over
//! has ended the tenure first, so what this one still sends to the store is refused; here it learns not to act any more.

use tokio_util::sync::CancellationToken;

use crate::error::BoardError;
use crate::id::TenureId;
use crate::store::StoreError;

#[derive(Debug)]
pub struct Tenure {
    id: TenureId,
    lost: CancellationToken,
}

impl Tenure {
    pub fn new(id: TenureId) -> Self {
        Self { id, lost: CancellationToken::new() }
    }

    pub fn id(&self) -> TenureId {
        self.id
    }

    /// Must be asked right before every effect outside of the store: a model call, a tool, a message that is sent.
    pub fn may_act(&self) -> Result<(), BoardError> {
        if self.lost.is_cancelled() { Err(StoreError::Fenced.into()) } else { Ok(()) }
    }

    /// Cancelled when the tenure has ended.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Notes that the store refused a write of this tenure.
    pub fn observe(&self, error: &StoreError) {
        if matches!(error, StoreError::Fenced) && !self.lost.is_cancelled() {
            tracing::error!(tenure = %self.id, "another process has taken over this one's work; it stops working on it");
            self.lost.cancel();
        }
    }
}

#[cfg(test)]
mod tests;
