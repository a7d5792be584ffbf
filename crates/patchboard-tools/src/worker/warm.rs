//! Workers forked from one program that has loaded everything they need: they start in a moment and share its memory.
//!
//! The program reads orders as lines of JSON and says on standard error when a worker ended. Which process a worker is,
//! the worker itself announces; until it has, no other is forked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{Mutex as AsyncMutex, Notify, OwnedMutexGuard, mpsc};
use tokio_util::sync::CancellationToken;

use super::command::{self, Identity};
use super::folder::WorkerFolder;
use super::pool::Pool;
use super::ports::PortBlock;
use super::ready::Address;
use super::start::{Failure, announcement, order};
use super::tail::Tail;
use super::world::{Input, Numbers, Process};

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
/// After its input is closed, it ends its workers within three seconds and then itself.
const FAREWELL: Duration = Duration::from_secs(5);
/// A worker that was killed is heard of within this time.
const LAST_BREATH: Duration = Duration::from_secs(3);
/// Orders that may wait to be read.
const AHEAD: usize = 1024;
/// What the program says when a worker has ended.
const END_PREFIX: &str = "patchboard: worker ";
const END_MIDDLE: &str = " exited with ";

/// The program of a pool, started when it is first needed.
#[derive(Debug, Default)]
pub(super) struct WarmParent {
    parent: AsyncMutex<Option<Arc<Parent>>>,
    /// The jail of the program is that of all its workers, so they share these, for as long as the pool is there.
    lines: Mutex<Option<PortBlock>>,
}

#[derive(Debug)]
struct Parent {
    orders: mpsc::Sender<String>,
    tail: Tail,
    numbers: Numbers,
    /// Only one worker at a time has no name yet.
    turn: Arc<AsyncMutex<()>>,
    ends: Mutex<Ends>,
    heard: Notify,
    /// Told to end.
    closing: CancellationToken,
    /// It has ended, and all its workers with it.
    ended: CancellationToken,
}

/// How workers ended.
#[derive(Debug, Default)]
struct Ends {
    /// Of those that have announced themselves, until they are done with.
    known: HashMap<u32, Option<String>>,
    /// Of the one that has not: while it has its turn, whoever ends without being known can only be this one.
    stranger: Option<(u32, String)>,
}

impl WarmParent {
    /// A worker with these arguments and variables of its own.
    pub(super) async fn fork(&self, pool: &Pool, who: Identity<'_>) -> Result<Box<dyn Process>, Failure> {
        let parent = self.parent(pool).await?;
        let turn = parent.turn.clone().lock_owned().await;
        parent.ends().stranger = None;
        let arguments = command::own_arguments(who);
        let variables = command::own_variables(who);
        parent.order(json!({"spawn": {"args": arguments, "env": variables}}).to_string());
        Ok(Box::new(Forked { parent, pid: None, turn: Some(turn), is_over: false }))
    }

    /// The ports its workers call back on: one for each, and one for each that still finishes what it has.
    pub(super) fn lines(&self, pool: &Pool) -> Result<PortBlock, String> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lines) = lines.as_ref() {
            return Ok(lines.clone());
        }
        let lease = pool.common.ports.lease(2 * pool.options.count as usize)?;
        let exhausted = "all lines of this pool are in use by workers that still finish what they have".to_owned();
        Ok(lines.insert(PortBlock::within(lease, exhausted)).clone())
    }

    /// Ends the program and with it all its workers.
    pub(super) async fn end(&self) {
        let parent = self.parent.lock().await.take();
        if let Some(parent) = parent {
            parent.closing.cancel();
            parent.ended.cancelled().await;
        }
    }

    async fn parent(&self, pool: &Pool) -> Result<Arc<Parent>, Failure> {
        let mut known = self.parent.lock().await;
        if let Some(parent) = known.as_ref().filter(|parent| !parent.ended.is_cancelled()) {
            return Ok(parent.clone());
        }
        *known = None;
        let parent = start(pool).await?;
        Ok(known.insert(parent).clone())
    }
}

async fn start(pool: &Pool) -> Result<Arc<Parent>, Failure> {
    let (no, _) = pool.next_worker(0);
    let folder = pool.common.folder.worker(pool.number, no.0).map_err(|error| Failure::new(error.to_string()))?;
    let ready_file = folder.ready_file();
    let own = [
        ("PATCHBOARD_WARM".to_owned(), "1".to_owned()),
        ("SNAKEPIT_READY_FILE".to_owned(), ready_file.to_string_lossy().into_owned()),
    ];
    let arguments = pool.options.command.iter().skip(1).cloned().collect();
    // Its workers announce themselves in folders of their own beneath that of the pool.
    let writable = pool.common.folder.pool(pool.number);
    let lines = pool.warm.lines(pool).map_err(Failure::new)?;
    let order = order(pool, arguments, own.into_iter().collect(), &writable, lines.ports(), Input::Piped)?;
    let mut process = pool.common.world.launch(order).await.map_err(Failure::new)?;
    let tail = process.tail();
    let lines = tail.lines();
    let ready = announcement(pool, &mut *process, &ready_file).await.and_then(|announced| match announced.address {
        Address::Parent => Ok(()),
        Address::Tcp(_) | Address::Unix(_) => Err(Failure::new("it does not know `warm`: it is a worker already")),
    });
    if let Err(mut failure) = ready {
        process.kill().await;
        failure.said = tail.in_short();
        return Err(failure);
    }
    let Some(input) = process.take_input() else { return Err(Failure::new("its standard input cannot be had")) };
    let (orders, waiting) = mpsc::channel(AHEAD);
    let parent = Arc::new(Parent {
        orders,
        tail,
        numbers: process.numbers(),
        turn: Arc::default(),
        ends: Mutex::default(),
        heard: Notify::new(),
        closing: CancellationToken::new(),
        ended: CancellationToken::new(),
    });
    pool.common.tasks.spawn(mind(parent.clone(), process, input, waiting, lines, folder));
    Ok(parent)
}

