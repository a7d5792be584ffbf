//! What the drivers need besides the binary. It comes from package registries, so it is fetched while the compiler runs.

use std::thread::JoinHandle;

use anyhow::anyhow;

use crate::e2e::node::{self, Node};
use crate::e2e::python::{self, Python};
use crate::e2e::{Places, system};
use crate::output::say;
use crate::workspace::Workspace;

/// For each language a way to run its drivers, or why there is none.
#[derive(Debug)]
pub(super) struct Environments {
    pub(super) python: Result<Python, String>,
    pub(super) node: Result<Node, String>,
}

/// Environments that are being made, on a thread of their own.
#[derive(Debug)]
pub(crate) struct Preparation(JoinHandle<anyhow::Result<Environments>>);

impl Preparation {
    pub(crate) fn start(workspace: &Workspace) -> anyhow::Result<Preparation> {
        let places = Places::find(workspace)?;
        Ok(Preparation(std::thread::spawn(move || prepare(&places))))
    }

    pub(super) fn wait(self) -> anyhow::Result<Environments> {
        if !self.0.is_finished() {
            say!("waiting for the packages of the drivers");
        }
        self.0.join().map_err(|_panic| anyhow!("preparing the drivers' packages panicked"))?
    }
}

fn prepare(places: &Places) -> anyhow::Result<Environments> {
    system::prepare(&places.logs())?;
    let python = python::prepare(&places.root, &places.scratch, &[])?;
    let node = node::prepare(places)?;
    Ok(Environments { python, node })
}
