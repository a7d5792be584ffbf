//! Channels: users of external services talk to agents through webhooks. A message is recorded before it is
//! acknowledged, and stays recorded until its answer is sent.

mod adoption;
mod agent_run;
mod dedup_key;
mod delivery;
mod error_text;
mod load;
mod report;
mod retry;
mod send;
mod service;
mod task;

pub(crate) use report::report;
pub(crate) use service::{AcceptedDelivery, ChannelService};
pub(crate) use task::{DeliveryTask, ResponseSender};
