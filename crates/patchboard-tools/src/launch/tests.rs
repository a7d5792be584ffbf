use super::*;
use crate::guard::ReducedRights;

#[test]
fn python_of_the_agents_folders_keeps_compiled_modules_to_itself() {
    let private = Some(Path::new("/data/mcp/srv"));
    let variables = vec![("PYTHONPYCACHEPREFIX".to_owned(), "/data/mcp/srv/pycache".to_owned())];
    let option = vec!["-X".to_owned(), "pycache_prefix=/data/mcp/srv/pycache".to_owned()];
    let check =
        |rights: ProgramRights, program: &str, private, arguments: &[String], variables: &[(String, String)]| {
            let expected = PythonCacheSettings { arguments: arguments.into(), variables: variables.into() };
            assert_eq!(python_cache_settings(&rights, program, private), expected, "{program} {private:?}");
        };
    let reduced = || ProgramRights::Reduced(ReducedRights::default());
    check(reduced(), "/usr/bin/python3.11", private, &option, &variables);
    check(reduced(), "/usr/bin/uv", private, &[], &variables);
    check(reduced(), "python3", None, &[], &[]);
    check(ProgramRights::Full, "python3", private, &[], &[]);
}

#[test]
fn nothing_is_looked_for_where_agents_write() {
    let variables = |list: &[(&str, &str)]| {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
    };
    let is_agents = |path: &Path| path.starts_with("/agents/work");
    let mut environment =
        variables(&[("PATH", "/agents/work/bin:/usr/bin::.:bin:/bin"), ("HOME", "/agents/work"), ("LANG", "C")]);
    remove_agent_writable_paths(&mut environment, is_agents);
    let expected = [("PATH", "/usr/bin:/bin"), ("HOME", "/agents/work"), ("LANG", "C"), ("PYTHONNOUSERSITE", "1")];
    assert_eq!(environment, variables(&expected));
    let mut elsewhere = variables(&[("PATH", "/usr/bin"), ("HOME", "/users/me")]);
    remove_agent_writable_paths(&mut elsewhere, is_agents);
    assert_eq!(elsewhere, variables(&[("PATH", "/usr/bin"), ("HOME", "/users/me")]));
}
