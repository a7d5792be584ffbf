//! The program that tests start as a supervisor, and inside jails to try the walls.
//!
//! * `patchboard-jailer __exec` – what `patchboard __exec` does.
//! * `patchboard-jailer hold FOLDER COMMAND` – a server that starts a command, passes on its output, and waits to be killed.
//! * `patchboard-jailer all-but PROTECTED COMMAND` – the same, where the command may use everything but one path.
//! * `patchboard-jailer mcp PROTECTED SCRIPT` – a server with an MCP server, which is that shell script, until killed.
//! * `patchboard-jailer pool FOLDER MARK` – a server with a pool of workers in jails, until killed.
//! * `patchboard-jailer worker …` – such a worker.
//! * `patchboard-jailer listen` – tries to bind a TCP port of the kernel's choice.
//! * `patchboard-jailer abstract NAME` – tries to connect to an abstract socket.

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["__exec", ..] => return patchboard_tools::sandbox::exec_main().unwrap_or(ExitCode::FAILURE),
        ["hold", folder, command] => linux::hold(folder, command),
        ["all-but", protected, command] => linux::all_but(protected, command),
        ["mcp", protected, script] => linux::mcp(protected, script),
        ["pool", folder, mark] => linux::pool(folder, mark),
        ["worker", rest @ ..] => stand_in::run(rest),
        ["listen"] => std::net::TcpListener::bind(("127.0.0.1", 0)).map(drop),
        ["abstract", name] => linux::connect_abstract(name),
        _ => Err(std::io::ErrorKind::InvalidInput.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(error.raw_os_error().and_then(|code| code.try_into().ok()).unwrap_or(255)),
    }
}

#[cfg(target_os = "linux")]
mod stand_in;

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    ExitCode::FAILURE
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};
    use std::sync::Arc;
    use std::time::Duration;

    use futures_util::future::BoxFuture;
    use patchboard_core::bridge::{TelemetryBus, WorkerSecret};
    use patchboard_core::scripted::{CountingIds, ManualClock};
    use patchboard_core::worker::WorkerId;
    use patchboard_tools::mcp::{JailConfig, LaunchMode, McpHosts, McpServerOptions, McpTransport, MemoryPins};
    use patchboard_tools::sandbox::{CommandSpec, FilesystemView, Jail, Spawner, StdinMode};
    use patchboard_tools::worker::{CallbackListener, CallbackServer, PoolDeps, PoolOptions, PortBlock, WorkerPools};
    use tokio_util::sync::CancellationToken;
    use tokio_util::task::TaskTracker;

    pub(crate) fn hold(folder: &str, command: &str) -> io::Result<()> {
        follow(Jail::for_folder(std::fs::File::open(folder)?.into())?, command)
    }

    pub(crate) fn all_but(protected: &str, command: &str) -> io::Result<()> {
        let jail = Jail::for_folder(std::fs::File::open(".")?.into())?;
        follow(
            Jail { view: FilesystemView::Everything, writable: vec![], protected: vec![protected.into()], ..jail },
            command,
        )
    }

    pub(crate) fn mcp(protected: &str, script: &str) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let spawner = Spawner::new("/proc/self/exe").map_err(io::Error::other)?;
            let launch = LaunchMode::Jailed(JailConfig {
                spawner,
                protected: Arc::new([protected.into()]),
                closed_ports: Arc::new([]),
                guard: None,
                worker_ports: Arc::new([]),
            });
            let arguments = vec!["-c".to_owned(), script.to_owned()];
            let server = McpServerOptions {
                name: "srv".into(),
                transport: McpTransport::Command {
                    program: "/bin/sh".to_owned(),
                    arguments,
                    env: Default::default(),
                    working_folder: None,
                    private: None,
                },
                start_timeout: Duration::from_secs(60),
                call_timeout: Duration::from_secs(60),
            };
            let tasks = TaskTracker::new();
            let pins = Arc::new(MemoryPins::default());
            let _hosts = McpHosts::start(vec![server], &launch, pins, &tasks, &CancellationToken::new());
            tasks.close();
            tasks.wait().await;
            Ok(())
        })
    }

    /// Nobody calls back.
    #[derive(Debug)]
    struct StubCallbacks;

    impl CallbackServer for StubCallbacks {
        fn open<'a>(&'a self, _: &'a WorkerId, _: u16) -> BoxFuture<'a, io::Result<CallbackListener>> {
            let closer = CancellationToken::new().drop_guard();
            Box::pin(std::future::ready(Ok(CallbackListener {
                address: ([127, 0, 0, 1], 9).into(),
                secret: WorkerSecret::new("bits"),
                close_guard: closer,
            })))
        }
    }

    pub(crate) fn pool(folder: &str, mark: &str) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let spawner = Spawner::new("/proc/self/exe").map_err(io::Error::other)?;
            let launch = LaunchMode::Jailed(JailConfig {
                spawner,
                protected: Arc::new([]),
                closed_ports: Arc::new([]),
                worker_ports: Arc::new([]),
                guard: None,
            });
            let program = std::env::current_exe()?.to_string_lossy().into_owned();
            let command = vec![program, "worker".to_owned(), mark.to_owned()];
            let options = PoolOptions { count: 3, ..PoolOptions::new("p", command, folder.into()) };
            let deps = PoolDeps {
                launch,
                callbacks: Arc::new(StubCallbacks),
                ports: PortBlock::choose(16, &[]).map_err(io::Error::other)?,
                telemetry: TelemetryBus::default(),
                clock: Arc::new(ManualClock::default()),
                ids: Arc::new(CountingIds::default()),
                tracker: TaskTracker::new(),
                stop: CancellationToken::new(),
                scratch: folder.into(),
                allow_pickle: false,
            };
            let pools = WorkerPools::start(vec![options], deps)?;
            pools.wait_until_ready(Duration::from_secs(60)).await;
            std::future::pending::<()>().await;
            Ok(())
        })
    }

    fn follow(jail: Jail, command: &str) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let spawner = Spawner::new("/proc/self/exe").map_err(io::Error::other)?;
            let arguments = vec!["-c".to_owned(), command.to_owned()];
            let program = CommandSpec { program: "/bin/sh".into(), arguments, stdin: StdinMode::Null };
            let mut jailed = spawner.spawn(jail, program).await.map_err(io::Error::other)?;
            if let Some(mut output) = jailed.take_stdout() {
                tokio::io::copy(&mut output, &mut tokio::io::stdout()).await?;
            }
            jailed.wait().await.map(drop).map_err(io::Error::other)
        })
    }

    pub(crate) fn connect_abstract(name: &str) -> io::Result<()> {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?).map(drop)
    }
}
