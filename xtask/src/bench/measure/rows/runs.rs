//! The runs surface.

mod first;
mod list;
mod ping;
mod resume;
mod streams;

use super::Row;

pub(super) use first::RunsFirst;
pub(super) use list::RunsList;
pub(super) use ping::RunsPing;
pub(super) use resume::RunsResume;
pub(super) use streams::RunsStreams;
