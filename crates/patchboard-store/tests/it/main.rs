//! The store through its port: the contract on every implementation, properties, and a process that dies.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise, in their helpers too")]

mod contract;
mod crash;
mod property;
