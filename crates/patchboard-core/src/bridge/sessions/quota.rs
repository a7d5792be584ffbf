//! Session quotas per client, so that one of them cannot fill the table.

use std::collections::HashMap;
use std::sync::Arc;

use crate::caller::{Caller, Grant};
use crate::error::{BoardError, ErrorKind};
use crate::id::ConnectionId;

/// The client that opened a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::bridge) struct SessionOpener {
    principal: Arc<str>,
    connection: ConnectionId,
    /// Operators are exempt, so that clients cannot lock them out.
    is_operator: bool,
}

#[derive(Debug, Default)]
pub(super) struct SessionQuota {
    connections: HashMap<ConnectionId, usize>,
    principals: HashMap<Arc<str>, usize>,
}

impl SessionOpener {
    pub(in crate::bridge) fn of(caller: &Caller) -> Self {
        Self {
            principal: caller.principal.text(),
            connection: caller.connection,
            is_operator: caller.grants.has(Grant::Operate),
        }
    }
}

impl SessionQuota {
    /// A connection may have three quarters of `max` open, all connections of a principal nine tenths.
    pub(super) fn check(&self, opener: &SessionOpener, max: usize) -> Result<(), BoardError> {
        if opener.is_operator {
            return Ok(());
        }
        let (of_connection, of_principal) = (max - max / 4, max - max / 10);
        let open = self.connections.get(&opener.connection).copied().unwrap_or(0);
        if open >= of_connection {
            return Err(exceeded(open, "this connection has"));
        }
        let open = self.principals.get(&opener.principal).copied().unwrap_or(0);
        if open >= of_principal {
            return Err(exceeded(open, "clients like this one have"));
        }
        Ok(())
    }

    pub(super) fn add(&mut self, opener: &SessionOpener) {
        *self.connections.entry(opener.connection).or_default() += 1;
        *self.principals.entry(opener.principal.clone()).or_default() += 1;
    }

    pub(super) fn release(&mut self, opener: &SessionOpener) {
        decrement(&mut self.connections, &opener.connection);
        decrement(&mut self.principals, &opener.principal);
    }
}

fn exceeded(open: usize, subject: &str) -> BoardError {
    let message =
        format!("session_quota_exceeded: {subject} {open} sessions open, the rest is kept for others: close some");
    BoardError::new(ErrorKind::Exhausted, message)
}

fn decrement<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
