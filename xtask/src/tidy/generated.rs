//! Generated files are in the repository. Whether they are also current is for their tests to say, because only the
//! product knows what should be in them; `codegen --check` runs those.

use crate::codegen::GENERATED;
use crate::tidy::{Context, Problem};

pub(super) fn check(context: &Context) -> Vec<Problem> {
    let mut problems = Vec::new();
    for generated in GENERATED {
        if !context.tree.has_file(generated.path) {
            problems.push(Problem::new(generated.path, 0, "is generated and missing: run `cargo xtask codegen`"));
        }
        let definition = format!("fn {}(", generated.test);
        let folder = generated.folder();
        let mut own = context.tree.rust().filter(|(path, _)| path.starts_with(&folder));
        if !own.any(|(_, file)| file.code.contains(&definition)) {
            let why = format!("nothing checks it: `{}` has no test `{}`", generated.package, generated.test);
            problems.push(Problem::new(generated.path, 0, why));
        }
    }
    problems
}

#[cfg(test)]
mod tests;
