//! Channels: people of other services who talk to agents through webhooks. What came in is on record before it is
//! acknowledged, and stays on record until its answer is out.

mod agent_run;
mod dedup_key;
mod delivery;
mod error_text;
mod load;
mod recovery;
mod retry;
mod send;
mod service;
mod task;

pub(crate) use service::{AcceptedDelivery, ChannelService};
pub(crate) use task::{DeliveryTask, ResponseSender};
