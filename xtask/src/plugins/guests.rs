//! Which components there are.

/// A component of `plugins/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Guest {
    /// Of its package, or of the example that it is, and of the file.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// For people: committed, and small.
    Offered,
    /// For tests of the host only. It is as large as what it tries to reach, such as all of the network.
    ForTests,
    /// The same, as an example of the package `hostile-describe`.
    ExampleForTests,
}

pub(super) const GUESTS: &[Guest] = &[
    Guest { name: "echo", kind: Kind::Offered },
    Guest { name: "notes", kind: Kind::Offered },
    Guest { name: "http-get", kind: Kind::Offered },
    Guest { name: "telegram", kind: Kind::Offered },
    Guest { name: "slack", kind: Kind::Offered },
    Guest { name: "webhook-json", kind: Kind::Offered },
    Guest { name: "hostile", kind: Kind::ForTests },
    Guest { name: "hostile-describe-loop", kind: Kind::ExampleForTests },
    Guest { name: "hostile-describe-panic", kind: Kind::ExampleForTests },
    Guest { name: "hostile-describe-bad-schema", kind: Kind::ExampleForTests },
    Guest { name: "hostile-describe-bad-name", kind: Kind::ExampleForTests },
    Guest { name: "hostile-describe-huge", kind: Kind::ExampleForTests },
    Guest { name: "hostile-describe-many", kind: Kind::ExampleForTests },
    Guest { name: "hostile-describe-dup", kind: Kind::ExampleForTests },
];

impl Guest {
    pub(super) fn file(&self) -> String {
        format!("{}.wasm", self.name)
    }

    /// The file that cargo makes, below its folder for the target and profile.
    pub(super) fn built_file(&self) -> String {
        let file = format!("{}.wasm", self.name.replace('-', "_"));
        match self.kind {
            Kind::Offered | Kind::ForTests => file,
            Kind::ExampleForTests => format!("examples/{file}"),
        }
    }

    /// In bytes.
    pub(super) fn largest(&self) -> usize {
        match self.kind {
            Kind::Offered => 200_000,
            Kind::ForTests | Kind::ExampleForTests => 400_000,
        }
    }
}

pub(super) fn offered() -> impl Iterator<Item = &'static Guest> {
    GUESTS.iter().filter(|guest| guest.kind == Kind::Offered)
}

#[cfg(test)]
mod tests;
