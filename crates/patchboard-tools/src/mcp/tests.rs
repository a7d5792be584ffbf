//! Servers that are scripted in the test, over a pipe, over HTTP and as real processes.

mod calls;
mod http;
mod life;
mod pins;
mod processes;
mod stub;
