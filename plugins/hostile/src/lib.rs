//! One tool that does one bad thing at a time, for tests of the host: nothing here may hurt a server or reach anything
//! that was not granted.

mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "tool-plugin" });
}
mod ambient;
mod granted;
mod greedy;
mod what;

use bindings::exports::patchboard::plugin::tools::{Guest, Output, Tool};

use what::{Arguments, What};

struct Hostile;

impl Guest for Hostile {
    fn describe() -> Vec<Tool> {
        vec![Tool {
            name: "hostile".to_owned(),
            description: "Does one bad thing, for tests of the host.".to_owned(),
            input_schema: what::schema(),
            read_only: false,
        }]
    }

    fn call(name: String, arguments: String) -> Output {
        let arguments = match what::read(&name, &arguments) {
            Ok(arguments) => arguments,
            Err(content) => return Output { content, is_error: true },
        };
        match perform(&arguments) {
            Ok(content) => Output { content, is_error: false },
            Err(content) => Output { content, is_error: true },
        }
    }
}

bindings::export!(Hostile with_types_in bindings);

/// `Ok` is what was had, `Err` why it was not.
fn perform(arguments: &Arguments) -> Result<String, String> {
    match arguments.what {
        What::Loop => greedy::spin(),
        What::SpinHost => granted::spin_host(),
        What::Grow => greedy::grow_until_the_end(),
        What::GrowPolitely => Ok(greedy::grow_until_refused()),
        What::Huge => Ok("x".repeat(arguments.bytes())),
        What::Recurse => Ok(greedy::recurse(arguments.seed()).to_string()),
        What::RecurseMemory => Ok(greedy::recurse_with_memory(arguments.seed()).to_string()),
        What::Panic => greedy::give_up(&arguments.text()),
        What::Abort => std::process::abort(),
        What::Exit => std::process::exit(arguments.code()),
        What::Error => Err(arguments.text()),
        What::Count => Ok(greedy::count().to_string()),
        What::StdoutFlood => ambient::flood(ambient::Stream::Stdout, arguments.count()),
        What::StderrFlood => ambient::flood(ambient::Stream::Stderr, arguments.count()),
        What::ReadFile => ambient::read_file(&arguments.path()),
        What::WriteFile => ambient::write_file(&arguments.path()),
        What::ListFolder => ambient::list_folder(&arguments.path()),
        What::ListEnv => Ok(ambient::list_env()),
        What::Connect => ambient::connect(&arguments.address()),
        What::Listen => ambient::listen(),
        What::Resolve => ambient::resolve(&arguments.address()),
        What::SpawnThread => ambient::spawn_thread(),
        What::SpawnProcess => ambient::spawn_process(),
        What::Sleep => Ok(ambient::sleep(arguments.ms())),
        What::ReadStdin => ambient::read_stdin(),
        What::Http | What::Redirect => granted::http(arguments),
        What::Store => granted::store(arguments),
        What::StoreFlood => granted::store_flood(&arguments.name("notes"), arguments.count()),
        What::HostFunction => granted::host_function(&arguments.name("echo"), &arguments.arguments()),
        What::CallItself => granted::host_function("hostile", r#"{"what":"call_itself"}"#),
        What::LogFlood => Ok(granted::log_flood(arguments.count())),
        What::LogLines => Ok(granted::log_lines()),
        What::RandomFlood => Ok(granted::random_flood().to_string()),
        What::Setting => granted::setting(&arguments.name("")),
        What::Secrets => Ok(granted::secrets()),
    }
}