/// Passes orders on and listens, until the program has ended.
async fn mind(
    parent: Arc<Parent>,
    mut process: Box<dyn Process>,
    mut input: pipe::Sender,
    mut orders: mpsc::Receiver<String>,
    mut lines: mpsc::Receiver<String>,
    _folder: WorkerFolder,
) {
    let _ended = parent.ended.clone().drop_guard();
    let minding = async {
        loop {
            tokio::select! {
                order = orders.recv() => {
                    let Some(order) = order else { return };
                    if input.write_all(format!("{order}\n").as_bytes()).await.is_err() {
                        return;
                    }
                }
                line = lines.recv() => match line {
                    Some(line) => parent.hear(&line),
                    None => return,
                },
                () = parent.closing.cancelled() => return,
            }
        }
    };
    tokio::select! {
        () = minding => {}
        _ = process.ended() => {}
    }
    drop(input);
    let ending = async {
        while let Some(line) = lines.recv().await {
            parent.hear(&line);
        }
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        _ = process.ended() => true,
        () = ending => false,
        () = tokio::time::sleep(FAREWELL) => false,
    };
    if !ended {
        process.kill().await;
    }
}

impl Parent {
    fn order(&self, order: String) {
        if self.orders.try_send(order).is_err() {
            // It is gone, or reads nothing any more: either way nothing more will come of it.
            self.closing.cancel();
        }
    }

    fn signal(&self, pid: Option<u32>, signal: i32) {
        match pid {
            Some(pid) => self.order(json!({"signal": {"pid": pid, "signal": signal}}).to_string()),
            // One that has not said who it is cannot be named; rather all than one that nobody can end.
            None => self.closing.cancel(),
        }
    }

    fn hear(&self, line: &str) {
        let Some((pid, status)) = read_end(line) else { return };
        self.ends().note(pid, status);
        self.heard.notify_waiters();
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ends {
    fn note(&mut self, pid: u32, status: String) {
        match self.known.get_mut(&pid) {
            Some(end) => *end = Some(status),
            None => self.stranger = Some((pid, status)),
        }
    }

    fn introduce(&mut self, pid: u32) {
        let end = self.stranger.take().filter(|(stranger, _)| *stranger == pid);
        self.known.insert(pid, end.map(|(_, status)| status));
    }
}

fn read_end(line: &str) -> Option<(u32, String)> {
    let (pid, status) = line.strip_prefix(END_PREFIX)?.split_once(END_MIDDLE)?;
    Some((pid.trim().parse().ok()?, status.trim().to_owned()))
}

/// A worker forked from the program.
#[derive(Debug)]
struct Forked {
    parent: Arc<Parent>,
    /// Known once it has announced itself.
    pid: Option<u32>,
    turn: Option<OwnedMutexGuard<()>>,
    is_over: bool,
}

impl Forked {
    /// How it ended, if it has.
    fn end(&self) -> Option<String> {
        let ends = self.parent.ends();
        match self.pid {
            Some(pid) => ends.known.get(&pid).cloned().flatten(),
            None => ends.stranger.as_ref().map(|(_, status)| status.clone()),
        }
    }
}

impl Process for Forked {
    fn pid(&self) -> Option<u32> {
        self.parent.numbers.outside(self.pid?)
    }

    fn numbers(&self) -> Numbers {
        self.parent.numbers
    }

    fn introduced(&mut self, pid: Option<u32>) {
        if let Some(pid) = pid {
            self.parent.ends().introduce(pid);
            self.pid = Some(pid);
            self.turn = None;
        }
    }

    fn ended(&mut self) -> BoxFuture<'_, String> {
        async {
            let status = loop {
                let heard = self.parent.heard.notified();
                tokio::pin!(heard);
                heard.as_mut().enable();
                if let Some(status) = self.end() {
                    break format!("exit status: {status}");
                }
                tokio::select! {
                    () = heard => {}
                    () = self.parent.ended.cancelled() => break "the program it was forked from".to_owned(),
                }
            };
            self.is_over = true;
            status
        }
        .boxed()
    }

    fn ask_to_end(&mut self) -> BoxFuture<'_, ()> {
        self.parent.signal(self.pid, SIGTERM);
        std::future::ready(()).boxed()
    }

    fn kill(&mut self) -> BoxFuture<'_, ()> {
        async {
            if self.is_over {
                return;
            }
            self.parent.signal(self.pid, SIGKILL);
            if tokio::time::timeout(LAST_BREATH, self.ended()).await.is_err() {
                tracing::debug!(pid = self.pid, "a forked worker is not heard of after it was killed");
            }
            self.is_over = true;
        }
        .boxed()
    }

    fn take_input(&mut self) -> Option<pipe::Sender> {
        None
    }

    fn tail(&self) -> Tail {
        self.parent.tail.clone()
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        if !self.is_over {
            self.parent.signal(self.pid, SIGKILL);
        }
        if let Some(pid) = self.pid {
            self.parent.ends().known.remove(&pid);
        }
    }
}

#[cfg(test)]
mod tests;
