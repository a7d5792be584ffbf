//! Messages of channels: from the webhook to the agent and back.

use super::plugin_host::PluginHost;
use super::*;
use crate::command::ReceiveWebhook;
use crate::error::RetryHint;
use crate::model::ModelError;
use crate::record::decode_delivery_payload;
use crate::store::{DeliveryRow, Durability, StoreWrite, WriteBatch};
use crate::webhook::{ChannelOptions, DeliveryId, DeliveryState, Webhook, WebhookOutcome};

mod lines;
mod receiving;
mod restarts;
mod sending;
mod waiting;

/// A bench with the channel `tg`, and its plugins.
struct Office {
    bench: Bench,
    host: Arc<PluginHost>,
}

fn channel() -> ChannelOptions {
    ChannelOptions {
        name: "tg".into(),
        plugin: "adapter".into(),
        wait: None,
        max_open_deliveries: 1000,
        replay_window: Duration::from_secs(300),
    }
}

fn waited_for(seconds: u64) -> ChannelOptions {
    ChannelOptions { wait: Some(Duration::from_secs(seconds)), ..channel() }
}

fn office(scripts: impl IntoIterator<Item = Script>) -> Office {
    office_with(scripts, |_| {})
}

fn office_with(scripts: impl IntoIterator<Item = Script>, change: impl FnOnce(&mut Setup)) -> Office {
    let host = Arc::new(PluginHost::default());
    let bench = bench_with(scripts, |setup| {
        setup.plugins = Some(host.clone());
        setup.channels = vec![channel()];
        change(setup);
    });
    Office { bench, host }
}

/// The channel itself, as its surface says.
fn from_channel() -> Caller {
    let grants = GrantSet::NONE.with(crate::caller::Grant::Converse);
    Caller { surface: Surface::Webhook, principal: "channel:tg".into(), connection: ConnectionId(5), grants }
}

fn webhook(body: &serde_json::Value) -> ReceiveWebhook {
    let body = body.to_string();
    let digest = body.as_str().into();
    let webhook =
        Webhook { method: "POST".to_owned(), query: String::new(), headers: Vec::new(), body: body.into(), digest };
    ReceiveWebhook { channel: "tg".into(), webhook }
}

/// What ann writes.
fn from_ann(id: &str, content: &str) -> serde_json::Value {
    json!({"id": id, "account": "ann", "peer": "room", "content": content})
}

fn accepted(outcome: Result<WebhookOutcome, BoardError>) -> DeliveryId {
    let WebhookOutcome::Accepted(delivery) = outcome.unwrap() else { panic!("not accepted") };
    delivery
}

/// The model says this, with a line break between the two parts.
fn two_lines() -> Script {
    say(&["one\n", "two"], 10, 5)
}

impl Office {
    async fn post(&self, body: &serde_json::Value) -> Result<WebhookOutcome, BoardError> {
        self.bench.ask(&from_channel(), webhook(body)).await
    }

    async fn accept(&self, id: &str, content: &str) -> DeliveryId {
        accepted(self.post(&from_ann(id, content)).await)
    }

    /// Until everything has come to its end.
    async fn done(&self) {
        let tracker = &self.bench.board.0.tracker;
        tracker.close();
        tokio::time::timeout(FOR_EVER, tracker.wait()).await.expect("it comes to an end");
        tracker.reopen();
    }

    async fn row(&self, key: &str) -> DeliveryRow {
        self.bench.store.delivery("tg", key).await.unwrap().expect("a delivery")
    }

    /// Where the delivery of this id stands, and what is on record as its problem.
    async fn state(&self, id: &str) -> (DeliveryState, Option<String>) {
        let row = self.row(&format!("id:{id}")).await;
        (row.state, decode_delivery_payload(&row.body).unwrap().problem)
    }

    /// The contents of all replies so far, with a mark before those that are errors.
    fn replies(&self) -> Vec<String> {
        let mark = |is_error| if is_error { "! " } else { "" };
        self.host.replies().into_iter().map(|reply| format!("{}{}", mark(reply.is_error), reply.content)).collect()
    }

    /// The last words of the user in each question to the model, in order.
    fn asked(&self) -> Vec<String> {
        self.bench.model.requests().iter().map(|request| prompt(request).last().unwrap().clone()).collect()
    }

    fn open(&self) -> usize {
        self.bench.board.0.channels.open("tg").0
    }
}

/// A store that has seen these batches and nothing else: what a process that died has left.
async fn after(batches: &[WriteBatch]) -> Arc<FaultyStore> {
    let store = FaultyStore::new();
    for batch in batches {
        store.commit(batch.clone()).await.unwrap();
    }
    store
}

/// The next process.
fn next_office(store: Arc<FaultyStore>, first_id: u64, scripts: impl IntoIterator<Item = Script>) -> Office {
    office_with(scripts, |setup| {
        setup.store = store;
        setup.ids = Arc::new(CountingIds::starting_at(first_id));
    })
}
