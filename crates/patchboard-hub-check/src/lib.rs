//! A mock hub that takes a client through a scenario and checks its behaviour: `checker` decides, `socket` transports
//! frames. Must not depend on the configuration, the command line or the display of findings.

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
