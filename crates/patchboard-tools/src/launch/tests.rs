use super::*;
use crate::guard::ReducedRights;

#[test]
fn python_of_the_agents_folders_keeps_compiled_modules_to_itself() {
    let private = Some(Path::new("/data/mcp/srv"));
    let variables = vec![("PYTHONPYCACHEPREFIX".to_owned(), "/data/mcp/srv/pycache".to_owned())];
    let option = vec!["-X".to_owned(), "pycache_prefix=/data/mcp/srv/pycache".to_owned()];
    let check = |rights: Admission, program: &str, private, arguments: &[String], variables: &[(String, String)]| {
        let expected = OwnBytecode { arguments: arguments.into(), variables: variables.into() };
        assert_eq!(own_bytecode(&rights, program, private), expected, "{program} {private:?}");
    };
    let reduced = || Admission::Reduced(ReducedRights::default());
    check(reduced(), "/usr/bin/python3.11", private, &option, &variables);
    check(reduced(), "/usr/bin/uv", private, &[], &variables);
    check(reduced(), "python3", None, &[], &[]);
    check(Admission::Full, "python3", private, &[], &[]);
}
