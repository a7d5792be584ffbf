//! How sessions come into the table, grow old and go.

use super::*;

impl Sessions {
    /// Ends it. `Wait` while somebody else cleans up after it; `Done` when it is not for them to end. What a client
    /// left behind under a name of an earlier server goes as well.
    pub(in crate::bridge) fn close(&mut self, id: &str, who: Who<'_>) -> Opening {
        let is_known = self.by_id.get(id).map(|session| match who {
            Who::Client => session.kind == Kind::Client,
            // Told that a session is over, a worker says so in turn, and by then it may be another one.
            Who::Worker(worker) => matches!(&session.kind, Kind::Worker(owner) if *owner.0 == *worker),
        });
        match (is_known, who) {
            (Some(false), _) | (None, Who::Worker(_)) => return Opening::Done,
            (Some(true), _) => self.take_out(id),
            (None, Who::Client) if id.is_empty() || id.len() > MAX_ID => return Opening::Done,
            (None, Who::Client) => {
                let id: Arc<str> = id.into();
                let never_was = Ended { id: id.clone(), resources: 0, has_variables: true, gate: None };
                self.ending.entry(id).or_insert(Some(never_was));
            }
        }
        match self.ending.get_mut(id).and_then(Option::take) {
            Some(ended) => Opening::After(ended),
            None => Opening::Wait,
        }
    }

    /// Takes out those nobody used for too long and says how many that are.
    pub(in crate::bridge) fn expire(&mut self, now: Instant) -> usize {
        let ttl = self.ttl;
        let old = self.by_id.iter().filter(|(_, session)| !session.is_alive(now, ttl));
        let old: Vec<Arc<str>> = old.map(|(id, _)| id.clone()).collect();
        for id in &old {
            self.take_out(id);
        }
        old.len()
    }

    /// The names of those that are over and that nobody cleans up yet.
    pub(in crate::bridge) fn over(&self) -> Vec<Arc<str>> {
        self.ending.iter().filter(|(_, ended)| ended.is_some()).map(|(id, _)| id.clone()).collect()
    }

    /// To be cleaned up now, unless somebody does already.
    pub(in crate::bridge) fn take_over(&mut self, id: &str) -> Option<Ended> {
        self.ending.get_mut(id)?.take()
    }

    /// Nothing is left of it: the name is free.
    pub(in crate::bridge) fn cleaned_up(&mut self, id: &str) {
        self.ending.remove(id);
    }

    /// Something is left of it: the next one who comes by goes on.
    pub(in crate::bridge) fn left_over(&mut self, ended: Ended) {
        self.ending.insert(ended.id.clone(), Some(ended));
    }

    /// A session nobody used for too long is gone, taken out or not.
    pub(super) fn reach(&mut self, id: &str, who: Who<'_>, now: Instant) -> Option<(Arc<str>, &mut Session)> {
        let ttl = self.ttl;
        let id = self.by_id.get_key_value(id)?.0.clone();
        let session = self.by_id.get_mut(&id)?;
        (session.is_alive(now, ttl) && session.is_for(who)).then_some((id, session))
    }

    pub(super) fn insert(
        &mut self,
        id: &Arc<str>,
        kind: Kind,
        place: Place,
        at: Timestamp,
        now: Instant,
    ) -> &mut Session {
        if kind == Kind::Client {
            self.clients += 1;
        }
        self.opened += 1;
        let session = Session {
            kind,
            opener: None,
            place,
            nesting: None,
            metadata: BTreeMap::new(),
            config: SessionConfig::default(),
            created_at: at,
            used_at: now,
            busy: 0,
            number: SessionNo(self.opened),
            gate: Arc::default(),
            tools: BTreeMap::new(),
        };
        self.by_id.entry(id.clone()).insert_entry(session).into_mut()
    }

    /// From here on it is nobody's; the server's own tools that are at work in it are stopped.
    pub(super) fn take_out(&mut self, id: &str) {
        let Some((id, session)) = self.by_id.remove_entry(id) else { return };
        if let Some(opener) = &session.opener {
            self.shares.take(opener);
        }
        match &session.kind {
            Kind::Client => self.clients -= 1,
            Kind::Worker(worker) => drop(self.own.remove(worker)),
            Kind::Agent => drop(self.stand_ins.remove(&session.place.session)),
        }
        session.gate.stop.cancel();
        session.gate.calls.close();
        let resources = session.tools.len() + 1;
        let has_variables = session.kind != Kind::Agent;
        self.ending.insert(id.clone(), Some(Ended { id, resources, has_variables, gate: Some(session.gate) }));
    }

    /// Those in use stay, however many that are; the number of calls is bounded elsewhere.
    pub(super) fn make_room(&mut self) {
        if self.by_id.len() - self.clients < MAX_INNER {
            return;
        }
        let idle = self.by_id.iter().filter(|(_, session)| session.kind != Kind::Client && session.busy == 0);
        let mut idle: Vec<(Instant, Arc<str>)> = idle.map(|(id, session)| (session.used_at, id.clone())).collect();
        // Some at once: looking for them takes time.
        let some = idle.len().min(MAX_INNER / 100);
        if some > 0 && some < idle.len() {
            idle.select_nth_unstable(some - 1);
        }
        for (_, id) in idle.iter().take(some) {
            self.take_out(id);
        }
    }
}

impl Session {
    pub(super) fn is_alive(&self, now: Instant, ttl: Duration) -> bool {
        self.busy > 0 || now.saturating_duration_since(self.used_at) < ttl
    }

    pub(super) fn is_for(&self, who: Who<'_>) -> bool {
        match (&self.kind, who) {
            (Kind::Client, _) | (Kind::Agent, Who::Worker(_)) => true,
            (Kind::Worker(owner), Who::Worker(worker)) => *owner.0 == *worker,
            (Kind::Agent | Kind::Worker(_), Who::Client) => false,
        }
    }

    /// What a worker does keeps nobody's session but its own.
    pub(super) fn use_by(&mut self, who: Who<'_>, now: Instant) {
        let counts = match who {
            Who::Client => true,
            Who::Worker(_) => matches!(self.kind, Kind::Worker(_)),
        };
        if counts {
            self.used_at = now;
        }
    }

    pub(super) fn go_on(&mut self, wanted: &OpenSession, now: Instant) {
        if !wanted.metadata.is_empty() {
            self.metadata.clone_from(&wanted.metadata);
        }
        self.config = wanted.config.unwrap_or(self.config);
        self.used_at = now;
    }
}
