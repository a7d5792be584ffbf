//! The hub as surfaces use it: through the board, with apps that answer as they like. Each file is one story.

mod apps;
mod delivering;
mod endings;
mod learning;
mod refusing;
mod restart;
mod steering;
