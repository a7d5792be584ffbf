//! Complete chat turns with an instant model, stored durably, and the memory they leave behind.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::Row;
use crate::bench::measure::chat::Chat;
use crate::bench::measure::direct::Direct;
use crate::bench::measure::env::Env;
use crate::bench::measure::figure::{Figure, Target, Unit};
use crate::bench::measure::load::{self, Effort, Side};
use crate::bench::measure::proc;
use crate::bench::stats::Sample;

#[derive(Debug)]
pub(super) struct Turns;

const MODEL: &str = "instant-8";
const PIECES: u64 = 8;
const CONNECTIONS: usize = 32;
const ROUNDS: usize = 4;
const WARM_UP: Duration = Duration::from_millis(500);
/// The first reading of memory is taken after this part of the turns.
const FIRST_PART: u64 = 5;

impl Row for Turns {
    fn name(&self) -> &'static str {
        "turns"
    }

    fn about(&self) -> &'static str {
        "whole chat turns on 32 connections, each with a session of its own, and memory after many of them"
    }

    fn run(&self, env: &Env) -> anyhow::Result<Vec<Figure>> {
        let stub = env.stub()?;
        let server = env.server(stub.address, &[MODEL])?;
        let patience = env.span() * 4 + Duration::from_secs(60 + env.options.turns / 50);
        env.block_on(patience, async {
            let mut chats = open_chats(server.gateway).await?;
            let mut figures = vec![rate(&mut chats, stub.address, server.pid(), env.span()).await?];
            figures.extend(memory(&mut chats, server.pid(), env.options.turns).await?);
            Ok(figures)
        })
    }
}

async fn open_chats(gateway: SocketAddr) -> anyhow::Result<Vec<Chat>> {
    load::open(CONNECTIONS, move |number| Chat::open(gateway, MODEL, format!("user-{number}"))).await
}

/// Beside the same number of direct calls of the model, which is what the machine and the clients allow at most.
async fn rate(chats: &mut Vec<Chat>, stub: SocketAddr, server: u32, span: Duration) -> anyhow::Result<Figure> {
    let mut direct = load::open(CONNECTIONS, move |_| Direct::open(stub, MODEL)).await?;
    turns_for(chats, WARM_UP).await?;
    calls_for(&mut direct, WARM_UP).await?;
    let (mut product, mut baseline) = (Vec::new(), Vec::new());
    let mut effort = Effort::of(server);
    for side in load::in_turn(ROUNDS) {
        let part = span / ROUNDS as u32;
        match side {
            Side::Product => {
                let before = effort.clock();
                let (turns, took) = turns_for(chats, part).await?;
                effort.add(before, turns);
                product.push(turns as f64 / took.as_secs_f64());
            }
            Side::Baseline => {
                let (calls, took) = calls_for(&mut direct, part).await?;
                baseline.push(calls as f64 / took.as_secs_f64());
            }
        }
    }
    Ok(Figure::new("chat turns, 32 connections", Sample::new(product)?.median(), Unit::PerSecond)
        .beside(Sample::new(baseline)?.median())
        .target(Target::AtLeast(6000.0))
        .note(format!("server time {:.0} µs a turn; baseline: direct model calls", effort.each())))
}

async fn turns_for(chats: &mut Vec<Chat>, span: Duration) -> anyhow::Result<(u64, Duration)> {
    let until = Instant::now() + span;
    let done = load::all(chats, move |mut chat| async move {
        let mut turns = 0;
        while Instant::now() < until {
            whole_turn(&mut chat).await?;
            turns += 1;
        }
        Ok((chat, turns))
    });
    let done = done.await?;
    Ok((done.results.iter().sum(), done.took))
}

async fn whole_turn(chat: &mut Chat) -> anyhow::Result<()> {
    let heard = chat.turn().await?;
    anyhow::ensure!(heard.texts == PIECES && heard.gaps == 0, "a turn was not told as it was: {heard:?}");
    Ok(())
}

async fn calls_for(direct: &mut Vec<Direct>, span: Duration) -> anyhow::Result<(u64, Duration)> {
    let until = Instant::now() + span;
    let done = load::all(direct, move |mut direct| async move {
        let mut calls = 0;
        while Instant::now() < until {
            direct.answer(|_| {}).await?;
            calls += 1;
        }
        Ok((direct, calls))
    });
    let done = done.await?;
    Ok((done.results.iter().sum(), done.took))
}

/// Memory after a fifth of the turns, which have warmed every cache, and after all of them.
async fn memory(chats: &mut Vec<Chat>, server: u32, turns: u64) -> anyhow::Result<Vec<Figure>> {
    let first = turns / FIRST_PART;
    turn_times(chats, first).await?;
    let after_first = proc::resident(server)? as f64 / 1e6;
    turn_times(chats, turns - first).await?;
    let after_all = proc::resident(server)? as f64 / 1e6;
    Ok(vec![
        Figure::new(format!("memory after {turns} turns"), after_all, Unit::Megabytes)
            .beside(after_first)
            .target(Target::RatioAtMost(1.1))
            .note(format!("baseline: after {first} turns")),
    ])
}

async fn turn_times(chats: &mut Vec<Chat>, turns: u64) -> anyhow::Result<()> {
    let each = turns.div_ceil(CONNECTIONS as u64);
    let done = load::all(chats, move |mut chat| async move {
        for _ in 0..each {
            whole_turn(&mut chat).await?;
        }
        Ok((chat, ()))
    });
    done.await.map(drop)
}
