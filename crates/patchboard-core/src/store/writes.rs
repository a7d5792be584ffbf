//! Writes: batches, each one transaction.

use std::sync::Arc;

use jiff::Timestamp;

use super::*;

#[derive(Debug, Clone)]
pub struct WriteBatch {
    pub durability: Durability,
    pub key: OrderKey,
    /// The tenure in which the work began whose effects these are; `None` for the store's present one.
    pub tenure: Option<TenureId>,
    pub writes: Vec<StoreWrite>,
}

impl WriteBatch {
    /// The key is that of the first write that has one.
    pub fn new(durability: Durability, writes: Vec<StoreWrite>) -> Self {
        let key = writes.iter().map(StoreWrite::order_key).find(|key| *key != OrderKey::None).unwrap_or_default();
        Self { durability, key, tenure: None, writes }
    }

    pub fn boundary(writes: Vec<StoreWrite>) -> Self {
        Self::new(Durability::Boundary, writes)
    }

    pub fn delta(writes: Vec<StoreWrite>) -> Self {
        Self::new(Durability::Delta, writes)
    }

    #[must_use]
    pub fn of_tenure(self, tenure: TenureId) -> Self {
        Self { tenure: Some(tenure), ..self }
    }
}

/// What the order of batches is promised for. A store may apply batches of different keys in any order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum OrderKey {
    #[default]
    None,
    Topic(Topic),
    Namespace(KvNamespace),
    Delivery(DeliveryId),
    Session(SessionKey),
}

/// Ordered: a group commit uses the strictest level of its batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// For text and argument chunks: survives the end of the process.
    Delta,
    /// For everything a client may act on: survives a power failure.
    Boundary,
}

#[derive(Debug, Clone)]
pub enum StoreWrite {
    Event(Arc<Envelope>),
    /// A run was accepted. Creates its session or marks it used (and no longer cleared).
    OpenRun(RunRow),
    CloseRun {
        run: RunId,
        outcome: RunOutcome,
        at: Timestamp,
    },
    /// What a client asked for of a running run; refused as `Conflict` if the run does not run. Whoever works on the run,
    /// now or after a takeover, honours it.
    RequestOfRun {
        run: RunId,
        request: RunRequestKind,
    },
    /// A model call is about to start; its tokens are reserved until it is settled.
    OpenModelCall(ModelCallRow),
    /// A run waits for this. Deleted with `CloseInput`, and when its run ends.
    OpenInput(InputRow),
    /// Refused as `Conflict` unless the input is open, has no answer, and has not expired at that time. The first answer
    /// wins.
    AnswerInput {
        input: InputId,
        answer: InputAnswer,
        by: Arc<str>,
        at: Timestamp,
    },
    /// The run has taken note of the answer.
    CloseInput(InputId),
    /// Closes the model call with the same id and adds its tokens to each of its scopes.
    SettleModelCall(UsageRow),
    AddTurn(NewTurn),
    /// Supersedes the owner's current fact with the same subject and predicate, which stays stored. A fact equal to the
    /// current one changes nothing.
    LearnFact(NewFact),
    /// Hides all turns so far; with `purge`, deletes the session with its turns, runs and events instead.
    ClearSession {
        session: SessionKey,
        at: Timestamp,
        purge: bool,
    },
    /// Deletes a fact with everything it superseded. A fact that is not the owner's is left alone.
    ForgetFact {
        owner: MemoryOwner,
        fact: u64,
    },
    /// Does nothing to a session that does not exist.
    RenameSession {
        session: SessionKey,
        title: Arc<str>,
    },
    /// Leaves the session out of lists, or puts it back.
    HideSession {
        session: SessionKey,
        hidden: bool,
    },
    /// Creates a session with the visible turns of another one, up to a turn.
    ForkSession(NewFork),
    Audit(AuditRow),
    /// The message's state, as derived from its events; the first write creates the row.
    Message(MessageRow),
    /// Replaces the value under that key; `None` deletes it.
    PutValue {
        namespace: KvNamespace,
        key: Arc<str>,
        value: Option<Vec<u8>>,
        /// Refuses the batch as `Conflict` unless the value is of this version.
        expected: ExpectedVersion,
        /// The new version, if the writer has to know it: it must be one that this key never had. Otherwise the store
        /// chooses one.
        version: Option<u64>,
        at: Timestamp,
    },
    /// Creates or updates a delivery. A second delivery with the same channel and key is refused.
    Delivery(DeliveryRow),
}

impl StoreWrite {
    /// Replaces a value, whatever its version.
    pub fn put(namespace: KvNamespace, key: Arc<str>, value: Option<Vec<u8>>, at: Timestamp) -> Self {
        Self::PutValue { namespace, key, value, expected: ExpectedVersion::Any, version: None, at }
    }

    /// Replaces a value of the given version, or refuses the batch.
    #[must_use]
    pub fn expecting(mut self, version: ExpectedVersion) -> Self {
        if let Self::PutValue { expected, .. } = &mut self {
            *expected = version;
        }
        self
    }

    #[must_use]
    pub fn with_version(mut self, new_version: u64) -> Self {
        if let Self::PutValue { version, .. } = &mut self {
            *version = Some(new_version);
        }
        self
    }

    fn order_key(&self) -> OrderKey {
        match self {
            Self::Event(record) => OrderKey::Topic(record.topic.clone()),
            Self::OpenRun(row) => OrderKey::Topic(Topic::Run(row.run)),
            Self::CloseRun { run, .. } | Self::RequestOfRun { run, .. } => OrderKey::Topic(Topic::Run(*run)),
            Self::OpenModelCall(call) => OrderKey::Topic(Topic::Run(call.run)),
            Self::SettleModelCall(usage) => OrderKey::Topic(Topic::Run(usage.run)),
            Self::Message(row) => OrderKey::Topic(Topic::Message(row.message)),
            Self::AddTurn(NewTurn { session, .. })
            | Self::ClearSession { session, .. }
            | Self::RenameSession { session, .. }
            | Self::HideSession { session, .. } => OrderKey::Session(session.clone()),
            Self::ForkSession(fork) => OrderKey::Session(fork.from.clone()),
            Self::PutValue { namespace, .. } => OrderKey::Namespace(namespace.clone()),
            Self::Delivery(row) => OrderKey::Delivery(row.id),
            Self::OpenInput(row) => OrderKey::Topic(Topic::Run(row.run)),
            Self::AnswerInput { .. }
            | Self::CloseInput(_)
            | Self::LearnFact(_)
            | Self::ForgetFact { .. }
            | Self::Audit(_) => OrderKey::None,
        }
    }
}

/// What a write of a value expects to replace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExpectedVersion {
    #[default]
    Any,
    /// No value under that key.
    Absent,
    Exactly(u64),
}

impl ExpectedVersion {
    /// That of a value that was read before.
    pub fn of(entry: Option<&KvEntry>) -> Self {
        entry.map_or(Self::Absent, |entry| Self::Exactly(entry.version))
    }

    pub fn matches(self, stored: Option<u64>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => stored.is_none(),
            Self::Exactly(version) => stored == Some(version),
        }
    }
}

/// A value with its version. A version is never used again for the same key, also after the value was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvEntry {
    pub version: u64,
    pub value: Vec<u8>,
}
