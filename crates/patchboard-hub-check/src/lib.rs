//! A stand-in for a hub that puts a client through a scenario and judges what it does: `checker` thinks, `socket` carries
//! bytes. Must not know the configuration, the command line or how a finding is shown.

mod checker;
mod finding;
mod frame;
mod handshake;
mod script;
mod socket;

pub use checker::{CheckOptions, ConformanceChecker};
pub use finding::{FindingLevel, ProtocolFinding, ProtocolStep, Tally, TimedFinding};
pub use handshake::EndpointConfig;
pub use script::HubScript;
pub use socket::{CheckOutput, run_mock_hub};
