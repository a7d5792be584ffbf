//! How sessions enter the table, expire and leave it.

use super::*;

impl SessionTable {
    /// Ends a session. `WaitForCleanup` while another task cleans it up; `Done` if the caller must not end it. Data
    /// that a client left under the id in an earlier process is deleted too.
    pub(in crate::bridge) fn close(&mut self, id: &str, caller: BridgeCaller<'_>) -> SessionTransition {
        let is_known = self.by_id.get(id).map(|session| match caller {
            BridgeCaller::Client => session.kind == SessionKind::Client,
            // Workers echo the close of a session, by which time the id may belong to another one.
            BridgeCaller::Worker(worker) => matches!(&session.kind, SessionKind::Worker(owner) if *owner.0 == *worker),
        });
        match (is_known, caller) {
            (Some(false), _) | (None, BridgeCaller::Worker(_)) => return SessionTransition::Done,
            (Some(true), _) => self.remove_session(id),
            (None, BridgeCaller::Client) if id.is_empty() || id.len() > MAX_ID => return SessionTransition::Done,
            (None, BridgeCaller::Client) => {
                let id: Arc<str> = id.into();
                let unknown_session = EndedSession { id: id.clone(), resources: 0, has_variables: true, tasks: None };
                self.ending.entry(id).or_insert(Some(unknown_session));
            }
        }
        match self.ending.get_mut(id).and_then(Option::take) {
            Some(ended) => SessionTransition::CleanUpFirst(ended),
            None => SessionTransition::WaitForCleanup,
        }
    }

    /// Removes expired sessions and returns their number.
    pub(in crate::bridge) fn expire(&mut self, now: Instant) -> usize {
        let ttl = self.ttl;
        let expired = self.by_id.iter().filter(|(_, session)| !session.is_alive(now, ttl));
        let expired: Vec<Arc<str>> = expired.map(|(id, _)| id.clone()).collect();
        for id in &expired {
            self.remove_session(id);
        }
        expired.len()
    }

    /// Ids of ended sessions that no task is cleaning up.
    pub(in crate::bridge) fn ended_ids(&self) -> Vec<Arc<str>> {
        self.ending.iter().filter(|(_, ended)| ended.is_some()).map(|(id, _)| id.clone()).collect()
    }

    /// Claims the cleanup of a session; `None` if another task has it.
    pub(in crate::bridge) fn claim_cleanup(&mut self, id: &str) -> Option<EndedSession> {
        self.ending.get_mut(id)?.take()
    }

    /// Cleanup is complete: the id is free.
    pub(in crate::bridge) fn finish_cleanup(&mut self, id: &str) {
        self.ending.remove(id);
    }

    /// Cleanup was interrupted: the next task continues it.
    pub(in crate::bridge) fn requeue_cleanup(&mut self, ended: EndedSession) {
        self.ending.insert(ended.id.clone(), Some(ended));
    }

    /// An expired session counts as missing, removed from the table or not.
    pub(super) fn find_accessible(
        &mut self,
        id: &str,
        caller: BridgeCaller<'_>,
        now: Instant,
    ) -> Option<(Arc<str>, &mut BridgeSession)> {
        let ttl = self.ttl;
        let id = self.by_id.get_key_value(id)?.0.clone();
        let session = self.by_id.get_mut(&id)?;
        (session.is_alive(now, ttl) && session.is_accessible_to(caller)).then_some((id, session))
    }

    pub(super) fn insert(
        &mut self,
        id: &Arc<str>,
        kind: SessionKind,
        scope: SessionScope,
        at: Timestamp,
        now: Instant,
    ) -> &mut BridgeSession {
        if kind == SessionKind::Client {
            self.client_sessions += 1;
        }
        self.opened += 1;
        let session = BridgeSession {
            kind,
            opener: None,
            scope,
            call_chain: None,
            metadata: BTreeMap::new(),
            config: SessionConfig::default(),
            created_at: at,
            used_at: now,
            active_calls: 0,
            serial: SessionSerial(self.opened),
            tasks: Arc::default(),
            tools: BTreeMap::new(),
        };
        self.by_id.entry(id.clone()).insert_entry(session).into_mut()
    }

    /// Removes the session from the table and cancels the built-in tools that run in it.
    pub(super) fn remove_session(&mut self, id: &str) {
        let Some((id, session)) = self.by_id.remove_entry(id) else { return };
        if let Some(opener) = &session.opener {
            self.quota.release(opener);
        }
        match &session.kind {
            SessionKind::Client => self.client_sessions -= 1,
            SessionKind::Worker(worker) => drop(self.worker_sessions.remove(worker)),
            SessionKind::Agent => drop(self.agent_sessions.remove(&session.scope.session)),
        }
        session.tasks.stop.cancel();
        session.tasks.tracker.close();
        let resources = session.tools.len() + 1;
        let has_variables = session.kind != SessionKind::Agent;
        self.ending.insert(id.clone(), Some(EndedSession { id, resources, has_variables, tasks: Some(session.tasks) }));
    }

    /// Ends idle internal sessions past the bound. Sessions in use stay, whatever their number; calls are bounded
    /// elsewhere.
    pub(super) fn evict_idle(&mut self) {
        if self.by_id.len() - self.client_sessions < MAX_INTERNAL_SESSIONS {
            return;
        }
        let idle =
            self.by_id.iter().filter(|(_, session)| session.kind != SessionKind::Client && session.active_calls == 0);
        let mut idle: Vec<(Instant, Arc<str>)> = idle.map(|(id, session)| (session.used_at, id.clone())).collect();
        // Several at once, since the search is expensive.
        let count = idle.len().min(MAX_INTERNAL_SESSIONS / 100);
        if count > 0 && count < idle.len() {
            idle.select_nth_unstable(count - 1);
        }
        for (_, id) in idle.iter().take(count) {
            self.remove_session(id);
        }
    }
}

impl BridgeSession {
    pub(super) fn is_alive(&self, now: Instant, ttl: Duration) -> bool {
        self.active_calls > 0 || now.saturating_duration_since(self.used_at) < ttl
    }

    pub(super) fn is_accessible_to(&self, caller: BridgeCaller<'_>) -> bool {
        match (&self.kind, caller) {
            (SessionKind::Client, _) | (SessionKind::Agent, BridgeCaller::Worker(_)) => true,
            (SessionKind::Worker(owner), BridgeCaller::Worker(worker)) => *owner.0 == *worker,
            (SessionKind::Agent | SessionKind::Worker(_), BridgeCaller::Client) => false,
        }
    }

    /// A worker's calls keep no session alive but its own.
    pub(super) fn record_use(&mut self, caller: BridgeCaller<'_>, now: Instant) {
        let counts_as_use = match caller {
            BridgeCaller::Client => true,
            BridgeCaller::Worker(_) => matches!(self.kind, SessionKind::Worker(_)),
        };
        if counts_as_use {
            self.used_at = now;
        }
    }

    pub(super) fn refresh(&mut self, request: &OpenSession, now: Instant) {
        if !request.metadata.is_empty() {
            self.metadata.clone_from(&request.metadata);
        }
        self.config = request.config.unwrap_or(self.config);
        self.used_at = now;
    }
}
